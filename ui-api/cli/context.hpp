#pragma once
// What every command works with, and the questions that several of them ask.
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>

#include "ui-api/cli/api.hpp"
#include "ui-api/cli/settings.hpp"

namespace lockstep::cli {

namespace setup {
class Host;
}

struct Context {
  Api& api;
  std::istream& in;
  std::ostream& out;  ///< results
  std::ostream& err;  ///< progress, questions
  bool json_output = false;
  bool terminal = false;  ///< a person looks at `err` and answers at `in`
  std::function<void(unsigned ms)> sleep;

  /// In JSON when that was asked for, else what `human` makes of it.
  void show(const json& value, const std::function<std::string(const json&)>& human);
};

using Action = std::function<Outcome<void>(Context&)>;

/// What needs no server, but this machine's files. Files as the global options name them, or as they are on a node.
struct Machine {
  std::string token_file;
  std::ostream& out;
  std::ostream& err;
  std::function<void(unsigned ms)> sleep;
  std::istream& in;
  bool terminal = false;  ///< as in Context
  std::string token;      ///< as the global option gave it, or empty
  std::function<std::unique_ptr<Transport>(const Settings&)> connect;
  setup::Host* host = nullptr;  ///< what set-up looks at
};
using LocalAction = std::function<Outcome<void>(const Machine&)>;

/// By name, or by id.
[[nodiscard]] Outcome<json> find_volume(Context& context, const std::string& name);
/// "a" or "b" from a side or a node's name.
[[nodiscard]] Outcome<std::string> find_side(Context& context, const std::string& node);

/// What the node says of a command when it is asked without its confirmation, a line of its own; nothing where the
/// confirmation was `given`. Another refusal is passed on, and so is one for changes that would be lost, where their
/// loss was not said to be meant.
[[nodiscard]] Outcome<std::string> what_is_risked(Context& context, const std::string& path, const json& body,
                                                  const std::string& given, bool without_changes);
/// The person types `name` when there is one; `given` (an option) stands for that. Exit::usage when neither.
[[nodiscard]] Outcome<void> confirm(Context& context, const std::string& warning, const std::string& name,
                                    const std::string& given);

/// Waits for a job, with a progress bar on a terminal, and ends as it ends; with `wait` false only names the job.
[[nodiscard]] Outcome<void> finish_job(Context& context, json job, bool wait);

/// "2026-11-21T08:14:05.120Z" -> "2026-11-21 08:14:05"; "-" for null.
[[nodiscard]] std::string short_time(const json& time);
[[nodiscard]] std::string or_dash(std::string text);
/// "a, b"
[[nodiscard]] std::string joined(const json& texts);

}  // namespace lockstep::cli
