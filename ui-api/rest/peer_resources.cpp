// /peer/v1: what the two nodes' management ask of one another. Not for people: no part of the API's description.
#include "mgmt/control/controller.hpp"
#include "mgmt/control/fence_check.hpp"
#include "ui-api/rest/api.hpp"
#include "ui-api/rest/fields.hpp"
#include "ui-api/rest/respond.hpp"

namespace lockstep::ui_api {
namespace {

using namespace mgmt;

constexpr std::int64_t kEventsAtOnce = 500;

Response text(std::string body) {
  Response response;
  response.body = std::move(body);
  return response;
}

Response done(const Outcome<void>& outcome) { return outcome ? text("{}") : problem(outcome.error()); }

// A route whose body is one of the forms of mgmt/control/peer.hpp.
template <class T, class Use>
std::function<Response(const Call&)> with_body(Outcome<T> (*read)(std::string_view), Use use) {
  return [read, use](const Call& call) {
    const auto body = read(call.request.body);
    return body ? use(*body, call) : problem(body.error());
  };
}

void add_revisions(Router& router, Controller& controller) {
  Revisions& revisions = controller.core().revisions;
  router.add({"GET", "/peer/v1/revision", Access::partner, false,
              [&revisions](const Call&) { return text(wire::to_text(revisions.current())); }});
  router.add({"POST", "/peer/v1/revision/prepare", Access::partner, false,
              with_body(wire::proposal_from, [&revisions](const Proposal& proposal, const Call&) {
                return text(wire::to_text(revisions.on_prepare(proposal)));
              })});
  router.add({"POST", "/peer/v1/revision/commit", Access::partner, false,
              with_body(wire::revision_id_from,
                        [&revisions](const RevisionId& id, const Call&) { return done(revisions.on_commit(id)); })});
  router.add({"POST", "/peer/v1/revision/discard", Access::partner, false,
              with_body(wire::revision_id_from, [&revisions](const RevisionId& id, const Call&) {
                revisions.on_discard(id);
                return text("{}");
              })});
  router.add({"POST", "/peer/v1/revision/bring-up-to-date", Access::partner, false,
              with_body(wire::current_revision_from, [&revisions](const CurrentRevision& theirs, const Call&) {
                return done(revisions.on_bring_up_to_date(theirs));
              })});
}

}  // namespace

void add_peer_resources(Router& router, Controller& controller) {
  add_revisions(router, controller);
  NodeCore& core = controller.core();
  router.add({"GET", "/peer/v1/hello", Access::joining, false,
              [&core](const Call&) { return text(wire::to_text(core.node_id)); }});
  router.add({"GET", "/peer/v1/report", Access::partner, false,
              [&controller](const Call&) { return text(to_json_text(controller.report())); }});
  router.add({"GET", "/peer/v1/look", Access::partner, false, [&controller](const Call&) {
                const auto seen = controller.replicas().look();
                return seen ? text(to_json_text(*seen)) : problem(seen.error());
              }});
  router.add({"POST", "/peer/v1/witness-trial", Access::partner, false,
              with_body(arbiter_from_document, [&controller, &core](const Arbiter& arbiter, const Call&) {
                const auto configuration = core.configuration();
                const Uuid pair = configuration->pair ? configuration->pair->id : Uuid{};
                const auto tried = try_endpoints(controller.data_plane(), pair, arbiter);
                return tried ? text(to_json_text(*tried)) : problem(tried.error());
              })});
  router.add({"POST", "/peer/v1/address-trial", Access::partner, false,
              with_body(address_trial_from, [&controller](const AddressTrial& trial, const Call&) {
                const auto tried = controller.address_agent().try_out(trial);
                return tried ? text(to_json_text(*tried)) : problem(tried.error());
              })});
  router.add({"POST", "/peer/v1/fence-trial", Access::partner, false,
              [&controller](const Call&) { return done(try_fence_of_running(controller.data_plane())); }});
  router.add({"GET", "/peer/v1/events", Access::partner, false, [&core](const Call& call) {
                const auto after = query_integer(call.request, "after", 0, INT64_MAX);
                if (!after) return problem(after.error());
                return text(wire::to_text(core.events.own(after->value_or(0), kEventsAtOnce)));
              }});
  router.add({"POST", "/peer/v1/jobs", Access::partner, false,
              with_body(job_from, [&core, &controller](const Job& job, const Call&) {
                if (job.runner != core.node_id) core.jobs.put_from_partner(job);
                if (job.finished()) controller.poke();  // the partner's state has just changed
                return text("{}");
              })});
  router.add({"POST", "/peer/v1/replicas", Access::partner, false,
              with_body(wire::replica_order_from, [&controller](const ReplicaOrder& order, const Call&) {
                auto carried_out = controller.replicas().carry_out(order);
                controller.poke();
                return done(carried_out);
              })});
  router.add({"POST", "/peer/v1/retirement", Access::partner, false,
              with_body(wire::retirement_from, [&controller, &core](bool retired, const Call&) {
                const auto retirement = retire_copies(core, core.side().value_or(NodeSide::a), retired);
                controller.poke();
                return done(retirement);
              })});
  // Also for a partner of before: it is told that this node is in that pair no more.
  router.add({"POST", "/peer/v1/release", Access::joining, false,
              with_body(wire::uuid_from, [&controller](const Uuid& pair, const Call& call) {
                const bool partner = controller.is_partner(call.request.nodes, call.request.peer_fingerprint);
                return done(controller.leaving().on_release(pair, partner));
              })});
  router.add({"POST", "/peer/v1/standing", Access::joining, false,
              with_body(wire::uuid_from, [&controller](const Uuid& pair, const Call& call) {
                const auto standing = controller.standing_of(call.request.nodes, call.request.peer_fingerprint, pair);
                return standing ? text(wire::to_text(*standing)) : problem(standing.error());
              })});
  router.add({"POST", "/peer/v1/join", Access::joining, false,
              with_body(wire::join_request_from, [&controller](const JoinRequest& join, const Call& call) {
                const auto offer = controller.pair().on_join(join, call.request.peer_fingerprint);
                return offer ? text(wire::to_text(*offer)) : problem(offer.error());
              })});
  router.add({"POST", "/peer/v1/join/confirm", Access::joining, false,
              with_body(wire::revision_id_from, [&controller](const RevisionId& id, const Call& call) {
                return done(controller.pair().on_confirm(id, call.request.peer_fingerprint));
              })});
}

}  // namespace lockstep::ui_api
