// lockstep job ...
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ui-api/cli/commands.hpp"
#include "ui-api/cli/table.hpp"

namespace lockstep::cli {
namespace {

std::string jobs_text(const json& jobs) {
  Table table{"BEGAN", "KIND", "STATE", ">DONE", "MESSAGE", "ID"};
  for (const json& job : jobs) {
    const json& progress = part(job, "progress");
    const json& error = part(job, "error");
    table.add({short_time(part(job, "created_at")), text(job, "kind"), text(job, "state"),
               fmt::format("{:.0f} %", progress.is_number() ? progress.get<double>() * 100 : 0.0),
               error.is_object() ? text(error, "detail") : text(job, "message"), text(job, "id")});
  }
  return table.empty() ? "No jobs.\n" : table.text();
}

}  // namespace

void add_job_commands(CLI::App& app, Action& chosen) {
  auto* job = app.add_subcommand("job", "What takes longer than a moment");
  job->require_subcommand(1);

  auto limit = std::make_shared<unsigned>(20);
  auto* list = job->add_subcommand("list", "List jobs, newest first");
  list->add_option("--limit", *limit, "At most this many (default: 20)")->check(CLI::Range(1, 1000));
  list->callback([limit, &chosen] {
    chosen = [limit](Context& context) -> Outcome<void> {
      const auto jobs = context.api.list(fmt::format("/jobs?limit={}", *limit));
      if (!jobs) return std::unexpected(jobs.error());
      context.show(*jobs, jobs_text);
      return {};
    };
  });

  struct ShowOptions {
    std::string id;
    bool no_wait = false;
  };
  auto o = std::make_shared<ShowOptions>();
  auto* show = job->add_subcommand("show", "Wait for a job and tell how it ended");
  show->add_option("id", o->id, "The job's id")->required();
  show->add_flag("--no-wait", o->no_wait, "Show how it stands now");
  show->callback([o, &chosen] {
    chosen = [o](Context& context) -> Outcome<void> {
      auto found = context.api.get("/jobs/" + percent_encode(o->id));
      if (!found) return std::unexpected(found.error());
      if (!o->no_wait) return finish_job(context, std::move(*found), true);
      context.show(*found, [](const json& j) { return jobs_text(json::array({j})); });
      return {};
    };
  });

  auto id = std::make_shared<std::string>();
  auto* cancel = job->add_subcommand("cancel",
                                     "End an import, the replacement of a copy, a change of the witness or arbiter, or "
                                     "a dissolution that has begun to "
                                     "delete no volume yet; what it did is taken back");
  cancel->add_option("id", *id, "The job's id")->required();
  cancel->callback([id, &chosen] {
    chosen = [id](Context& context) -> Outcome<void> {
      const auto asked = context.api.post("/jobs/" + percent_encode(*id) + "/cancel", json());
      if (!asked) return std::unexpected(asked.error());
      context.show(*asked,
                   [](const json& j) { return "Job " + text(j, "id") + " ends and takes back what it made.\n"; });
      return {};
    };
  });
}

}  // namespace lockstep::cli
