#include "ui-api/cli/context.hpp"

#include <iostream>

#include <fmt/format.h>

#include "ui-api/cli/problem.hpp"
#include "ui-api/cli/table.hpp"

namespace lockstep::cli {
namespace {

constexpr unsigned kJobPollMs = 200;
constexpr unsigned kBarWidth = 30;

std::string progress_bar(const json& job) {
  const json& progress = part(job, "progress");
  const double done = std::clamp(progress.is_number() ? progress.get<double>() : 0.0, 0.0, 1.0);
  const auto filled = static_cast<std::size_t>(done * kBarWidth);
  return fmt::format("[{}{}] {:3.0f} %  {}", std::string(filled, '#'), std::string(kBarWidth - filled, '.'), done * 100,
                     printable(text(job, "message")));
}

/// Says how the job goes: one line that is rewritten on a terminal, else a line for each new message.
class JobReporter {
 public:
  explicit JobReporter(Context& context) : context_(context) {}
  ~JobReporter() {
    if (drawn_) context_.err << "\r\033[K" << std::flush;
  }
  void update(const json& job) {
    if (context_.json_output) return;
    if (context_.terminal) {
      context_.err << "\r\033[K" << progress_bar(job) << std::flush;
      drawn_ = true;
    } else if (text(job, "message") != last_) {
      last_ = text(job, "message");
      context_.err << printable(last_) << '\n' << std::flush;
    }
  }

 private:
  Context& context_;
  bool drawn_ = false;
  std::string last_;
};

Outcome<json> wait_for(Context& context, json job) {
  JobReporter reporter(context);
  while (text(job, "state") == "pending" || text(job, "state") == "running") {
    reporter.update(job);
    context.sleep(kJobPollMs);
    auto next = context.api.get("/jobs/" + text(job, "id"));
    if (!next) {
      next.error().message +=
          fmt::format("\nThe job goes on; look for it with `lockstep job show {}`.", text(job, "id"));
      return next;
    }
    job = std::move(*next);
  }
  return job;
}

}  // namespace

void Context::show(const json& value, const std::function<std::string(const json&)>& human) {
  out << (json_output ? value.dump(2) + "\n" : human(value)) << std::flush;
}

Outcome<json> find_volume(Context& context, const std::string& name) {
  auto volumes = context.api.list("/volumes");
  if (!volumes) return volumes;
  for (json& volume : *volumes) {
    if (text(volume, "name") == name || text(volume, "id") == name) return std::move(volume);
  }
  return fail(Exit::refused, fmt::format("There is no volume {}.\nSee `lockstep volume list`.", name));
}

Outcome<std::string> find_side(Context& context, const std::string& node) {
  if (node == "a" || node == "b") return node;
  const auto nodes = context.api.list("/nodes");
  if (!nodes) return std::unexpected(nodes.error());
  for (const json& candidate : *nodes) {
    if (text(candidate, "name") == node) return text(candidate, "side");
  }
  return fail(Exit::usage,
              fmt::format("There is no node {}. Name a side, a or b, or a node from `lockstep node list`.", node));
}

Outcome<std::string> what_is_risked(Context& context, const std::string& path, const json& body,
                                    const std::string& given, bool without_changes) {
  if (!given.empty()) return std::string();
  const auto asked = context.api.post(path, body);
  if (asked) return std::string();
  Failure why = asked.error();
  if (!why.type.ends_with(":confirmation-needed")) return std::unexpected(why);
  const auto detail = why.message.find('\n');  // below the title
  if (detail == std::string::npos) return std::string();
  const std::string line = why.message.substr(detail, why.message.find('\n', detail + 1) - detail);
  const std::string risked = line.substr(0, line.find(" Send `"));  // a program's business
  if (line.find(" without its changes` as") == std::string::npos || without_changes) return risked;
  why.message =
      why.message.substr(0, detail) + risked + " If that is meant, repeat the command with --without-its-changes.";
  return std::unexpected(why);
}

Outcome<void> confirm(Context& context, const std::string& warning, const std::string& name, const std::string& given) {
  if (given == name) return {};
  if (!given.empty())
    return fail(Exit::usage, fmt::format("--confirm {} is not the name, {}. Nothing was done.", given, name));
  if (!context.terminal) {
    return fail(Exit::usage, fmt::format("{}\nTo confirm, repeat the command with --confirm {}.", warning, name));
  }
  context.err << warning << "\nType " << name << " to confirm: " << std::flush;
  std::string typed;
  std::getline(context.in, typed);
  if (typed == name) return {};
  return fail(Exit::usage, "Not confirmed. Nothing was done.");
}

Outcome<void> finish_job(Context& context, json job, bool wait) {
  if (wait) {
    auto finished = wait_for(context, std::move(job));
    if (!finished) return std::unexpected(finished.error());
    job = std::move(*finished);
  }
  const bool failed = text(job, "state") == "failed";
  if (context.json_output || !failed) {
    context.show(job, [&](const json& j) {
      return wait ? printable(text(j, "message")) + "\n" : fmt::format("Job {} was started.\n", text(j, "id"));
    });
  }
  if (!failed) return {};
  const json& error = part(job, "error");
  return fail(Exit::refused,
              error.is_object() ? render_problem(error) : "The job failed: " + printable(text(job, "message")));
}

std::string short_time(const json& time) {
  if (!time.is_string()) return "-";
  std::string s = time.get<std::string>().substr(0, 19);
  if (s.size() == 19 && s[10] == 'T') s[10] = ' ';
  return s;
}

std::string or_dash(std::string text) { return text.empty() ? "-" : text; }

std::string joined(const json& texts) {
  std::string out;
  if (!texts.is_array()) return out;
  for (const json& t : texts) {
    if (t.is_string()) out += (out.empty() ? "" : ", ") + t.get<std::string>();
  }
  return out;
}

}  // namespace lockstep::cli
