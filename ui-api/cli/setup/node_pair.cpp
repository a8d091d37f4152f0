#include "ui-api/cli/setup/node_pair.hpp"

#include <iostream>

#include <fmt/format.h>

#include "mgmt/control/invitation.hpp"
#include "ui-api/cli/setup/quoting.hpp"
#include "ui-api/cli/table.hpp"

namespace lockstep::cli::setup {
namespace {

constexpr int kDataPlaneTurns = 150;
constexpr unsigned kDataPlaneTurnMs = 200;

json node_body(const Answers& answers) {
  json node{{"portals", answers.portals}, {"link_address", answers.link}, {"management_address", answers.management}};
  if (!answers.node_name.empty()) node["name"] = answers.node_name;
  return node;
}

bool in_a_pair(const json& pair) { return text(pair, "state") != "none" && !text(pair, "state").empty(); }

/// This node or the other one, of the pair's; null where there is none.
json node_of(const json& nodes, bool local) {
  for (const json& node : nodes)
    if (flag(node, "local") == local) return node;
  return nullptr;
}

std::string difference(const json& node, const Answers& answers) {
  const json& known = part(node, "addresses");
  if (part(known, "portals") != json(answers.portals)) return "hosts reach it at " + joined(part(known, "portals"));
  if (text(known, "link") != answers.link) return "its link address is " + text(known, "link");
  if (text(known, "management") != answers.management) return "its management is at " + text(known, "management");
  if (!answers.node_name.empty() && text(node, "name") != answers.node_name)
    return "it is called " + text(node, "name");
  return {};
}

/// lockstepd may be starting beside management.
Outcome<json> post_when_lockstepd_answers(Context& context, const std::string& path, const json& body) {
  for (int i = 0;; ++i) {
    auto answer = context.api.post(path, body);
    if (answer || !answer.error().type.ends_with(":data-plane-away") || i == kDataPlaneTurns) return answer;
    context.sleep(kDataPlaneTurnMs);
  }
}

/// The server names a field; a person at set-up has an option.
std::unexpected<Failure> with_options_named(Failure failure) {
  if (failure.message.find("node.name:") != std::string::npos) failure.message += "\n`--node-name NAME` says another.";
  return std::unexpected(std::move(failure));
}

json pair_body(const Answers& answers, const PairWish& wish) {
  json body{{"name", wish.pair}, {"node", node_body(answers)}};
  if (wish.witness) {
    body["id"] = wish.witness->id;
    body["arbiter"] = wish.witness->access();
    body["arbiter"]["kind"] = "witness";
  } else {
    body["arbiter"] = {{"kind", "preferred"}, {"preferred_side", wish.preferred}};
  }
  return body;
}

void print_invitation(Context& context, const json& made, const Answers& answers) {
  context.err << fmt::format(
      "\nNext, on the second node, until {} UTC, with that node's own addresses:\n"
      "    lockstep setup --partner-link {} --invitation-file -\n"
      "and paste this invitation there; it works once:\n\n",
      short_time(part(made, "expires_at")), shell_word(answers.link));
  context.err << std::flush;
  context.out << printable(text(made, "invitation")) << '\n' << std::flush;
}

}  // namespace

Outcome<void> check_against_pair(Context& context, const Answers& answers, const PairWish& wish,
                                 bool volume_folder_changes) {
  const auto pair = context.api.get("/pair");
  if (!pair) return std::unexpected(pair.error());
  if (!in_a_pair(*pair)) return {};
  const std::string name = printable(text(*pair, "name"));
  const auto refused = [&](const std::string& why) {
    return fail(Exit::refused,
                fmt::format("This node is in the pair {} already, and {}. Nothing was changed.", name, why));
  };
  const auto nodes = context.api.list("/nodes");
  if (!nodes) return std::unexpected(nodes.error());
  if (const auto other = difference(node_of(*nodes, true), answers); !other.empty())
    return refused("there " + printable(other) + "; what mgmtd.toml says counts when a node makes or joins a pair");
  if (volume_folder_changes)
    return refused("its volumes would have to move, too: see /usr/share/doc/lockstep/operator/volumes.md");
  if (!wish.pair.empty() && text(*pair, "name") != wish.pair) return refused("not in " + wish.pair);
  if (wish.witness && text(*pair, "id") != wish.witness->id)
    return refused("the witness's token is for a pair with another id; `lockstep pair witness set` changes a witness");
  if (wish.invitation.empty()) return {};
  const auto invitation = mgmt::invitation_from(wish.invitation);
  if (invitation && text(part(node_of(*nodes, false), "addresses"), "management") == invitation->address) return {};
  return refused("the invitation is another node's");
}

Outcome<void> make_pair(Context& context, const Answers& answers, const PairWish& wish) {
  auto pair = context.api.get("/pair");
  if (!pair) return std::unexpected(pair.error());
  if (!in_a_pair(*pair)) {
    pair = post_when_lockstepd_answers(context, "/pair", pair_body(answers, wish));
    if (!pair) return std::unexpected(pair.error());
    context.err << "The pair " << wish.pair << " is made.\n";
  }
  if (text(*pair, "state") == "complete") {
    context.err << "The pair " << wish.pair << " is complete: both nodes are in it. There is nothing left to do.\n";
    return {};
  }
  const auto made = context.api.post("/pair/invitations", json::object());
  if (!made) return std::unexpected(made.error());
  print_invitation(context, *made, answers);
  return {};
}

Outcome<void> join_pair(Context& context, const Answers& answers, const std::string& invitation) {
  const auto pair = context.api.get("/pair");
  if (!pair) return std::unexpected(pair.error());
  if (in_a_pair(*pair)) {
    context.err << "This node is in the pair " << printable(text(*pair, "name")) << ". There is nothing left to do.\n";
    return {};
  }
  auto job =
      post_when_lockstepd_answers(context, "/pair/join", {{"invitation", invitation}, {"node", node_body(answers)}});
  if (!job) return std::unexpected(job.error());
  if (auto joined = finish_job(context, std::move(*job), true); !joined) return with_options_named(joined.error());
  context.err << "Next, on either node: `lockstep initiator add` and `lockstep volume create`.\n";
  return {};
}

}  // namespace lockstep::cli::setup
