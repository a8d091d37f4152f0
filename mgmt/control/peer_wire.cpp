// The forms in which the two nodes' management speak to one another: JSON.
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "mgmt/control/peer.hpp"

namespace lockstep::mgmt::wire {
namespace {

using nlohmann::json;

Uuid uuid(const json& j) {
  const auto id = Uuid::parse(j.get<std::string>());
  if (!id) throw std::runtime_error("not a UUID");
  return *id;
}

json json_of(const RevisionId& id) {
  return {{"epoch", id.epoch.to_string()}, {"n", id.n}, {"change", id.change.to_string()}};
}

RevisionId revision_id(const json& j) {
  return {uuid(j.at("epoch")), j.at("n").get<std::int64_t>(), uuid(j.at("change"))};
}

json json_of(const ConfigurationEpoch& epoch) {
  json ancestors = json::array();
  for (const auto& one : epoch.ancestors) ancestors.push_back(json_of(one));
  return {
      {"number", epoch.number}, {"members", epoch.members.bits}, {"forced", epoch.forced}, {"ancestors", ancestors}};
}

// A partner of an earlier version says nothing of epochs: they are of both nodes.
ConfigurationEpoch epoch_of(const json& message, const Uuid& id) {
  ConfigurationEpoch epoch{.id = id};
  const auto at = message.find("epoch");
  if (at == message.end()) return epoch;
  epoch.number = at->at("number");
  epoch.members.bits = at->at("members");
  if (epoch.number < 1 || epoch.members.bits < 1 || epoch.members.bits > 3) throw std::runtime_error("not an epoch");
  epoch.forced = at->at("forced");
  for (const json& one : at->at("ancestors")) epoch.ancestors.push_back(revision_id(one));
  if (epoch.ancestors.size() > ConfigurationEpoch::kMaxAncestors) throw std::runtime_error("too many ancestors");
  return epoch;
}

template <class Make>
auto parsed(std::string_view text, const Make& make) -> Outcome<decltype(make(json()))> {
  try {
    return make(json::parse(text));
  } catch (const std::exception& e) {
    return refuse(RefusalKind::malformed, std::string("The partner's message cannot be read: ") + e.what() +
                                              ". Are both nodes of one version?");
  }
}

std::string text_of(const json& j) { return j.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

std::string to_text(const RevisionId& id) { return text_of(json_of(id)); }
Outcome<RevisionId> revision_id_from(std::string_view text) { return parsed(text, revision_id); }

std::string to_text(const Proposal& p) {
  return text_of({{"base", json_of(p.base)},
                  {"id", json_of(p.id)},
                  {"summary", p.summary},
                  {"document", p.document},
                  {"process", p.process.to_string()},
                  {"attempt", p.attempt},
                  {"epoch", json_of(p.epoch)}});
}

Outcome<Proposal> proposal_from(std::string_view text) {
  return parsed(text, [](const json& j) {
    const RevisionId id = revision_id(j.at("id"));
    return Proposal{revision_id(j.at("base")), id,
                    j.at("summary"),           j.at("document"),
                    uuid(j.at("process")),     j.at("attempt").get<std::int64_t>(),
                    epoch_of(j, id.epoch)};
  });
}

std::string to_text(const CurrentRevision& c) {
  return text_of({{"head", json_of(c.state.head)},
                  {"tentative", c.state.tentative ? json_of(*c.state.tentative) : json()},
                  {"in_flight", c.state.in_flight ? json(c.state.in_flight->to_string()) : json()},
                  {"document", c.document},
                  {"process", c.process.to_string()},
                  {"reads", c.reads},
                  {"epoch", json_of(c.state.epoch)}});
}

Outcome<CurrentRevision> current_revision_from(std::string_view text) {
  return parsed(text, [](const json& j) {
    CurrentRevision c;
    c.state.head = revision_id(j.at("head"));
    if (!j.at("tentative").is_null()) c.state.tentative = revision_id(j.at("tentative"));
    if (!j.at("in_flight").is_null()) c.state.in_flight = uuid(j.at("in_flight"));
    c.document = j.at("document");
    c.process = uuid(j.at("process"));
    c.reads = j.value("reads", kSilentAboutVersions);
    c.state.epoch = epoch_of(j, c.state.head.epoch);
    c.knows_epochs = j.contains("epoch");
    return c;
  });
}

std::string to_text(PrepareAnswer answer) { return text_of({{"kept", answer == PrepareAnswer::kept}}); }

Outcome<PrepareAnswer> prepare_answer_from(std::string_view text) {
  return parsed(text,
                [](const json& j) { return j.at("kept").get<bool>() ? PrepareAnswer::kept : PrepareAnswer::behind; });
}

std::string to_text(const std::vector<Event>& events) {
  json list = json::array();
  for (const auto& e : events)
    list.push_back({{"id", e.id},
                    {"at_ms", e.at_ms},
                    {"kind", e.kind},
                    {"severity", to_string(e.severity)},
                    {"side", e.side ? json(side_name(*e.side)) : json()},
                    {"volume", e.volume ? json(e.volume->to_string()) : json()},
                    {"message", e.message},
                    {"times", e.times}});
  return text_of(list);
}

Outcome<std::vector<Event>> events_from(std::string_view text) {
  return parsed(text, [](const json& list) {
    std::vector<Event> events;
    for (const auto& j : list) {
      Event e;
      e.id = j.at("id");
      e.at_ms = j.at("at_ms");
      e.kind = j.at("kind");
      e.severity = severity_from(j.at("severity"));
      if (!j.at("side").is_null()) e.side = j.at("side") == "a" ? NodeSide::a : NodeSide::b;
      if (!j.at("volume").is_null()) e.volume = uuid(j.at("volume"));
      e.message = j.at("message");
      e.times = j.value("times", std::int64_t{1});
      events.push_back(std::move(e));
    }
    return events;
  });
}

namespace {

json json_of(const std::optional<LoneEpoch>& lone) {
  if (!lone) return {};
  return {{"number", lone->number}, {"id", lone->id}, {"member", side_name(lone->member)}, {"size", lone->size}};
}

std::optional<LoneEpoch> lone_epoch(const json& order) {
  const auto at = order.find("joins");
  if (at == order.end() || at->is_null()) return std::nullopt;
  return LoneEpoch{at->at("number"), at->at("id"), at->at("member") == "a" ? NodeSide::a : NodeSide::b, at->at("size")};
}

}  // namespace

std::string to_text(const ReplicaOrder& o) {
  Configuration carrier;  // a volume's own form is the configuration's
  carrier.volumes.push_back(o.volume);
  return text_of({{"kind", static_cast<int>(o.kind)},
                  {"volume", to_document(carrier)},
                  {"both", o.birth.both},
                  {"clean", o.birth.clean},
                  {"joins", json_of(o.birth.joins)},
                  {"accept_inconsistent", o.accept_inconsistent}});
}

Outcome<ReplicaOrder> replica_order_from(std::string_view text) {
  return parsed(text, [](const json& j) {
    ReplicaOrder o;
    const int kind = j.at("kind");
    if (kind < 0 || kind > static_cast<int>(ReplicaOrder::Kind::discard)) throw std::runtime_error("unknown order");
    o.kind = static_cast<ReplicaOrder::Kind>(kind);
    const auto carrier = from_document(j.at("volume").get<std::string>());
    if (!carrier || carrier->volumes.size() != 1) throw std::runtime_error("no volume");
    o.volume = carrier->volumes.front();
    o.birth = {j.at("both").get<bool>(), j.at("clean").get<bool>(), lone_epoch(j)};
    o.accept_inconsistent = j.at("accept_inconsistent");
    return o;
  });
}

std::string to_text(const ForwardedRequest& r) {
  return text_of({{"method", r.method}, {"target", r.target}, {"content_type", r.content_type}, {"body", r.body}});
}

Outcome<ForwardedRequest> forwarded_request_from(std::string_view text) {
  return parsed(text, [](const json& j) {
    return ForwardedRequest{j.at("method"), j.at("target"), j.at("content_type"), j.at("body")};
  });
}

std::string to_text(const ForwardedReply& r) {
  return text_of({{"status", r.status}, {"content_type", r.content_type}, {"location", r.location}, {"body", r.body}});
}

Outcome<ForwardedReply> forwarded_reply_from(std::string_view text) {
  return parsed(text, [](const json& j) {
    return ForwardedReply{j.at("status").get<int>(), j.at("content_type"), j.at("location"), j.at("body")};
  });
}

std::string to_text(const JoinRequest& join) {
  Configuration carrier;  // a node's and a token's own forms are the configuration's
  carrier.nodes.push_back(join.node);
  carrier.tokens.push_back(join.token);
  return text_of({{"secret", join.secret}, {"joining", to_document(carrier)}, {"reads", join.reads}});
}

Outcome<JoinRequest> join_request_from(std::string_view text) {
  return parsed(text, [](const json& j) {
    const auto carrier = from_document(j.at("joining").get<std::string>());
    if (!carrier || carrier->nodes.size() != 1 || carrier->tokens.size() != 1) throw std::runtime_error("no node");
    return JoinRequest{j.at("secret"), carrier->nodes.front(), carrier->tokens.front(),
                       j.value("reads", kSilentAboutVersions)};
  });
}

std::string to_text(const JoinOffer& offer) {
  return text_of({{"id", json_of(offer.id)}, {"document", offer.document}, {"replaces", offer.replaces}});
}

Outcome<JoinOffer> join_offer_from(std::string_view text) {
  return parsed(text, [](const json& j) {
    return JoinOffer{revision_id(j.at("id")), j.at("document"), j.value("replaces", false)};
  });
}

std::string to_text(const NodeStanding& s) {
  return text_of({{"asker", static_cast<int>(s.asker)},
                  {"head", s.head ? json(*s.head) : json()},
                  {"saved", s.saved ? json(*s.saved) : json()}});
}

Outcome<NodeStanding> standing_from(std::string_view text) {
  return parsed(text, [](const json& j) {
    NodeStanding s;
    const int asker = j.at("asker");
    if (asker < 0 || asker > static_cast<int>(NodeStanding::Asker::replaced)) throw std::runtime_error("unknown asker");
    s.asker = static_cast<NodeStanding::Asker>(asker);
    if (!j.at("head").is_null()) s.head = j.at("head").get<std::int64_t>();
    if (!j.at("saved").is_null()) s.saved = j.at("saved").get<std::int64_t>();
    return s;
  });
}

std::string retirement_text(bool retired) { return text_of({{"retired", retired}}); }
Outcome<bool> retirement_from(std::string_view text) {
  return parsed(text, [](const json& j) { return j.at("retired").get<bool>(); });
}

std::string to_text(const Uuid& id) { return text_of({{"id", id.to_string()}}); }
Outcome<Uuid> uuid_from(std::string_view text) {
  return parsed(text, [](const json& j) { return uuid(j.at("id")); });
}

}  // namespace lockstep::mgmt::wire
