// lockstep initiator ...
#include <fstream>
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ui-api/cli/commands.hpp"
#include "ui-api/cli/table.hpp"

namespace lockstep::cli {
namespace {

Outcome<void> list(Context& context) {
  const auto initiators = context.api.list("/initiators");
  if (!initiators) return std::unexpected(initiators.error());
  if (context.json_output) {
    context.show(*initiators, {});
    return {};
  }
  const auto sessions = context.api.list("/sessions");
  if (!sessions) return std::unexpected(sessions.error());
  Table table{"INITIATOR", "CHAP", "CONNECTED TO", ">VOLUMES"};
  for (const json& initiator : *initiators) {
    std::string sides;
    for (const json& session : *sessions) {
      const std::string side = text(session, "side");
      if (text(session, "initiator") == text(initiator, "iqn") && sides.find(side) == std::string::npos) {
        sides += (sides.empty() ? "" : ", ") + side;
      }
    }
    table.add({text(initiator, "iqn"), text(initiator, "chap"), or_dash(sides),
               std::to_string(part(initiator, "volumes").size())});
  }
  context.out << (table.empty() ? "No initiators. Volumes without an access list are open to any.\n" : table.text());
  return {};
}

/// The first line of a file, or of standard input for "-": secrets do not belong on a command line.
Outcome<std::string> read_secret(Context& context, const std::string& path) {
  std::string secret;
  if (path == "-") {
    std::getline(context.in, secret);
  } else {
    std::ifstream file(path);
    std::getline(file, secret);
  }
  if (secret.empty())
    return fail(Exit::usage, fmt::format("No secret can be read from {}.", path == "-" ? "standard input" : path));
  return secret;
}

struct Chap {
  std::string user, secret, secret_file;

  void add_to(CLI::App& c, const std::string& prefix, const std::string& who) {
    auto* user_option =
        c.add_option(prefix + "-user", user, "CHAP user that " + who + " proves itself with")->type_name("USER");
    auto* plain = c.add_option(prefix + "-secret", secret,
                               "Its secret, at least 12 characters; other users of this machine may see it")
                      ->needs(user_option)
                      ->type_name("SECRET");
    c.add_option(prefix + "-secret-file", secret_file, "File with the secret, - for standard input")
        ->needs(user_option)
        ->excludes(plain)
        ->type_name("FILE");
  }
  Outcome<json> body(Context& context, const char* option) const {
    if (user.empty()) return json();
    std::string value = secret;
    if (!secret_file.empty()) {
      auto read = read_secret(context, secret_file);
      if (!read) return std::unexpected(read.error());
      value = std::move(*read);
    }
    if (value.empty())
      return fail(Exit::usage, fmt::format("The secret is missing: give {0}-secret-file FILE or {0}-secret.", option));
    return json{{"user", user}, {"secret", value}};
  }
};

void add_add(CLI::App& initiator, Action& chosen) {
  struct Options {
    std::string iqn;
    Chap chap, mutual;
  };
  auto o = std::make_shared<Options>();
  auto* c = initiator.add_subcommand("add", "Make an initiator known");
  c->footer(
      "Examples:\n"
      "  lockstep initiator add iqn.1993-08.org.debian:01:host1\n"
      "  lockstep initiator add iqn.1998-01.com.vmware:esx1 --chap-user esx1 --chap-secret-file secret");
  c->add_option("iqn", o->iqn, "The initiator's iSCSI name")->required();
  o->chap.add_to(*c, "--chap", "the initiator");
  o->mutual.add_to(*c, "--mutual", "the target");
  c->callback([o, &chosen] {
    chosen = [o](Context& context) -> Outcome<void> {
      json body{{"iqn", o->iqn}};
      auto chap = o->chap.body(context, "--chap");
      if (!chap) return std::unexpected(chap.error());
      auto mutual = o->mutual.body(context, "--mutual");
      if (!mutual) return std::unexpected(mutual.error());
      if (chap->is_object()) body["chap"] = std::move(*chap);
      if (mutual->is_object()) body["mutual_chap"] = std::move(*mutual);
      const auto made = context.api.post("/initiators", body);
      if (!made) return std::unexpected(made.error());
      context.show(*made, [](const json& i) { return fmt::format("{} is known on both nodes.\n", text(i, "iqn")); });
      return {};
    };
  });
}

void add_remove(CLI::App& initiator, Action& chosen) {
  auto iqn = std::make_shared<std::string>();
  auto* c = initiator.add_subcommand("remove", "Forget an initiator; refused while a volume's access list names it");
  c->add_option("iqn", *iqn, "The initiator's iSCSI name")->required();
  c->callback([iqn, &chosen] {
    chosen = [iqn](Context& context) -> Outcome<void> {
      const auto gone = context.api.remove("/initiators/" + percent_encode(*iqn));
      if (!gone) return std::unexpected(gone.error());
      if (!context.json_output) context.out << *iqn << " is forgotten.\n";
      return {};
    };
  });
}

}  // namespace

void add_initiator_commands(CLI::App& app, Action& chosen) {
  auto* initiator = app.add_subcommand("initiator", "The hosts that may use volumes");
  initiator->require_subcommand(1);
  initiator->add_subcommand("list", "List the known initiators")->callback([&chosen] { chosen = list; });
  add_add(*initiator, chosen);
  add_remove(*initiator, chosen);
}

}  // namespace lockstep::cli
