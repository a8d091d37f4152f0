#include "mgmt/control/pair_service.hpp"

#include <algorithm>
#include <iterator>

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/address.hpp"
#include "mgmt/control/chap_secrets.hpp"
#include "mgmt/control/invitation.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/control/validation.hpp"
#include "mgmt/control/witness_check.hpp"

namespace lockstep::mgmt {
namespace {

constexpr std::int64_t kOfferLife = 30'000;  // ms; a joining node confirms at once
constexpr std::size_t kLinkSecretSize = 32;

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

bool is_wildcard(const std::string& address) {
  const auto parsed = parse_address(address);
  return parsed && (parsed->host == "0.0.0.0" || parsed->host == "::");
}

void check_own_address(const std::string& address, const char* pointer, const char* key,
                       std::vector<FieldProblem>& problems) {
  if (address.empty())
    problems.push_back({pointer, fmt::format("Is missing, here and as {} in the node's configuration file.", key)});
  else if (const auto complaint = check_address(address))
    problems.push_back({pointer, *complaint});
  else if (is_wildcard(address))
    problems.push_back({pointer, fmt::format("{} is no address that the partner could connect to.", address)});
}

std::vector<FieldProblem> problems_of(const Node& n) {
  std::vector<FieldProblem> problems;
  if (const auto complaint = check_node_name(n.name)) problems.push_back({"/node/name", *complaint});
  if (n.portals.empty() || n.portals.size() > 8)
    problems.push_back(
        {"/node/portals", "Must be 1 to 8 addresses, here or as portals in the node's configuration file."});
  for (std::size_t i = 0; i < n.portals.size(); ++i)
    if (const auto complaint = check_address(n.portals[i]))
      problems.push_back({fmt::format("/node/portals/{}", i), *complaint});
  check_own_address(n.link_address, "/node/link_address", "link_address", problems);
  check_own_address(n.management_address, "/node/management_address", "management_address", problems);
  return problems;
}

std::vector<FieldProblem> problems_of(const PairWish& wish, const Node& node) {
  std::vector<FieldProblem> problems = problems_of(node);
  if (const auto complaint = check_pair_name(wish.name)) problems.push_back({"/name", *complaint});
  if (!wish.target_name.empty())
    if (const auto complaint = check_iscsi_name(wish.target_name)) problems.push_back({"/target_name", *complaint});
  std::ranges::move(problems_of(wish.arbiter), std::back_inserter(problems));
  const auto& s = wish.settings;
  if (s.resync_ceiling != 0 && s.resync_ceiling < s.resync_floor)
    problems.push_back({"/settings/resync_ceiling_bytes_per_second", "Must be 0 or at least the floor."});
  return problems;
}

std::unexpected<Refusal> in_a_pair_already(const Configuration& c) {
  return refuse(RefusalKind::conflict,
                fmt::format("This node is in the pair {} already. A node can be in one pair only.", c.pair->name));
}

// What B asked for, against what A has.
std::vector<FieldProblem> clashes(const Node& b, const Node& a) {
  std::vector<FieldProblem> problems = problems_of(b);
  if (b.name == a.name)
    problems.push_back(
        {"/node/name", fmt::format("The inviting node is called {}, too. Choose another name.", a.name)});
  if (b.link_address == a.link_address)
    problems.push_back({"/node/link_address", "The inviting node has the same address."});
  for (std::size_t i = 0; i < b.portals.size(); ++i)
    if (std::ranges::find(a.portals, b.portals[i]) != a.portals.end())
      problems.push_back({fmt::format("/node/portals/{}", i), "The inviting node has the same address."});
  return problems;
}

void adopt_token(Configuration& c, Token token, const std::string& node) {
  const auto taken = [&](const std::string& name) {
    return std::ranges::find(c.tokens, name, &Token::name) != c.tokens.end();
  };
  if (taken(token.name)) token.name = fmt::format("{} {}", token.name.substr(0, 32), node).substr(0, 64);
  if (taken(token.name)) token.name = token.id.to_string();
  c.tokens.push_back(std::move(token));
}

}  // namespace

PairService::PairService(NodeCore& core, JobRunner& jobs, ReplicaAgent& agent, DataPlane& data_plane)
    : core_(core), jobs_(jobs), agent_(agent), data_plane_(data_plane) {
  jobs_.teach("pair.join", [this](Job& job) { return join_step(job); });
}

Outcome<void> PairService::create(const PairWish& wish) {
  const auto configuration = core_.configuration();
  if (configuration->pair) return in_a_pair_already(*configuration);
  const Node node = describe_node(core_, wish.node, NodeSide::a);
  if (auto problems = problems_of(wish, node); !problems.empty())
    return refuse(RefusalKind::invalid, "Correct the fields named in errors.", std::move(problems));
  if (auto usable = try_witness(data_plane_, wish.arbiter); !usable) return std::unexpected(usable.error());
  Pair pair;
  pair.id = random_uuid();
  pair.name = wish.name;
  pair.target_name = wish.target_name.empty() ? "iqn.2026-11.io.lockstep:" + wish.name : wish.target_name;
  pair.arbiter = wish.arbiter;
  pair.settings = wish.settings;
  pair.link = {"link", random_password(kLinkSecretSize)};
  pair.link_mutual = {"link-answer", random_password(kLinkSecretSize)};
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

Outcome<NewInvitation> PairService::invite() {
  const auto configuration = core_.configuration();
  if (!configuration->pair) return refuse(RefusalKind::no_pair, "Make a pair first.");
  if (configuration->nodes.size() > 1) return refuse(RefusalKind::conflict, "The pair has two nodes already.");
  const std::string secret = base64url_encode(random_bytes(32));
  const std::int64_t expires = wall_clock_ms() + core_.local.invitation_life.count() * 1000;
  core_.database().transact([&](SQLite::Database& db) {
    db.exec("DELETE FROM invitations WHERE used = 0");
    SQLite::Statement q(db, "INSERT INTO invitations (digest, expires_ms) VALUES (?, ?)");
    q.bind(1, sha256_hex(secret));
    q.bind(2, expires);
    q.exec();
  });
  const Node& mine = configuration->nodes.front();
  return NewInvitation{to_text(Invitation{mine.management_address, core_.identity.fingerprint, secret}), expires};
}

Outcome<void> PairService::set_discovery(const std::optional<Chap>& chap) {
  const std::string what = chap ? "Discovery asks for a secret" : "Discovery is open to everybody";
  const auto changed = core_.change(what, [&](Configuration& c) -> Outcome<void> {
    if (!c.pair) return refuse(RefusalKind::no_pair, "Make a pair or join one first.");
    auto problems = chap ? discovery_problems(*chap, c) : std::vector<FieldProblem>{};
    if (!problems.empty())
      return refuse(RefusalKind::invalid, "Correct the fields named in errors.", std::move(problems));
    c.pair->discovery = chap;
    return {};
  });
  if (!changed) return std::unexpected(changed.error());
  core_.events.append({.kind = "pair.changed", .side = {}, .volume = {}, .message = what + "."});
  return {};
}

Outcome<void> PairService::check_secret(const std::string& secret) {
  std::optional<std::pair<std::int64_t, bool>> found;
  core_.database().use([&](SQLite::Database& db) {
    SQLite::Statement q(db, "SELECT expires_ms, used FROM invitations WHERE digest = ?");
    q.bind(1, sha256_hex(secret));
    if (q.executeStep()) found = {q.getColumn(0).getInt64(), q.getColumn(1).getInt() != 0};
  });
  const auto bad = [](std::string why) {
    return refuse(RefusalKind::conflict, fmt::format("{} Make a new one on the inviting node.", why),
                  {{"/invitation", why}});
  };
  if (!found) return bad("The invitation is not valid: another one was made since, or it is of another node.");
  if (found->second) return bad("The invitation was used already.");
  if (found->first < wall_clock_ms()) return bad("The invitation has expired.");
  return {};
}

Outcome<void> PairService::check_reachable(const Node& node) {
  Peer peer(core_.identity, {node.management_address, node.fingerprint});
  const auto who = peer.who();
  if (who && *who == node.id) return {};
  const std::string why = who ? "another node answers there" : "it " + trouble_with_partner(who.error());
  return refuse(RefusalKind::conflict,
                fmt::format("The inviting node cannot reach the joining one's management at {}: {}.",
                            node.management_address, why),
                {{"/node/management_address", "Cannot be reached from the inviting node."}});
}

Outcome<JoinOffer> PairService::on_join(const JoinRequest& request, const std::string& fingerprint) {
  const auto configuration = core_.configuration();
  if (!configuration->pair) return refuse(RefusalKind::no_pair, "The inviting node is in no pair any more.");
  if (auto good = check_secret(request.secret); !good) return std::unexpected(good.error());
  if (configuration->nodes.size() > 1) return refuse(RefusalKind::conflict, "The pair has two nodes already.");
  for (const auto& job : core_.jobs.unfinished())
    if (job.kind.starts_with("volume."))
      return refuse(RefusalKind::conflict,
                    "A job on a volume is under way on the inviting node. Try again when it has ended.");
  if (request.reads < document_version(*configuration))
    return refuse(RefusalKind::conflict,
                  "The joining node's version of Lockstep is older and does not know of something that the pair has, "
                  "such as an encrypted volume or a witness over TLS. Install the inviting node's version there, then "
                  "try again.");
  Node node = request.node;
  node.side = NodeSide::b;
  node.fingerprint = fingerprint;
  if (node.id == core_.node_id)
    return refuse(RefusalKind::conflict, "This is the inviting node itself. Use the invitation on the other one.");
  if (auto problems = clashes(node, configuration->nodes.front()); !problems.empty())
    return refuse(RefusalKind::invalid, "Correct the fields named in errors.", std::move(problems));
  if (auto good = check_reachable(node); !good) return std::unexpected(good.error());

  Configuration next = *configuration;
  next.nodes.push_back(node);
  adopt_token(next, request.token, node.name);
  next.sort();
  const RevisionId head = core_.revisions.state().head;
  const RevisionId id{random_uuid(), head.n + 1, random_uuid()};  // membership changes: a new epoch
  const std::lock_guard lock(mutex_);
  if (offer_ && offer_->until_ms > wall_clock_ms() && offer_->fingerprint != fingerprint)
    return refuse(RefusalKind::conflict, "Another node is joining right now.");
  offer_ = Offer{{id, to_document(next)}, sha256_hex(request.secret), fingerprint, wall_clock_ms() + kOfferLife};
  return offer_->offer;
}

Outcome<void> PairService::on_confirm(const RevisionId& id, const std::string& fingerprint) {
  const std::lock_guard lock(mutex_);
  const RevisionId head = core_.revisions.state().head;
  if (head == id) return {};  // asked again: the first answer was lost
  if (!offer_ || offer_->offer.id != id || offer_->fingerprint != fingerprint || offer_->until_ms < wall_clock_ms())
    return refuse(RefusalKind::conflict, "The join took too long. Try again with the same invitation.");
  const auto next = from_document(offer_->offer.document);
  if (!next) return std::unexpected(next.error());
  if (head.n + 1 != id.n) return refuse(RefusalKind::conflict, "The configuration changed meanwhile. Try again.");
  core_.revisions.commit_new_epoch(id, "A node joined", *next);
  // After a crash right here the invitation is of no use all the same: the pair has two nodes.
  core_.database().transact([&](SQLite::Database& db) {
    SQLite::Statement q(db, "UPDATE invitations SET used = 1 WHERE digest = ?");
    q.bind(1, offer_->digest);
    q.exec();
  });
  offer_.reset();
  const Node& joined = next->nodes.back();
  core_.events.append({.kind = "pair.joined",
                       .side = joined.side,
                       .volume = {},
                       .message = fmt::format("{} joined the pair {}.", joined.name, next->pair->name)});
  return {};
}

Outcome<Job> PairService::join(const std::string& text, const NodeWish& wish, const Token& token) {
  const auto configuration = core_.configuration();
  if (configuration->pair) return in_a_pair_already(*configuration);
  const auto invitation = invitation_from(text);
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
