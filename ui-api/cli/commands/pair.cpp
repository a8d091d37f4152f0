// lockstep pair ...
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ui-api/cli/chap_options.hpp"
#include "ui-api/cli/commands.hpp"
#include "ui-api/cli/files.hpp"
#include "ui-api/cli/size.hpp"
#include "ui-api/cli/table.hpp"
#include "ui-api/cli/witness_options.hpp"

namespace lockstep::cli {
namespace {

struct NodeOptions {
  std::string name;
  std::vector<std::string> portals;
  std::string link, management;

  void add_to(CLI::App& command) {
    const auto group = "This node (default: as in its mgmtd.toml)";
    command.add_option("--node-name", name, "How it is called")->type_name("NAME")->group(group);
    command.add_option("--portal", portals, "Where hosts reach it; may be repeated")
        ->type_name("IP:PORT")
        ->group(group);
    command.add_option("--link", link, "Where its partner reaches it for replication")
        ->type_name("IP:PORT")
        ->group(group);
    command.add_option("--management", management, "Where its partner's management reaches it")
        ->type_name("IP:PORT")
        ->group(group);
  }
  [[nodiscard]] json body() const {
    json node = json::object();
    if (!name.empty()) node["name"] = name;
    if (!portals.empty()) node["portals"] = portals;
    if (!link.empty()) node["link_address"] = link;
    if (!management.empty()) node["management_address"] = management;
    return node;
  }
};

Outcome<json> witness_body(Context& context, const WitnessOptions& witness, std::string* pair_id) {
  auto body = witness.body(context, pair_id);
  if (body) (*body)["kind"] = "witness";
  return body;
}

std::string arbiter_text(const json& arbiter) {
  if (text(arbiter, "kind") == "witness") {
    const std::string user = text(arbiter, "user");
    return "witness at " + joined(part(arbiter, "endpoints")) + (user.empty() ? "" : " as " + user);
  }
  if (text(arbiter, "kind") == "fence") return "fence: each node's command powers the other off";
  if (text(arbiter, "kind") == "preferred") return "none; side " + text(arbiter, "preferred_side") + " is preferred";
  return "-";
}

std::string link_text(const std::string& protection) {
  if (protection == "required") return "encrypted (TLS 1.3)";
  if (protection == "off") return "not encrypted: see `lockstep pair protect-link`";
  return "about to be protected otherwise: takes calls with TLS and without";
}

}  // namespace

std::string pair_text(const json& pair) {
  if (text(pair, "state") == "none")
    return "This node is not in a pair. Make one with `lockstep pair create`; if it was in one, see `lockstep "
           "health`.\n";
  Facts facts;
  facts.add("Name", text(pair, "name"));
  facts.add("State", text(pair, "state") == "complete" ? "complete" : "alone: the second node has not joined yet");
  facts.add("Target", text(pair, "target_name"));
  facts.add("Arbiter", arbiter_text(part(pair, "arbiter")));
  const json& settings = part(pair, "settings");
  std::string lease = fmt::format("{} ms", number(settings, "lease_ms"));
  if (const std::uint64_t other = number(settings, "other_lease_ms"); other != 0)
    lease += fmt::format("; is being changed, {} ms counts, too", other);
  facts.add("Lease", lease);
  const std::uint64_t ceiling = number(settings, "resync_ceiling_bytes_per_second");
  facts.add("Resync", fmt::format("at least {}/s, {}", format_size(number(settings, "resync_floor_bytes_per_second")),
                                  ceiling == 0 ? "no ceiling" : "at most " + format_size(ceiling) + "/s"));
  const std::string finder = text(pair, "discovery_chap_user");
  facts.add("Discovery", finder.empty() ? "open" : "asks for the secret of " + finder);
  facts.add("Link", link_text(text(pair, "link_protection")));
  facts.add("Asked", fmt::format("side {}", text(pair, "local_side")));
  facts.add("Revision", std::to_string(number(pair, "revision")));
  facts.add("Id", text(pair, "id"));
  return facts.text();
}

namespace {

void add_create(CLI::App& pair, Action& chosen) {
  struct Options {
    std::string name, id, target, preferred, floor, ceiling;
    bool fence = false;
    WitnessOptions witness;
    std::uint64_t lease_ms = 0;
    NodeOptions node;
  };
  auto o = std::make_shared<Options>();
  auto* c = pair.add_subcommand("create", "Make a pair, with the node asked as side A");
  c->footer(
      "Examples:\n"
      "  lockstep pair create pair1 --witness-token-file -\n"
      "  lockstep pair create pair1 --witness http://10.0.0.10:2379\n"
      "  lockstep pair create pair1 --witness https://10.0.0.10:2379 --witness-ca ca.pem --witness-user lockstep "
      "--witness-password-file password\n"
      "  lockstep pair create pair1 --preferred a --portal 10.0.0.11:3260 --link 10.0.1.11:3261\n"
      "  lockstep pair create pair1 --fence        /etc/lockstep/fence.toml says what powers the partner off");
  c->add_option("name", o->name, "Lower-case letters, digits and hyphens")->required();
  const auto witness = o->witness.add_to(*c);
  auto* preferred =
      c->add_option("--preferred", o->preferred, "No witness: this side goes on when the nodes cannot talk")
          ->check(CLI::IsMember({"a", "b"}))
          ->excludes(witness.endpoints)
          ->excludes(witness.token)
          ->type_name("a|b");
  c->add_flag("--fence", o->fence, "No witness: who powers the partner off goes on (lockstep-fence(8))")
      ->excludes(witness.endpoints)
      ->excludes(witness.token)
      ->excludes(preferred);
  c->add_option("--target-name", o->target, "The target's iSCSI name")->type_name("IQN");
  c->add_option("--id", o->id, "The pair's id that the witness's user is for; `lockstep-witness add-pair` tells it")
      ->type_name("UUID");
  c->add_option("--lease-ms", o->lease_ms, "How long a node may serve without having heard from its partner")
      ->type_name("MS");
  c->add_option("--resync-floor", o->floor, "Resync is never slower, a second")->type_name("SIZE");
  c->add_option("--resync-ceiling", o->ceiling, "Resync is never faster, a second")->type_name("SIZE");
  o->node.add_to(*c);
  c->callback([o, &chosen] {
    chosen = [o](Context& context) -> Outcome<void> {
      if (!o->witness.name_one() && o->preferred.empty() && !o->fence) {
        return fail(Exit::usage,
                    "Who decides when the nodes cannot talk? Name a witness with --witness URL (recommended), or the "
                    "node that goes on with --preferred a, or have each power the other off with --fence.");
      }
      json body{{"name", o->name}};
      Outcome<json> arbiter =
          o->fence ? json{{"kind", "fence"}} : json{{"kind", "preferred"}, {"preferred_side", o->preferred}};
      std::string id = o->id;
      if (o->witness.name_one()) arbiter = witness_body(context, o->witness, &id);
      if (!arbiter) return std::unexpected(arbiter.error());
      body["arbiter"] = std::move(*arbiter);
      if (!o->target.empty()) body["target_name"] = o->target;
      if (!id.empty()) body["id"] = id;
      if (const json node = o->node.body(); !node.empty()) body["node"] = node;
      json settings = json::object();
      if (o->lease_ms != 0) settings["lease_ms"] = o->lease_ms;
      for (const auto& [given, key] : {std::pair{&o->floor, "resync_floor_bytes_per_second"},
                                       std::pair{&o->ceiling, "resync_ceiling_bytes_per_second"}}) {
        if (given->empty()) continue;
        const auto bytes = parse_size(*given);
        if (!bytes) return std::unexpected(bytes.error());
        settings[key] = *bytes;
      }
      if (!settings.empty()) body["settings"] = settings;
      const auto made = context.api.post("/pair", body);
      if (!made) return std::unexpected(made.error());
      context.show(*made, [](const json& p) {
        return pair_text(p) + "\nNext: `lockstep pair invite` here, then `lockstep pair join` on the second node.\n";
      });
      return {};
    };
  });
}

void add_discovery(CLI::App& pair, Action& chosen) {
  struct Options {
    ChapOptions chap;
    bool open = false;
  };
  auto o = std::make_shared<Options>();
  auto* c = pair.add_subcommand("discovery", "Change what hosts prove themselves with to find the target");
  c->footer(
      "Examples:\n"
      "  lockstep pair discovery --chap-user finder --chap-secret-file secret\n"
      "  lockstep pair discovery --open");
  o->chap.add_to(*c, "--chap", "whoever asks");
  c->add_flag("--open", o->open, "Whoever reaches a portal is told the target's name and portals (default)")
      ->excludes("--chap-user");
  c->callback([o, &chosen] {
    chosen = [o](Context& context) -> Outcome<void> {
      auto chap = o->chap.body(context, "--chap");
      if (!chap) return std::unexpected(chap.error());
      if (chap->is_null() && !o->open)
        return fail(Exit::usage, "Say --chap-user USER with --chap-secret-file FILE, or --open.");
      const auto changed = context.api.patch("/pair", json{{"discovery_chap", std::move(*chap)}});
      if (!changed) return std::unexpected(changed.error());
      context.show(*changed, pair_text);
      return {};
    };
  });
}

void add_invite(CLI::App& pair, Action& chosen) {
  auto* c = pair.add_subcommand("invite", "Make an invitation for the second node; it works once");
  c->footer("Example:\n  lockstep pair invite");
  c->callback([&chosen] {
    chosen = [](Context& context) -> Outcome<void> {
      const auto made = context.api.post("/pair/invitations", json::object());
      if (!made) return std::unexpected(made.error());
      if (!context.json_output) {
        context.err << "On the second node, until " << short_time(part(*made, "expires_at"))
                    << " UTC:\n  lockstep pair join INVITATION\nThe invitation is:\n";
      }
      context.show(*made, [](const json& i) { return text(i, "invitation") + "\n"; });
      return {};
    };
  });
}

void add_join(CLI::App& pair, Action& chosen) {
  struct Options {
    std::string invitation;
    bool no_wait = false;
    NodeOptions node;
  };
  auto o = std::make_shared<Options>();
  auto* c = pair.add_subcommand("join", "Let the node asked join a pair");
  c->footer("Example:\n  lockstep pair join lsi1.eyJ1...");
  c->add_option(
       "invitation", o->invitation,
       "What `lockstep pair invite` printed on the first node, or `lockstep node replace` on the one that is left")
      ->required();
  c->add_flag("--no-wait", o->no_wait, "Do not wait for the job");
  o->node.add_to(*c);
  c->callback([o, &chosen] {
    chosen = [o](Context& context) -> Outcome<void> {
      json body{{"invitation", o->invitation}};
      if (const json node = o->node.body(); !node.empty()) body["node"] = node;
      auto job = context.api.post("/pair/join", body);
      if (!job) return std::unexpected(job.error());
      return finish_job(context, std::move(*job), !o->no_wait);
    };
  });
}

std::string saved_text(const json& recovery) {
  const json& saved = part(recovery, "saved");
  Facts facts;
  facts.add("Pair", text(saved, "pair"));
  facts.add("This node", fmt::format("{}, side {}", text(saved, "node"), text(saved, "side")));
  facts.add("Revision",
            fmt::format("{}, saved {} UTC", number(saved, "revision"), short_time(part(saved, "saved_at"))));
  std::string names;
  for (const json& v : part(saved, "volumes"))
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", text(v, "name"), format_size(number(v, "size_bytes")));
  facts.add("Volumes", or_dash(names));
  if (const std::string says = text(recovery, "partner_says"); !says.empty()) facts.add("Other node", printable(says));
  if (const std::string lost = text(recovery, "loses"); !lost.empty()) facts.add("Is lost", printable(lost));
  return facts.text();
}

std::string members_text(const json& epoch) {
  const std::string members = text(epoch, "members");
  return members == "both" ? "both nodes" : "side " + members + " alone";
}

std::string rebuild_text(const json& rebuild) {
  Facts facts;
  facts.add("Pair", text(rebuild, "pair_id"));
  facts.add("This node", "side " + text(rebuild, "side"));
  facts.add("Arbiter", arbiter_text(part(rebuild, "arbiter")));
  Table volumes{"VOLUME", ">LUN", ">SIZE", "SERIAL", "IN FORCE FOR", ">EPOCH", "NOTE"};
  for (const json& v : part(rebuild, "volumes")) {
    std::string note = flag(v, "encrypted") ? "encrypted" : "";
    if (const std::string named = text(v, "recorded_name"); !named.empty())
      note += fmt::format("{}recorded as {}", note.empty() ? "" : ", ", named);
    if (const auto copy = number(v, "copy"); copy > 1) note += fmt::format("{}copy {}", note.empty() ? "" : ", ", copy);
    volumes.add({text(v, "name"), std::to_string(number(v, "lun")), format_size(number(v, "size_bytes")),
                 text(v, "serial"), members_text(part(v, "epoch")), std::to_string(number(part(v, "epoch"), "number")),
                 or_dash(note)});
  }
  return facts.text() + "\n" + volumes.text();
}

std::string left_alone_text(const json& recovery) {
  std::string lines;
  for (const json& r : part(recovery, "replicas")) {
    const std::string why = text(r, "left_alone");
    if (why.empty() && part(recovery, "rebuild").is_object()) continue;
    lines += fmt::format("  {} copy {} ({}){}\n", text(r, "volume_id"), number(r, "copy"),
                         format_size(number(r, "bytes")), why.empty() ? "" : ": " + printable(why));
  }
  if (lines.empty()) return {};
  return (part(recovery, "rebuild").is_object() ? "\nReplicas that are not used:\n" : "Replicas that are here:\n") +
         lines;
}

std::string recovery_text(const json& recovery) {
  std::string out = part(recovery, "saved").is_object() ? saved_text(recovery) : "";
  if (part(recovery, "rebuild").is_object()) out += rebuild_text(part(recovery, "rebuild"));
  if (!part(recovery, "saved").is_object()) out += left_alone_text(recovery);
  if (const std::string problem = text(recovery, "problem"); !problem.empty()) out += printable(problem) + "\n";
  return out;
}

struct RecoverOptions {
  std::string confirmation, pair, name, target, preferred;
  bool show = false;
  WitnessOptions witness;
  NodeOptions node;

  /// What only a rebuild takes; empty: nothing was said.
  [[nodiscard]] Outcome<json> rebuild(Context& context) const {
    json body = json::object();
    if (!pair.empty()) body["pair"] = pair;
    if (!name.empty()) body["name"] = name;
    if (!target.empty()) body["target_name"] = target;
    if (!preferred.empty()) body["arbiter"] = {{"kind", "preferred"}, {"preferred_side", preferred}};
    if (witness.name_one()) {
      auto arbiter = witness_body(context, witness, nullptr);
      if (!arbiter) return std::unexpected(arbiter.error());
      body["arbiter"] = std::move(*arbiter);
    }
    if (const json described = node.body(); !described.empty()) body["node"] = described;
    return body;
  }
};

std::string next_step(const json& pair, bool rebuilt) {
  const std::string other = text(pair, "local_side") == "a" ? "b" : "a";
  if (rebuilt)
    return "\nNext: name the hosts again (`lockstep initiator add`, `lockstep volume access`), and let the other node "
           "join: `lockstep pair invite` here, then `lockstep pair join` there.\n";
  if (text(pair, "state") != "complete") return "";
  return fmt::format("\nNext: `lockstep node replace {}` here, then `lockstep pair join` on the other node.\n", other);
}

Outcome<void> recover(Context& context, const RecoverOptions& o) {
  const auto found = context.api.get("/pair/recovery" + (o.pair.empty() ? "" : "?pair=" + percent_encode(o.pair)));
  if (!found) return std::unexpected(found.error());
  if (o.show) {
    context.show(*found, recovery_text);
    return {};
  }
  if (!flag(*found, "recoverable")) return fail(Exit::refused, recovery_text(*found));
  auto body = o.rebuild(context);
  if (!body) return std::unexpected(body.error());
  const bool rebuilt = part(*found, "rebuild").is_object();
  if (rebuilt && o.name.empty())
    return fail(Exit::usage, recovery_text(*found) +
                                 "There is no saved copy of the configuration; it can be made anew from these "
                                 "replicas. Say the pair's name with --name: no replica has it.");
  const std::string name = rebuilt ? o.name : text(part(*found, "saved"), "pair");
  const std::string what =
      rebuilt
          ? recovery_text(*found) +
                "\nThe configuration is made anew on this node. Hosts, their secrets, tokens and settings are lost; no "
                "host may use a volume until it is let in again, and LUNs may be another volume's than before. " +
                (o.target.empty() ? "So the target gets a new name, which hosts have to be given. "
                                  : "Shut down every host that used this pair, before it is let in: one that waits "
                                    "would write what it holds into another volume. ") +
                "Replicas that are not used can't be taken in later. Use the other node if it has its database or "
                "a saved copy (`lockstep pair recover --show` there), or newer epochs."
          : saved_text(*found) + "This is put in force on this node.";
  if (auto sure = confirm(context, what, name, o.confirmation); !sure) return sure;
  (*body)["confirm"] = name;
  const auto made = context.api.post("/pair/recovery", *body);
  if (!made) return std::unexpected(made.error());
  context.show(*made, [rebuilt](const json& p) { return pair_text(p) + next_step(p, rebuilt); });
  return {};
}

void add_recover(CLI::App& pair, Action& chosen) {
  auto o = std::make_shared<RecoverOptions>();
  auto* c = pair.add_subcommand("recover",
                                "Put the configuration saved beside the volumes in force again, or make it "
                                "anew from the replicas");
  c->footer(
      "For when no node has its database any more; while one has, use `lockstep node replace` on that one.\n"
      "Examples:\n"
      "  lockstep pair recover --show\n"
      "  lockstep pair recover --confirm pair1\n"
      "  lockstep pair recover --name pair1        no saved copy is left: from the replicas");
  auto* show = c->add_flag("--show", o->show, "Only show what was found");
  c->add_option("--confirm", o->confirmation, "The pair's name, in place of the question")
      ->type_name("NAME")
      ->excludes(show);
  const auto anew = "No saved copy is left: made anew from the replicas";
  c->add_option("--name", o->name, "The pair's name, as it was")->type_name("NAME")->group(anew);
  c->add_option("--pair", o->pair, "Of whose replicas, where those of several pairs are here")
      ->type_name("ID")
      ->group(anew);
  c->add_option("--target-name", o->target,
                "The target's iSCSI name; without it a new one, since LUNs may be other volumes' than before")
      ->type_name("IQN")
      ->group(anew);
  const auto witness = o->witness.add_to(*c);
  c->add_option("--preferred", o->preferred, "Where the replicas do not name one arbiter: the side that goes on")
      ->check(CLI::IsMember({"a", "b"}))
      ->excludes(witness.endpoints)
      ->excludes(witness.token)
      ->type_name("a|b")
      ->group(anew);
  o->node.add_to(*c);
  c->callback([o, &chosen] { chosen = [o](Context& context) { return recover(context, *o); }; });
}

}  // namespace

void add_pair_commands(CLI::App& app, Action& chosen) {
  auto* pair = app.add_subcommand("pair", "The two nodes that hold the same volumes");
  pair->require_subcommand(1);
  auto* show = pair->add_subcommand("show", "Show the pair");
  show->callback([&chosen] {
    chosen = [](Context& context) -> Outcome<void> {
      const auto found = context.api.get("/pair");
      if (!found) return std::unexpected(found.error());
      context.show(*found, pair_text);
      return {};
    };
  });
  add_create(*pair, chosen);
  add_discovery(*pair, chosen);
  add_pair_set_command(*pair, chosen);
  add_pair_arbiter_commands(*pair, chosen);
  add_pair_witness_commands(*pair, chosen);
  add_pair_link_commands(*pair, chosen);
  add_invite(*pair, chosen);
  add_join(*pair, chosen);
  add_pair_configuration_commands(*pair, chosen);
  add_pair_leave_commands(*pair, chosen);
  add_recover(*pair, chosen);
}

}  // namespace lockstep::cli
