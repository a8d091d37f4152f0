#pragma once
// Operations that this node sends to the one that orders: all of a replica that is no member, the writes of the other
// member. Each has a tag that is never used again; it is sent again under it until an answer comes, and the sequencer
// carries it out once. What was sent may have been carried out; what was not is dropped when contact is lost.
//
// A host may give a command up and send it again through the other node. So a forward is begun by the sequencer within
// a lease of the receipt of its command, or never: each sending tells its age. And it is sent to one process of the
// partner's only: another one does not know whether it was carried out.
//
// The data of a forward cross the link once: its order comes back as a reference, and is carried out from what is kept
// here until then, whatever becomes of its command meanwhile. The sequencer answers when its own store has it, and the
// command ends when this store has it, too. Until then it counts against what this node may have under way (LinkShare).
//
// Guarantees: each operation ends by Completions, or goes on by its user, once. Callers: front, for operations; the
// applier, for orders of what was forwarded; membership and PhaseRunner, when the way or the epoch is another one.
#include <boost/unordered/unordered_flat_map.hpp>

#include "replication/core/completions.hpp"
#include "replication/core/link_budget.hpp"
#include "replication/core/lu_state_in_force.hpp"
#include "replication/core/messages.hpp"
#include "replication/core/operations.hpp"
#include "replication/core/outbound.hpp"
#include "replication/core/sequences.hpp"
#include "replication/core/standing.hpp"

namespace lockstep::replication {

/// What forwards tell upwards.
class ForwarderUser {
 public:
  virtual ~ForwarderUser() = default;
  virtual void route(Op& op) = 0;       ///< this node orders now: `op` is carried out here
  virtual void on_none_given_up() = 0;  ///< the sequencer begins nothing any more of what was given up
  virtual void on_dropped_ended() = 0;  ///< some of them are over, perhaps not all
  /// Both members have what was ordered for this forward: it may be shown here.
  virtual void on_both_have(std::uint64_t tag) = 0;
  /// What this member's store could not read: `bytes` are what the node that orders has there.
  virtual void on_read_elsewhere(engine::Extent extent, std::span<const std::byte> bytes) = 0;
};

class Forwarder {
 public:
  /// Forwards with the partner at once, and results that it keeps and does not know to be acknowledged; more wait.
  static constexpr std::size_t kWindow = 1024;

  Forwarder(const NodeSettings& settings, engine::Clock& clock, Partner& partner, const Standing& standing,
            Outbound& outbound, Operations& operations, LuStateInForce& in_force, Completions& completions,
            ForwarderUser& user)
      : settings_(settings),
        clock_(clock),
        partner_(partner),
        standing_(standing),
        outbound_(outbound),
        operations_(operations),
        in_force_(in_force),
        completions_(completions),
        user_(user),
        share_(partner.forwards(), [this] { on_turn(); }),
        last_tag_(numbers_begin_at(clock.now())) {
    answered_.reserve(kWindow);
  }
  ~Forwarder();

  void start(Op& op);
  /// States were exchanged or the epoch changed: everything unanswered goes out (again).
  void resend();
  /// What was not sent ends at once. What was ends with unknown_outcome as soon as nothing of it is under way at the
  /// partner: when it answered, or says so on a new way; or when contact was lost.
  void drop(const Selection& which);
  [[nodiscard]] bool has_dropped() const;
  /// The same of operations on blocks: a change of the unit's state that aborts tasks waits for no change.
  [[nodiscard]] bool has_dropped_tasks() const;
  /// The sequencer may yet begin something that was given up here.
  [[nodiscard]] bool has_given_up() const;
  /// Something was sent before `limit` and is not answered.
  [[nodiscard]] bool stuck_on_link(engine::TimePoint limit) const;
  void on_connected();
  /// This node orders now: what the partner cannot have carried out unseen is carried out here, what came back as an
  /// order is done.
  enum class Taking : std::uint8_t {
    what_is_young,  ///< the partner served until now, or hosts have had time to send again what is older
    all             ///< nobody has served since it was decided what is not too old
  };
  void take_over(Taking which);
  /// The order of this forward has come.
  void note_ordered(std::uint64_t tag);
  /// … and is in this node's store.
  void note_applied(std::uint64_t tag);
  /// … and the order was answered: what ends with it, ends.
  void end_applied(std::uint64_t tag);
  /// The data that an order refers to, as this process sent them; nothing when they are not kept any more.
  [[nodiscard]] std::span<const std::byte> data_of(const Message& order);
  [[nodiscard]] std::size_t waiting() const { return ops_.size(); }
  /// The partner is another process now: it knows nothing of what was sent to the last one.
  void on_partner_restarted();
  /// This replica is no member any more.
  void on_no_member();

 private:
  void pump();
  [[nodiscard]] bool may_send(Op& op);
  [[nodiscard]] bool is_too_old(const Op& op) const;
  void end_too_old();
  void send(Op& op);
  void wait_again(Op& op);
  void take_out(Op& op);
  void cancel(const Op& op);
  [[nodiscard]] std::uint64_t next_answered();
  void enter_window(Op& op);
  void leave_window(Op& op);
  void on_answer(Op& op, const engine::IoResult<Message>& result);
  [[nodiscard]] static bool may_refer(const Op& op);
  void on_half_done(Op& op);
  void end_on_both(Op& op);
  [[nodiscard]] Op* find(std::uint64_t tag);
  void leave_share(Op& op);
  void end_unread(Op& op);
  void retry_soon();
  /// What was refused waits for its time also when it is this volume's turn.
  void on_turn() {
    if (!retrying_) pump();
  }
  void ask_what_is_over();
  void ask_soon();
  void on_over(std::uint64_t tag, const engine::IoResult<Message>& result);
  void give_up(Op& op);
  void end_dropped();
  [[nodiscard]] bool may_end(const Op& op) const;
  void end(Op& op, std::error_code status);

  const NodeSettings& settings_;
  engine::Clock& clock_;
  Partner& partner_;
  const Standing& standing_;
  Outbound& outbound_;
  Operations& operations_;
  LuStateInForce& in_force_;
  Completions& completions_;
  ForwarderUser& user_;
  List<Op> ops_;  // by rising tag
  boost::unordered_flat_map<std::uint64_t, Op*> by_tag_;
  List<Op, &Op::link_hook> unsent_;  // of these, those that wait to be sent
  std::size_t dropped_ = 0;          // of these
  LinkShare share_;
  std::uint64_t last_tag_;
  std::size_t in_window_ = 0;
  std::vector<std::uint64_t> answered_;  // tags whose results the sequencer may still keep
  engine::TimerId retry_{};
  engine::TimerId ask_again_ = engine::TimerId::none;
  bool retrying_ = false;
  bool pumping_ = false;
};

}  // namespace lockstep::replication
