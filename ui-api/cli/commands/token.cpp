// lockstep token ...
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ui-api/cli/commands.hpp"
#include "ui-api/cli/table.hpp"

namespace lockstep::cli {
namespace {

std::string tokens_text(const json& tokens) {
  Table table{"NAME", "ROLE", "MADE", "LAST USED", "EXPIRES", "ID"};
  for (const json& token : tokens) {
    table.add({text(token, "name"), text(token, "role"), short_time(part(token, "created_at")),
               short_time(part(token, "last_used_at")), short_time(part(token, "expires_at")), text(token, "id")});
  }
  return table.text();
}

void add_create(CLI::App& token, Action& chosen) {
  struct Options {
    std::string name;
    std::string role = "admin";
    std::uint64_t days = 0;
  };
  auto o = std::make_shared<Options>();
  auto* c = token.add_subcommand("create", "Make a token; its secret is printed once");
  c->footer("Example:\n  lockstep token create prometheus --role viewer > token");
  c->add_option("name", o->name, "What it is for")->required();
  c->add_option("--role", o->role, "admin may do everything, viewer may only read (default: admin)")
      ->check(CLI::IsMember({"admin", "viewer"}))
      ->type_name("admin|viewer");
  c->add_option("--expires-days", o->days, "Ends after so many days (default: never)")
      ->check(CLI::Range(1, 3650))
      ->type_name("DAYS");
  c->callback([o, &chosen] {
    chosen = [o](Context& context) -> Outcome<void> {
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

void add_token_commands(CLI::App& app, Action& chosen) {
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
  add_create(*token, chosen);
  add_revoke(*token, chosen);
}

}  // namespace lockstep::cli
