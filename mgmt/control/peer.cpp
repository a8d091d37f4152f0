#include "mgmt/control/peer.hpp"

#include <fmt/format.h>

#include "mgmt/control/refusal_json.hpp"

namespace lockstep::mgmt {
namespace {

using namespace std::chrono_literals;
constexpr auto kShort = 4s;
constexpr auto kReplica = 30s;  // the partner's lockstepd may have to make a file
constexpr auto kForward = 40s;
constexpr auto kAddresses = 15s;   // its lockstepd logs in somewhere, and it asks this node itself
constexpr auto kTrial = 24s;       // more than its lockstepd's patience with an endpoint
constexpr auto kFenceTrial = 38s;  // a power device may take its time
constexpr auto kJoin = 12s;        // the partner connects back before it answers

template <class T>
Outcome<T> understood(const Outcome<std::string>& reply, Outcome<T> (*read)(std::string_view)) {
  if (!reply) return std::unexpected(reply.error());
  return read(*reply);
}

Outcome<void> nothing(const Outcome<std::string>& reply) {
  if (!reply) return std::unexpected(reply.error());
  return {};
}

}  // namespace

Outcome<std::string> Peer::request(const std::string& method, const std::string& path, const std::string& body,
                                   std::chrono::milliseconds patience) {
  Outcome<HttpsReply> reply = refuse(RefusalKind::internal, "has no address");
  for (const HttpsTarget& target : targets_) {
    auto asked = https_request(identity_, target, method, path, body, patience);
    const bool first = &target == &targets_.front();
    // Why it does not answer where it should is said, rather than why not elsewhere.
    if (asked || first || asked.error().perhaps_done) reply = std::move(asked);
    if (reply && reached_) reached_(target.address);
    if (reply || reply.error().perhaps_done) break;
  }
  if (!reply) return std::unexpected(reply.error());
  if (reply->status >= 200 && reply->status < 300) return std::move(reply->body);
  Refusal refusal = refusal_from(reply->body);
  refusal.answered = true;
  return std::unexpected(std::move(refusal));
}

Outcome<PrepareAnswer> Peer::prepare(const Proposal& proposal) {
  return understood(request("POST", "/peer/v1/revision/prepare", wire::to_text(proposal), kShort),
                    wire::prepare_answer_from);
}

Outcome<void> Peer::commit(const RevisionId& id) {
  return nothing(request("POST", "/peer/v1/revision/commit", wire::to_text(id), kShort));
}

Outcome<void> Peer::discard(const RevisionId& id) {
  return nothing(request("POST", "/peer/v1/revision/discard", wire::to_text(id), kShort));
}

Outcome<void> Peer::bring_up_to_date(const CurrentRevision& mine) {
  return nothing(request("POST", "/peer/v1/revision/bring-up-to-date", wire::to_text(mine), kShort));
}

Outcome<CurrentRevision> Peer::ask() {
  return understood(request("GET", "/peer/v1/revision", "", kShort), wire::current_revision_from);
}

Outcome<NodeReport> Peer::report() { return understood(request("GET", "/peer/v1/report", "", kShort), report_from); }

Outcome<NodeReport> Peer::look() {
  auto seen = understood(request("GET", "/peer/v1/look", "", kShort), report_from);
  if (!seen && seen.error().kind == RefusalKind::not_found)
    return refuse(RefusalKind::conflict, "its lockstep-mgmtd is too old for this. Upgrade it.");
  return seen;
}

Outcome<WitnessTrial> Peer::try_endpoints(const Arbiter& arbiter) {
  auto tried =
      understood(request("POST", "/peer/v1/witness-trial", arbiter_document(arbiter), kTrial), witness_trial_from);
  if (!tried && tried.error().kind == RefusalKind::not_found)
    return refuse(RefusalKind::conflict, "its lockstep-mgmtd is too old for this. Upgrade it.");
  return tried;
}

Outcome<void> Peer::try_fence() {
  auto tried = nothing(request("POST", "/peer/v1/fence-trial", "{}", kFenceTrial));
  if (!tried && tried.error().kind == RefusalKind::not_found)
    return refuse(RefusalKind::conflict, "its lockstep-mgmtd is too old for this. Upgrade it.");
  return tried;
}

Outcome<AddressProblems> Peer::try_addresses(const AddressTrial& trial) {
  auto tried =
      understood(request("POST", "/peer/v1/address-trial", to_json_text(trial), kAddresses), address_problems_from);
  if (!tried && tried.error().kind == RefusalKind::not_found)
    return refuse(RefusalKind::conflict, "its lockstep-mgmtd is too old for this. Upgrade it.");
  return tried;
}

Outcome<std::vector<Event>> Peer::events(std::int64_t after) {
  return understood(request("GET", fmt::format("/peer/v1/events?after={}", after), "", kShort), wire::events_from);
}

Outcome<void> Peer::put_job(const Job& job) {
  return nothing(request("POST", "/peer/v1/jobs", to_json_text(job), kShort));
}

Outcome<void> Peer::carry_out(const ReplicaOrder& order) {
  return nothing(request("POST", "/peer/v1/replicas", wire::to_text(order), kReplica));
}

Outcome<void> Peer::retire(bool retired) {
  return nothing(request("POST", "/peer/v1/retirement", wire::retirement_text(retired), kForward));
}

Outcome<void> Peer::release(const Uuid& pair) {
  return nothing(request("POST", "/peer/v1/release", wire::to_text(pair), kShort));
}

Outcome<ForwardedReply> Peer::forward(const ForwardedRequest& forwarded) {
  return understood(request("POST", "/peer/v1/forward", wire::to_text(forwarded), kForward),
                    wire::forwarded_reply_from);
}

Outcome<JoinOffer> Peer::ask_to_join(const JoinRequest& join) {
  return understood(request("POST", "/peer/v1/join", wire::to_text(join), kJoin), wire::join_offer_from);
}

Outcome<void> Peer::confirm_join(const RevisionId& id) {
  return nothing(request("POST", "/peer/v1/join/confirm", wire::to_text(id), kShort));
}

Outcome<NodeStanding> Peer::standing(const Uuid& pair) {
  return understood(request("POST", "/peer/v1/standing", wire::to_text(pair), kShort), wire::standing_from);
}

Outcome<Uuid> Peer::who() { return understood(request("GET", "/peer/v1/hello", "", kShort), wire::uuid_from); }

}  // namespace lockstep::mgmt
