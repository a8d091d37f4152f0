#include "mgmt/control/pair_service.hpp"

#include <algorithm>
#include <iterator>

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/chap_secrets.hpp"
#include "mgmt/control/fence_check.hpp"
#include "mgmt/control/invitation.hpp"
#include "mgmt/control/pair_members.hpp"
#include "mgmt/control/rebuilt_configuration.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/control/validation.hpp"
#include "mgmt/control/witness_check.hpp"
#include "mgmt/control/witness_place.hpp"

namespace lockstep::mgmt {
namespace {

constexpr std::int64_t kOfferLife = 30'000;  // ms; a joining node confirms at once

std::vector<FieldProblem> rate_problems(const PairSettings& s) {
  if (const auto complaint = check_resync_floor(s.resync_floor))
    return {{"/settings/resync_floor_bytes_per_second", *complaint}};
  if (const auto complaint = check_resync_ceiling(s.resync_ceiling, s.resync_floor))
    return {{"/settings/resync_ceiling_bytes_per_second", *complaint}};
  return {};
}

std::vector<FieldProblem> problems_of(const PairWish& wish, const Node& node) {
  std::vector<FieldProblem> problems = problems_of(node);
  if (const auto complaint = check_pair_name(wish.name)) problems.push_back({"/name", *complaint});
  if (!wish.target_name.empty())
    if (const auto complaint = check_iscsi_name(wish.target_name)) problems.push_back({"/target_name", *complaint});
  if (wish.id && wish.id->is_nil()) problems.push_back({"/id", "Must be a UUID, and not the one of zeros."});
  std::ranges::move(problems_of(wish.arbiter), std::back_inserter(problems));
  std::ranges::move(problems_of_place(wish.arbiter, {node}), std::back_inserter(problems));
  if (const auto complaint = check_lease(wish.settings.lease_ms))
    problems.push_back({"/settings/lease_ms", *complaint});
  std::ranges::move(rate_problems(wish.settings), std::back_inserter(problems));
  return problems;
}

std::unexpected<Refusal> in_a_pair_already(const Configuration& c) {
  return refuse(RefusalKind::conflict,
                fmt::format("This node is in the pair {} already. A node can be in one pair only.", c.pair->name));
}

/// The node has taken its own place away from itself: its partner knows it no more, or is about to.
std::unexpected<Refusal> in_this_very_pair(const Configuration& c) {
  return refuse(
      RefusalKind::conflict,
      fmt::format("The invitation is into the pair {}, whose database this node still has. To take a place in "
                  "it anew, stop lockstep-mgmtd here, move mgmt.db and what begins with that name away, start "
                  "it, and join then. lockstepd goes on meanwhile: do not restart it.",
                  c.pair->name));
}

Outcome<void> check_reads(const JoinRequest& joining, const Configuration& configuration) {
  if (joining.reads >= document_version(configuration)) return {};
  return refuse(RefusalKind::conflict,
                "The joining node's version of Lockstep is older and does not know of something that the pair has, "
                "such as an encrypted volume or a witness over TLS. Install the inviting node's version there, then "
                "try again.");
}

}  // namespace

Node describe_node(const NodeCore& core, const NodeWish& wish, NodeSide side) {
  const LocalSettings& local = core.local;
  Node n;
  n.id = core.node_id;
  n.side = side;
  n.name = wish.name.value_or(local.node_name);
  n.portals = wish.portals.value_or(local.portals);
  n.link_address = wish.link_address.value_or(local.link_address);
  n.management_address = wish.management_address.value_or(local.management_address);
  n.fingerprint = core.identity.fingerprint;
  return n;
}

PairService::PairService(NodeCore& core, JobRunner& jobs, ReplicaAgent& agent, DataPlane& data_plane, Connect connect,
                         std::function<bool()> is_held_back)
    : core_(core),
      jobs_(jobs),
      agent_(agent),
      data_plane_(data_plane),
      connect_(connect ? std::move(connect)
                       : [&core](const HttpsTarget& target) { return std::make_unique<Peer>(core.identity, target); }),
      is_held_back_(std::move(is_held_back)) {
  jobs_.teach("pair.join", [this](Job& job) { return join_step(job); });
}

Outcome<void> PairService::create(const PairWish& wish) {
  const auto configuration = core_.configuration();
  if (configuration->pair) return in_a_pair_already(*configuration);
  const Node node = describe_node(core_, wish.node, NodeSide::a);
  if (auto problems = problems_of(wish, node); !problems.empty())
    return refuse(RefusalKind::invalid, "Correct the fields named in errors.", std::move(problems));
  if (auto good = check_nothing_served(); !good) return std::unexpected(good.error());
  Pair pair;
  pair.id = wish.id.value_or(random_uuid());
  if (auto usable = try_witness(data_plane_, pair.id, wish.arbiter); !usable) return std::unexpected(usable.error());
  if (auto usable = try_fence(data_plane_, wish.arbiter); !usable) return std::unexpected(usable.error());
  pair.name = wish.name;
  pair.target_name = wish.target_name.empty() ? "iqn.2026-11.io.lockstep:" + wish.name : wish.target_name;
  pair.arbiter = wish.arbiter;
  pair.settings = wish.settings;
  make_link_secrets(pair);
  pair.link_protection = LinkProtection::required;
  pair.created_ms = wall_clock_ms();
  const auto changed = core_.change(fmt::format("Pair {} made", wish.name), [&](Configuration& c) -> Outcome<void> {
    if (c.pair) return in_a_pair_already(c);
    c.pair = pair;
    c.nodes = {node};
    return {};
  });
  if (!changed) return std::unexpected(changed.error());
  core_.events.append({.kind = "pair.created",
                       .side = {},
                       .volume = {},
                       .message = fmt::format("The pair {} was made on {}.", pair.name, node.name)});
  return {};
}

// lockstepd goes on with what it was told, and would not take another pair.
Outcome<void> PairService::check_nothing_served() {
  const auto answer = data_plane_.call("node.status", "{}", std::chrono::seconds(3));
  const auto status = answer ? status_from(*answer) : std::unexpected(answer.error());
  if (!status || status->volumes.empty()) return {};
  return refuse(
      RefusalKind::conflict,
      fmt::format("lockstepd on this node serves {} of a pair that the management here does not know: its "
                  "database was lost or is new. Run `lockstep node replace` on the pair's other node, and "
                  "join here with the invitation that it gives; where no node has its database any more, run "
                  "`lockstep pair recover` here.",
                  status->volumes.size() == 1 ? "a volume" : fmt::format("{} volumes", status->volumes.size())));
}

NewInvitation PairService::new_invitation(std::optional<NodeSide> replaces) {
  const std::string secret = base64url_encode(random_bytes(32));
  const std::int64_t expires = wall_clock_ms() + core_.local.invitation_life.count() * 1000;
  {
    const std::lock_guard lock(mutex_);
    lost_with_invitation_.clear();
  }
  core_.database().transact([&](SQLite::Database& db) {
    db.exec("DELETE FROM invitations WHERE used = 0");
    SQLite::Statement q(db, "INSERT INTO invitations (digest, expires_ms, replaces) VALUES (?, ?, ?)");
    q.bind(1, sha256_hex(secret));
    q.bind(2, expires);
    q.bind(3, replaces ? side_name(*replaces) : "");
    q.exec();
  });
  const auto configuration = core_.configuration();
  const Node& mine = *configuration->node(*core_.side());
  return {to_text(Invitation{mine.management_address, core_.identity.fingerprint, secret}), expires};
}

/// Who joins has what this node has, so that both agreed, and lockstepd would be told.
Outcome<void> PairService::check_not_of_the_past() const {
  if (core_.copy.newer() == 0 && !(is_held_back_ && is_held_back_())) return {};
  return refuse(
      RefusalKind::conflict,
      "This node's database is of an earlier time: what it knows of the pair may be long past, so that nobody "
      "is let in or let go by it. `lockstep health` says what to do about that first.");
}

Outcome<NewInvitation> PairService::invite() {
  const auto configuration = core_.configuration();
  if (!configuration->pair) return refuse(RefusalKind::no_pair, "Make a pair first.");
  if (auto good = check_not_of_the_past(); !good) return std::unexpected(good.error());
  if (configuration->nodes.size() > 1)
    return refuse(
        RefusalKind::conflict,
        "The pair has two nodes already. If one of them is lost, or has lost its database, run `lockstep node "
        "replace` on the other.");
  if (lacks_a_known_side(*configuration)) return new_invitation(engine::other(*core_.side()));
  return new_invitation(std::nullopt);
}

namespace {
std::string sentence_of(const PairChange& change, const std::string& name_before) {
  std::string what;
  if (change.name) what = fmt::format("The pair {} is called {} now", name_before, *change.name);
  if (change.name && change.discovery) what += ". ";
  if (change.discovery) what += *change.discovery ? "Discovery asks for a secret" : "Discovery is open to everybody";
  return what;
}

std::string sentence_of_rates(const PairSettings& s) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  const std::string most =
      s.resync_ceiling == 0 ? "no ceiling" : fmt::format("at most {} MiB/s", s.resync_ceiling / kMiB);
  return fmt::format("Resync has at least {} MiB/s, and {}", s.resync_floor / kMiB, most);
}
}  // namespace

Outcome<void> PairService::change(const PairChange& change) {
  std::string what;
  const auto changed = core_.change(
      "The pair changed",
      [&](Configuration& c) -> Outcome<void> {
        if (!c.pair) return refuse(RefusalKind::no_pair, "Make a pair or join one first.");
        std::vector<FieldProblem> problems;
        if (change.discovery && *change.discovery) problems = discovery_problems(**change.discovery, c);
        if (change.name)
          if (const auto complaint = check_pair_name(*change.name)) problems.push_back({"/name", *complaint});
        PairSettings settings = c.pair->settings;
        settings.resync_floor = change.resync_floor.value_or(settings.resync_floor);
        settings.resync_ceiling = change.resync_ceiling.value_or(settings.resync_ceiling);
        if (settings != c.pair->settings) std::ranges::move(rate_problems(settings), std::back_inserter(problems));
        if (!problems.empty())
          return refuse(RefusalKind::invalid, "Correct the fields named in errors.", std::move(problems));
        what = sentence_of(change, c.pair->name);
        if (change.resync_floor || change.resync_ceiling)
          what += (what.empty() ? "" : ". ") + sentence_of_rates(settings);
        c.pair->settings = settings;
        c.pair->name = change.name.value_or(c.pair->name);
        if (change.discovery) c.pair->discovery = *change.discovery;
        return {};
      },
      Agreement::one_is_let);
  if (!changed) return std::unexpected(changed.error());
  core_.events.append({.kind = "pair.changed", .side = {}, .volume = {}, .message = what + "."});
  return {};
}

Outcome<void> PairService::rename_node(NodeSide side, const std::string& name) {
  std::string before;
  const auto changed = core_.change(
      "A node renamed",
      [&](Configuration& c) -> Outcome<void> {
        if (!c.pair) return refuse(RefusalKind::no_pair, "Make a pair or join one first.");
        const auto node = std::ranges::find(c.nodes, side, &Node::side);
        if (node == c.nodes.end())
          return refuse(RefusalKind::not_found, fmt::format("The pair has no node of side {}.", side_name(side)));
        if (const auto complaint = check_node_name(name))
          return refuse(RefusalKind::invalid, "Correct the fields named in errors.", {{"/name", *complaint}});
        if (name == "a" || name == "b")
          return refuse(RefusalKind::invalid, "Correct the fields named in errors.",
                        {{"/name", "Must not be a or b: commands take those for the sides."}});
        const Node* other = c.node(engine::other(side));
        if (other && other->name == name)
          return refuse(RefusalKind::conflict,
                        fmt::format("The other node is called {}, too. Choose another name.", name),
                        {{"/name", "The other node has the same name."}});
        before = std::exchange(node->name, name);
        return {};
      },
      Agreement::one_is_let);
  if (!changed) return std::unexpected(changed.error());
  if (before == name) return {};
  core_.events.append(
      {.kind = "pair.changed",
       .side = side,
       .volume = {},
       .message = fmt::format("The node {}, side {}, is called {} now.", before, side_name(side), name)});
  return {};
}

Outcome<std::optional<NodeSide>> PairService::check_secret(const std::string& secret) {
  struct Found {
    std::int64_t expires_ms = 0;
    bool used = false;
    std::string replaces;
  };
  std::optional<Found> found;
  core_.database().use([&](SQLite::Database& db) {
    SQLite::Statement q(db, "SELECT expires_ms, used, replaces FROM invitations WHERE digest = ?");
    q.bind(1, sha256_hex(secret));
    if (q.executeStep())
      found = Found{q.getColumn(0).getInt64(), q.getColumn(1).getInt() != 0, q.getColumn(2).getString()};
  });
  const auto bad = [](std::string why) {
    return refuse(RefusalKind::conflict, fmt::format("{} Make a new one on the inviting node.", why),
                  {{"/invitation", why}});
  };
  if (!found) return bad("The invitation is not valid: another one was made since, or it is of another node.");
  if (found->used) return bad("The invitation was used already.");
  if (found->expires_ms < wall_clock_ms()) return bad("The invitation has expired.");
  if (found->replaces.empty()) return std::nullopt;
  return found->replaces == "a" ? NodeSide::a : NodeSide::b;
}

Outcome<void> PairService::check_reachable(const Node& node) {
  const auto who = connect_({node.management_address, node.fingerprint})->who();
  if (who && *who == node.id) return {};
  const std::string why = who ? "another node answers there" : "it " + trouble_with_partner(who.error());
  return refuse(RefusalKind::conflict,
                fmt::format("The inviting node cannot reach the joining one's management at {}: {}.",
                            node.management_address, why),
                {{"/node/management_address", "Cannot be reached from the inviting node."}});
}

Outcome<void> PairService::check_no_volume_jobs() {
  for (const auto& job : core_.jobs.unfinished())
    if (job.kind.starts_with("volume."))
      return refuse(RefusalKind::conflict,
                    "A job on a volume is under way on the inviting node. Try again when it has ended.");
  return {};
}

Outcome<PairService::Offer> PairService::place_for_second(const Node& joining, const Token& token) {
  const auto newest = core_.revisions.newest();
  if (!newest) return std::unexpected(newest.error());
  if (newest->configuration.nodes.size() > 1) return refuse(RefusalKind::conflict, "The pair has two nodes already.");
  if (auto good = check_no_volume_jobs(); !good) return std::unexpected(good.error());
  const Configuration next = with_second_node(newest->configuration, joining, token);
  return Offer{.offer = {{random_uuid(), newest->n() + 1, random_uuid()}, to_document(next)},  // a new epoch
               .over = newest->state,
               .replaced = {},
               .undecided = {},
               .digest = {},
               .fingerprint = joining.fingerprint};
}

Outcome<JoinOffer> PairService::on_join(const JoinRequest& request, const std::string& fingerprint) {
  const auto configuration = core_.configuration();
  const auto side = core_.side();
  if (!configuration->pair || !side) return refuse(RefusalKind::no_pair, "The inviting node is in no pair any more.");
  if (auto good = check_not_of_the_past(); !good) return std::unexpected(good.error());
  const auto replaces = check_secret(request.secret);
  if (!replaces) return std::unexpected(replaces.error());
  if (auto good = check_reads(request, *configuration); !good) return std::unexpected(good.error());
  Node node = request.node;
  node.side = replaces->value_or(engine::other(*side));
  node.fingerprint = fingerprint;
  if (node.id == core_.node_id)
    return refuse(RefusalKind::conflict, "This is the inviting node itself. Use the invitation on the other one.");
  if (auto problems = clashes(node, *configuration->node(*side), configuration->highest_shard()); !problems.empty())
    return refuse(RefusalKind::invalid, "Correct the fields named in errors.", std::move(problems));
  auto place = *replaces ? place_of(**replaces, node, request.token) : place_for_second(node, request.token);
  if (!place) return std::unexpected(place.error());
  if (auto good = check_reads(request, *from_document(place->offer.document)); !good)
    return std::unexpected(good.error());
  if (auto good = check_reachable(node); !good) return std::unexpected(good.error());
  place->digest = sha256_hex(request.secret);
  place->until_ms = wall_clock_ms() + kOfferLife;
  const std::lock_guard lock(mutex_);
  if (offer_ && offer_->until_ms > wall_clock_ms() && offer_->fingerprint != fingerprint)
    return refuse(RefusalKind::conflict, "Another node is joining right now.");
  offer_ = std::move(*place);
  return offer_->offer;
}

Outcome<void> PairService::on_confirm(const RevisionId& id, const std::string& fingerprint) {
  const std::lock_guard lock(mutex_);
  if (core_.revisions.state().head == id) return {};  // asked again: the first answer was lost
  if (!offer_ || offer_->offer.id != id || offer_->fingerprint != fingerprint || offer_->until_ms < wall_clock_ms())
    return refuse(RefusalKind::conflict, "The join took too long. Try again with the same invitation.");
  const Offer offer = *std::exchange(offer_, std::nullopt);
  const auto next = from_document(offer.offer.document);
  if (!next) return std::unexpected(next.error());
  // Before it is decided: after a crash right here the invitation is spent for nothing, and never good for two nodes.
  core_.database().transact([&](SQLite::Database& db) {
    SQLite::Statement q(db, "UPDATE invitations SET used = 1 WHERE digest = ?");
    q.bind(1, offer.digest);
    q.exec();
  });
  if (offer.replaced) core_.replaced.add(*offer.replaced);
  if (!core_.revisions.begin_epoch(offer.over, id, offer.replaced ? "A node was replaced" : "A node joined", *next))
    return refuse(RefusalKind::conflict,
                  "The configuration changed meanwhile. Make a new invitation on the inviting node and try again.");
  const Node& joined = *next->node(engine::other(*core_.side()));
  std::string message = fmt::format("{} joined the pair {}.", joined.name, next->pair->name);
  if (offer.replaced)
    message = fmt::format("{} took the place of {}, side {}, in the pair {}.", joined.name, offer.replaced->name,
                          side_name(joined.side), next->pair->name);
  if (!offer.undecided.empty())
    message += fmt::format(" What the lost node had proposed, and perhaps decided, holds now: {}.", offer.undecided);
  core_.events.append({.kind = offer.replaced ? "pair.replaced" : "pair.joined",
                       .severity = offer.undecided.empty() ? Severity::info : Severity::warning,
                       .side = joined.side,
                       .volume = {},
                       .message = message});
  return {};
}

Outcome<Job> PairService::join(const std::string& text, const NodeWish& wish, const Token& token) {
  const auto configuration = core_.configuration();
  const auto invitation = invitation_from(text);
  if (configuration->pair) {
    const Node* partner = core_.partner(*configuration);
    if (invitation && partner && invitation->fingerprint == partner->fingerprint)
      return in_this_very_pair(*configuration);
    return in_a_pair_already(*configuration);
  }
  if (!invitation) return std::unexpected(invitation.error());
  const Node node = describe_node(core_, wish, NodeSide::b);
  if (auto problems = problems_of(node); !problems.empty())
    return refuse(RefusalKind::invalid, "Correct the fields named in errors.", std::move(problems));
  for (const auto& other : core_.jobs.unfinished())
    if (other.kind == "pair.join" && other.step == "ask")
      return refuse(RefusalKind::conflict, "This node is joining a pair right now.");
  Job job =
      make_job(core_, "pair.join", "ask", fmt::format("Asks the node at {} to let this one in.", invitation->address));
  // The invitation's secret stands in the database until the join has ended; the file is the administrator's alone.
  const JoinRequest request{.secret = invitation->secret, .node = node, .token = token};
  job.parameters = nlohmann::json{{"address", invitation->address},
                                  {"fingerprint", invitation->fingerprint},
                                  {"request", wire::to_text(request)}}
                       .dump();
  jobs_.submit(job);
  return job;
}

}  // namespace lockstep::mgmt
