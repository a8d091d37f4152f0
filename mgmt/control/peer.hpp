#pragma once
// The partner's management, over mutual TLS: what one node asks of the other, and the forms in which it travels.
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mgmt/control/desired_state.hpp"
#include "mgmt/control/event_log.hpp"
#include "mgmt/control/https_client.hpp"
#include "mgmt/control/job.hpp"
#include "mgmt/control/node_report.hpp"
#include "mgmt/control/revisions.hpp"
#include "mgmt/control/witness_check.hpp"

namespace lockstep::mgmt {

/// What is done to one node's replica of a volume.
struct ReplicaOrder {
  /// `discard` removes one copy of a volume that lives on. Numbers travel.
  enum class Kind : std::uint8_t { create, remove, leave, force_solo, give_up, grow, discard };
  BOOST_DESCRIBE_NESTED_ENUM(Kind, create, remove, leave, force_solo, give_up, grow, discard)
  Kind kind = Kind::create;
  Volume volume;
  ReplicaBirth birth;                ///< create
  bool accept_inconsistent = false;  ///< force_solo
};
BOOST_DESCRIBE_STRUCT(ReplicaOrder, (), (kind, volume, birth, accept_inconsistent))

/// A request of a user's, passed on to the node that orders changes.
struct ForwardedRequest {
  std::string method;
  std::string target;
  std::string content_type;
  std::string body;
};
BOOST_DESCRIBE_STRUCT(ForwardedRequest, (), (method, target, content_type, body))
struct ForwardedReply {
  int status = 0;
  std::string content_type;
  std::string location;
  std::string body;
};
BOOST_DESCRIBE_STRUCT(ForwardedReply, (), (status, content_type, location, body))

/// A node that was given an invitation asks to become side B.
struct JoinRequest {
  std::string secret;           ///< the invitation's
  Node node;                    ///< its fingerprint is taken from the connection
  Token token;                  ///< stays valid, so that whoever joined the node is not locked out of it
  int reads = kNewestDocument;  ///< as in CurrentRevision
};
BOOST_DESCRIBE_STRUCT(JoinRequest, (), (secret, node, token, reads))
/// What the pair will be: kept by the joining node as tentative, then confirmed.
struct JoinOffer {
  RevisionId id;
  std::string document;
  bool replaces = false;  ///< the joining node takes the place of one that was in the pair before
};
BOOST_DESCRIBE_STRUCT(JoinOffer, (), (id, document, replaces))

/// What a node that is perhaps not the partner any more, or not yet, may know of another one's management.
struct NodeStanding {
  enum class Asker : std::uint8_t { stranger, partner, replaced };  // numbers travel
  BOOST_DESCRIBE_NESTED_ENUM(Asker, stranger, partner, replaced)
  Asker asker = Asker::stranger;     ///< what the node that asks is to the one that answers
  std::optional<std::int64_t> head;  ///< its revision of the pair that was asked about; nothing: it is not in that pair
  std::optional<std::int64_t> saved;  ///< the revision of its saved copy of that pair's configuration
};
BOOST_DESCRIBE_STRUCT(NodeStanding, (), (asker, head, saved))

/// Another node's management as the change of a pair's membership sees it.
class MembershipPeer {
 public:
  virtual ~MembershipPeer() = default;
  virtual Outcome<JoinOffer> ask_to_join(const JoinRequest& join) = 0;
  virtual Outcome<void> confirm_join(const RevisionId& id) = 0;
  virtual Outcome<CurrentRevision> ask() = 0;
  /// The node's id; answered to anyone.
  virtual Outcome<Uuid> who() = 0;
  /// Answered to whoever knows the pair's id.
  virtual Outcome<NodeStanding> standing(const Uuid& pair) = 0;
};

class Peer final : public RevisionPeer, public MembershipPeer {
 public:
  Peer(const TlsIdentity& identity, HttpsTarget target) : identity_(identity), target_(std::move(target)) {}

  Outcome<PrepareAnswer> prepare(const Proposal& proposal) override;
  Outcome<void> commit(const RevisionId& id) override;
  Outcome<void> discard(const RevisionId& id) override;
  Outcome<void> bring_up_to_date(const CurrentRevision& mine) override;
  Outcome<CurrentRevision> ask() override;

  Outcome<NodeReport> report();
  Outcome<NodeReport> look();                                   ///< as report(), of this very moment
  Outcome<WitnessTrial> try_endpoints(const Arbiter& arbiter);  ///< by its lockstepd
  Outcome<std::vector<Event>> events(std::int64_t after);
  Outcome<void> put_job(const Job& job);
  Outcome<void> carry_out(const ReplicaOrder& order);
  /// All copies on the partner's side out of service, or in again; for the partner that orders changes.
  Outcome<void> retire(bool retired);
  /// That one is out of the pair; see LeaveJobs::on_release().
  Outcome<void> release(const Uuid& pair);
  Outcome<ForwardedReply> forward(const ForwardedRequest& request);

  Outcome<JoinOffer> ask_to_join(const JoinRequest& join) override;
  Outcome<void> confirm_join(const RevisionId& id) override;
  Outcome<Uuid> who() override;
  Outcome<NodeStanding> standing(const Uuid& pair) override;

 private:
  Outcome<std::string> request(const std::string& method, const std::string& path, const std::string& body,
                               std::chrono::milliseconds patience);
  const TlsIdentity& identity_;
  HttpsTarget target_;
};

// The forms. Each `..._from` gives malformed when the text is not one.
namespace wire {
[[nodiscard]] std::string to_text(const RevisionId& id);
[[nodiscard]] Outcome<RevisionId> revision_id_from(std::string_view text);
[[nodiscard]] std::string to_text(const Proposal& proposal);
[[nodiscard]] Outcome<Proposal> proposal_from(std::string_view text);
[[nodiscard]] std::string to_text(const CurrentRevision& current);
[[nodiscard]] Outcome<CurrentRevision> current_revision_from(std::string_view text);
[[nodiscard]] std::string to_text(PrepareAnswer answer);
[[nodiscard]] Outcome<PrepareAnswer> prepare_answer_from(std::string_view text);
[[nodiscard]] std::string to_text(const std::vector<Event>& events);
[[nodiscard]] Outcome<std::vector<Event>> events_from(std::string_view text);
[[nodiscard]] std::string to_text(const ReplicaOrder& order);
[[nodiscard]] Outcome<ReplicaOrder> replica_order_from(std::string_view text);
[[nodiscard]] std::string to_text(const ForwardedRequest& request);
[[nodiscard]] Outcome<ForwardedRequest> forwarded_request_from(std::string_view text);
[[nodiscard]] std::string to_text(const ForwardedReply& reply);
[[nodiscard]] Outcome<ForwardedReply> forwarded_reply_from(std::string_view text);
[[nodiscard]] std::string to_text(const JoinRequest& join);
[[nodiscard]] Outcome<JoinRequest> join_request_from(std::string_view text);
[[nodiscard]] std::string to_text(const JoinOffer& offer);
[[nodiscard]] Outcome<JoinOffer> join_offer_from(std::string_view text);
[[nodiscard]] std::string to_text(const NodeStanding& standing);
[[nodiscard]] Outcome<NodeStanding> standing_from(std::string_view text);
[[nodiscard]] std::string retirement_text(bool retired);
[[nodiscard]] Outcome<bool> retirement_from(std::string_view text);
[[nodiscard]] std::string to_text(const Uuid& id);
[[nodiscard]] Outcome<Uuid> uuid_from(std::string_view text);
}  // namespace wire

}  // namespace lockstep::mgmt
