// The forms in which the two nodes' management speak to one another: JSON, derived from the records' descriptions; what
// differs is here.
#include "mgmt/control/peer.hpp"
#include "mgmt/records/json.hpp"

namespace lockstep::mgmt::wire {
namespace {

using records::json;
using records::Rules;

// `written`: what a partner of an earlier version does not say.
struct Wire {
  static constexpr Rules rules(const ConfigurationEpoch*) { return {.required = "*", .hidden = "id"}; }
  static constexpr Rules rules(const Proposal*) {
    return {.required = "base id summary document process attempt", .written = "epoch"};
  }
  static constexpr Rules rules(const RevisionState*) {
    return {.required = "head tentative in_flight", .written = "epoch"};
  }
  static constexpr Rules rules(const CurrentRevision*) {
    return {.required = "document process", .written = "reads", .hidden = "knows_epochs", .renamed = "state="};
  }
  static constexpr Rules rules(const Event*) {
    return {.required = "id at_ms kind severity side volume message", .written = "times"};
  }
  static constexpr Rules rules(const ReplicaBirth*) { return {.required = "both clean", .written = "joins"}; }
  static constexpr Rules rules(const ReplicaOrder*) {
    return {.required = "kind volume accept_inconsistent", .numbers = "kind", .renamed = "birth="};
  }
  static constexpr Rules rules(const JoinRequest*) {
    return {.required = "secret", .written = "reads", .hidden = "node token"};
  }
  static constexpr Rules rules(const JoinOffer*) { return {.required = "id document", .written = "replaces"}; }
  static constexpr Rules rules(const NodeStanding*) { return {.required = "*", .numbers = "asker"}; }
  static constexpr Rules rules(const void*) { return {.required = "*"}; }

  static json to_json(const engine::MemberSet& members) { return members.bits; }
  static void from_json(const json& j, engine::MemberSet& members) { members.bits = j; }
  static void from_json(const json& j, Severity& severity) { severity = severity_from(j); }

  // A volume's, a node's and a token's own forms are the configuration's.
  static json to_json(const Volume& volume) {
    Configuration carrier;
    carrier.volumes.push_back(volume);
    return to_document(carrier);
  }
  static void from_json(const json& j, Volume& volume) {
    const auto carrier = from_document(j.get<std::string>());
    if (!carrier || carrier->volumes.size() != 1) throw std::runtime_error("no volume");
    volume = carrier->volumes.front();
  }
  static void wrote(json& j, const JoinRequest& join) {
    Configuration carrier;
    carrier.nodes.push_back(join.node);
    carrier.tokens.push_back(join.token);
    j["joining"] = to_document(carrier);
  }
  static void read(const json& j, JoinRequest& join) {
    const auto carrier = from_document(j.at("joining").get<std::string>());
    if (!carrier || carrier->nodes.size() != 1 || carrier->tokens.size() != 1) throw std::runtime_error("no node");
    join.node = carrier->nodes.front();
    join.token = carrier->tokens.front();
    if (!j.contains("reads")) join.reads = kSilentAboutVersions;
  }

  // A partner of an earlier version says nothing of epochs: they are of both nodes.
  static void read(const json&, ConfigurationEpoch& epoch) {
    if (epoch.number < 1 || epoch.members.bits < 1 || epoch.members.bits > 3) throw std::runtime_error("not an epoch");
    if (epoch.ancestors.size() > ConfigurationEpoch::kMaxAncestors) throw std::runtime_error("too many ancestors");
  }
  static void read(const json&, Proposal& proposal) { proposal.epoch.id = proposal.id.epoch; }
  static void read(const json& j, CurrentRevision& current) {
    current.state.epoch.id = current.state.head.epoch;
    current.knows_epochs = j.contains("epoch");
    if (!j.contains("reads")) current.reads = kSilentAboutVersions;
  }
};

std::string text_of(const json& j) { return j.dump(-1, ' ', false, json::error_handler_t::replace); }

template <class T>
std::string text_of_record(const T& record) {
  return text_of(records::to_json<Wire>(record));
}

template <class Read>
auto parsed(std::string_view text, const Read& read) -> Outcome<decltype(read(json()))> {
  try {
    return read(json::parse(text));
  } catch (const std::exception& e) {
    return refuse(RefusalKind::malformed, std::string("The partner's message cannot be read: ") + e.what() +
                                              ". Are both nodes of one version?");
  }
}

template <class T>
Outcome<T> record_in(std::string_view text) {
  return parsed(text, [](const json& j) { return records::from_json<Wire, T>(j); });
}

}  // namespace

std::string to_text(const RevisionId& id) { return text_of_record(id); }
Outcome<RevisionId> revision_id_from(std::string_view text) { return record_in<RevisionId>(text); }

std::string to_text(const Proposal& proposal) { return text_of_record(proposal); }
Outcome<Proposal> proposal_from(std::string_view text) { return record_in<Proposal>(text); }

std::string to_text(const CurrentRevision& current) { return text_of_record(current); }
Outcome<CurrentRevision> current_revision_from(std::string_view text) { return record_in<CurrentRevision>(text); }

std::string to_text(const std::vector<Event>& events) { return text_of_record(events); }
Outcome<std::vector<Event>> events_from(std::string_view text) { return record_in<std::vector<Event>>(text); }

std::string to_text(const ReplicaOrder& order) { return text_of_record(order); }
Outcome<ReplicaOrder> replica_order_from(std::string_view text) { return record_in<ReplicaOrder>(text); }

std::string to_text(const ForwardedRequest& request) { return text_of_record(request); }
Outcome<ForwardedRequest> forwarded_request_from(std::string_view text) { return record_in<ForwardedRequest>(text); }

std::string to_text(const ForwardedReply& reply) { return text_of_record(reply); }
Outcome<ForwardedReply> forwarded_reply_from(std::string_view text) { return record_in<ForwardedReply>(text); }

std::string to_text(const JoinRequest& join) { return text_of_record(join); }
Outcome<JoinRequest> join_request_from(std::string_view text) { return record_in<JoinRequest>(text); }

std::string to_text(const JoinOffer& offer) { return text_of_record(offer); }
Outcome<JoinOffer> join_offer_from(std::string_view text) { return record_in<JoinOffer>(text); }

std::string to_text(const NodeStanding& standing) { return text_of_record(standing); }
Outcome<NodeStanding> standing_from(std::string_view text) { return record_in<NodeStanding>(text); }

std::string to_text(PrepareAnswer answer) { return text_of({{"kept", answer == PrepareAnswer::kept}}); }
Outcome<PrepareAnswer> prepare_answer_from(std::string_view text) {
  return parsed(text,
                [](const json& j) { return j.at("kept").get<bool>() ? PrepareAnswer::kept : PrepareAnswer::behind; });
}

std::string retirement_text(bool retired) { return text_of({{"retired", retired}}); }
Outcome<bool> retirement_from(std::string_view text) {
  return parsed(text, [](const json& j) { return j.at("retired").get<bool>(); });
}

std::string to_text(const Uuid& id) { return text_of({{"id", id.to_string()}}); }
Outcome<Uuid> uuid_from(std::string_view text) {
  return parsed(text, [](const json& j) { return records::from_json<Wire, Uuid>(j.at("id")); });
}

}  // namespace lockstep::mgmt::wire
