#include "ui-api/cli/completion.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace lockstep::cli {
namespace {

const auto kAll = [](const CLI::App*) { return true; };

/// Long options only: that is what people complete.
std::string words_of(const CLI::App& command) {
  std::string words;
  const auto add = [&words](const std::string& word) { words += (words.empty() ? "" : " ") + word; };
  for (const CLI::App* below : command.get_subcommands(kAll)) add(below->get_name());
  for (const CLI::Option* option : command.get_options([](const CLI::Option*) { return true; }))
    for (const std::string& name : option->get_lnames()) add("--" + name);
  return words;
}

void add_cases(const CLI::App& command, const std::string& path, std::string& cases) {
  cases += fmt::format("    '{}') words='{}' ;;\n", path, words_of(command));
  for (const CLI::App* below : command.get_subcommands(kAll))
    add_cases(*below, path + (path.empty() ? "" : " ") + below->get_name(), cases);
}

std::string known_paths(const CLI::App& command, const std::string& path) {
  std::string paths;
  for (const CLI::App* below : command.get_subcommands(kAll)) {
    const std::string here = path + (path.empty() ? "" : " ") + below->get_name();
    paths += fmt::format("{}'{}'", paths.empty() ? "" : "|", here);
    if (const std::string deeper = known_paths(*below, here); !deeper.empty()) paths += "|" + deeper;
  }
  return paths;
}

}  // namespace

std::string completion_script(const CLI::App& app) {
  std::string cases;
  add_cases(app, "", cases);
  return fmt::format(R"(_lockstep() {{
  local path= word words next i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${{COMP_WORDS[i]}}
    next=${{path:+$path }}$word
    case $next in {0}) path=$next ;; esac
  done
  case $path in
{1}  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _lockstep lockstep
)",
                     known_paths(app, ""), cases);
}

}  // namespace lockstep::cli
