// lockstep initiator ...
#include <map>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ui-api/cli/chap_options.hpp"
#include "ui-api/cli/commands.hpp"
#include "ui-api/cli/table.hpp"

namespace lockstep::cli {
namespace {

Outcome<void> list_initiators(Context& context) {
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
    std::map<std::string, bool> over_rdma;  // by side
    for (const json& session : *sessions) {
      if (text(session, "initiator") != text(initiator, "iqn")) continue;
      over_rdma[text(session, "side")] |= text(session, "transport") == "rdma";
    }
    std::string sides;
    for (const auto& [side, rdma] : over_rdma) sides += (sides.empty() ? "" : ", ") + side + (rdma ? " (RDMA)" : "");
    table.add({text(initiator, "iqn"), text(initiator, "chap"), or_dash(sides),
               std::to_string(part(initiator, "volumes").size())});
  }
  context.out << (table.empty() ? "No initiators. Make one known with `lockstep initiator add IQN`.\n" : table.text());
  return {};
}

void add_add(CLI::App& initiator, Action& chosen) {
  struct Options {
    std::string iqn;
    ChapOptions chap, mutual;
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
      context.show(*made, [](const json& i) { return fmt::format("{} is known.\n", text(i, "iqn")); });
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
  initiator->add_subcommand("list", "List the known initiators")->callback([&chosen] { chosen = list_initiators; });
  add_add(*initiator, chosen);
  add_remove(*initiator, chosen);
  add_initiator_show(*initiator, chosen);
  add_initiator_secret(*initiator, chosen);
}

}  // namespace lockstep::cli
