// lockstep token ...
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "ui-api/cli/commands.hpp"
#include "ui-api/cli/table.hpp"

namespace lockstep::cli {
namespace {

std::string tokens_text(const json& tokens) {
  Table table{"NAME", "ROLE", "MADE", "LAST USED", "EXPIRES", "ID"};
  for (const json& token : tokens) {
    const std::string where = flag(token, "node_only") ? " (this node)" : "";
    table.add({text(token, "name") + where, text(token, "role"), short_time(part(token, "created_at")),
               short_time(part(token, "last_used_at")), short_time(part(token, "expires_at")), text(token, "id")});
  }
  return table.text();
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  file >> text;
  return text;
}

/// lockstep-mgmtd makes another one where the file is gone. Nothing is asked of a server: this is for when no token is
/// known any more, the partner is away, or nobody may change the configuration.
Outcome<void> make_local(const Machine& machine) {
  constexpr int kTurns = 150;
  constexpr unsigned kTurnMs = 100;
  const std::string& path = machine.token_file;
  const std::string before = content_of(path);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    return fail(Exit::refused,
                fmt::format("{} can't be removed: {}. This is for root on a node.", path, std::strerror(errno)));
  for (int i = 0; i < kTurns; ++i) {
    const std::string made = content_of(path);
    if (!made.empty() && made != before) {
      machine.err << "This token is good on this node alone, and is in " << path << ", too:\n" << std::flush;
      machine.out << made << '\n';
      return {};
    }
    machine.sleep(kTurnMs);
  }
  return fail(Exit::unreachable, fmt::format("lockstep-mgmtd has made no token in {}. Is it running here? It makes one "
                                             "when it starts, too.",
                                             path));
}

void add_create(CLI::App& token, Action& chosen, LocalAction& local) {
  struct Options {
    std::string name;
    std::string role = "admin";
    std::uint64_t days = 0;
    bool local = false;
  };
  auto o = std::make_shared<Options>();
  auto* c = token.add_subcommand("create", "Make a token; its secret is printed once");
  c->footer(
      "Examples:\n"
      "  lockstep token create prometheus --role viewer > token\n"
      "  lockstep token create --local      (as root on a node: when no token is known any more)");
  auto* name = c->add_option("name", o->name, "What it is for");
  auto* own =
      c->add_flag("--local", o->local,
                  "As root on a node: another admin's token for this node alone, whatever became of the others");
  own->excludes(name);
  c->add_option("--role", o->role, "admin may do everything, viewer may only read (default: admin)")
      ->check(CLI::IsMember({"admin", "viewer"}))
      ->type_name("admin|viewer");
  c->add_option("--expires-days", o->days, "Ends after so many days (default: never)")
      ->check(CLI::Range(1, 3650))
      ->type_name("DAYS");
  c->callback([o, &chosen, &local] {
    if (o->local) {
      local = make_local;
      return;
    }
    chosen = [o](Context& context) -> Outcome<void> {
      if (o->name.empty()) return fail(Exit::usage, "Say what the token is for: lockstep token create NAME.");
      json body{{"name", o->name}, {"role", o->role}};
      if (o->days != 0) body["expires_in_seconds"] = o->days * 86400;
      const auto made = context.api.post("/tokens", body);
      if (!made) return std::unexpected(made.error());
      if (!context.json_output) context.err << "Keep this token; it cannot be shown again:\n" << std::flush;
      context.show(*made, [](const json& t) { return text(t, "token") + "\n"; });
      return {};
    };
  });
}

void add_revoke(CLI::App& token, Action& chosen) {
  auto name = std::make_shared<std::string>();
  auto* c = token.add_subcommand("revoke", "End a token, at once and on both nodes");
  c->add_option("name", *name, "Name or id")->required();
  c->callback([name, &chosen] {
    chosen = [name](Context& context) -> Outcome<void> {
      const auto tokens = context.api.list("/tokens");
      if (!tokens) return std::unexpected(tokens.error());
      for (const json& candidate : *tokens) {
        if (text(candidate, "name") != *name && text(candidate, "id") != *name) continue;
        const auto gone = context.api.remove("/tokens/" + text(candidate, "id"));
        if (!gone) return std::unexpected(gone.error());
        if (!context.json_output) context.out << *name << " is revoked.\n";
        return {};
      }
      return fail(Exit::refused, fmt::format("There is no token {}.\nSee `lockstep token list`.", *name));
    };
  });
}

}  // namespace

void add_token_commands(CLI::App& app, Action& chosen, LocalAction& local) {
  auto* token = app.add_subcommand("token", "Who may use the API, the page and this command");
  token->require_subcommand(1);
  token->add_subcommand("list", "List the tokens")->callback([&chosen] {
    chosen = [](Context& context) -> Outcome<void> {
      const auto tokens = context.api.list("/tokens");
      if (!tokens) return std::unexpected(tokens.error());
      context.show(*tokens, tokens_text);
      return {};
    };
  });
  add_create(*token, chosen, local);
  add_revoke(*token, chosen);
}

}  // namespace lockstep::cli
