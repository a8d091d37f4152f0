#pragma once
// The logical unit's state (reservations, mode parameters) as one for both nodes.
//
// A request that changes it goes to the node that orders. That node carries out one at a time: closes its gate for new
// operations of initiators; waits until those that were checked under the old state are over; makes the new state
// durable; has the other member do the same and install it; installs it; answers; opens. So once the status is
// returned both nodes enforce it, and nothing that was checked under the old state is at work. An operation that the
// other node forwards carries the version under which it was checked there: another one is not carried out.
//
// Invariants:
//  1. The node that orders installs a state only when every member has it durably, and a member that orders next either
//     has it installed or never saw it in force.
//  2. A version that was installed anywhere is never given to another state.
//  3. A replica that is no member uses only what the node that orders told it in this epoch.
//  4. When a reset, or PREEMPT AND ABORT, is answered, no node begins anything more of a command that it ends.
//
// Callers: front and the forward server, for operations; the mirror, for the partner's messages; PhaseRunner and
// membership, for what happens around.
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "engine/scsi/ended_tasks.hpp"
#include "engine/scsi/lu_state.hpp"
#include "replication/core/completions.hpp"
#include "replication/core/forwarder.hpp"
#include "replication/core/local_store.hpp"
#include "replication/core/lu_state_in_force.hpp"
#include "replication/core/messages.hpp"
#include "replication/core/operations.hpp"
#include "replication/core/outbound.hpp"
#include "replication/core/standing.hpp"

namespace lockstep::replication {

/// What the keeper of the state tells upwards; all of it is rare.
class LuStateUser {
 public:
  virtual ~LuStateUser() = default;
  virtual void route(Op& op) = 0;                          ///< it waited for a state, and goes its way
  virtual void lose_lease() = 0;                           ///< it ran out
  virtual void end_unstarted(const Selection& which) = 0;  ///< a reset ends what was received before it
};

class LuStateKeeper {
 public:
  /// Requests that wait for their turn; more: resource_exhausted.
  static constexpr std::size_t kMaxWaiting = 256;

  LuStateKeeper(const NodeSettings& settings, engine::Clock& clock, Partner& partner, const Standing& standing,
                LocalStore& store, Outbound& outbound, Operations& operations, LuStateInForce& in_force,
                Completions& completions, Forwarder& forwarder, LuStateUser& user)
      : settings_(settings),
        clock_(clock),
        partner_(partner),
        standing_(standing),
        store_(store),
        outbound_(outbound),
        operations_(operations),
        in_force_(in_force),
        completions_(completions),
        forwarder_(forwarder),
        user_(user),
        ended_(clock.now()) {
    in_force_.drained = [this] { pump(); };
  }
  ~LuStateKeeper();

  /// What an earlier process left in `meta`: empty at first. Errors name what is wrong with it.
  [[nodiscard]] static engine::Result<scsi::LuState> load(const engine::MetadataArea& meta);

  // ---- operations on their way (front, forward server)
  /// True: `op` may go on under the state in force. False: it is held here, or was answered and is gone.
  [[nodiscard]] bool passes(Op& op);
  /// A change has ended the command that `request` is of: it came before, and nothing more of it is begun.
  [[nodiscard]] bool has_ended(const engine::DiskRequest& request) const;
  /// change_state, read_state or check_access, on a node that may answer it.
  void run(Op& op);
  /// Whether `op` is answered here and not by the node that orders.
  [[nodiscard]] bool answers_here(const Op& op) const;
  /// False: a forward was checked under another state than is in force here, or a change is under way.
  [[nodiscard]] bool takes(const Message& forward);

  // ---- what happens around (membership)
  void on_solo(bool fresh);  ///< `fresh`: this process was no part of an epoch before
  void on_sync(bool fresh, bool partner_ran);
  void on_forward();
  void on_target();        ///< the other node forwards to this one, in this one's epoch
  void forget_target();    ///< the way out broke, or the replica there is another instance
  void on_partner_lost();  ///< its process, or contact for good: so are its sessions
  void on_leased();
  void drop(const Selection& which);  ///< nothing of it that waits is started any more
  void take(InboundRequest& request, const Message& message);
  /// Goes on with whatever can go on.
  void pump();
  void tick();
  /// As a target: it has what the node that orders has. As the latter: the target has.
  [[nodiscard]] bool may_join() const { return standing_.is_forwarding() ? known_ && !incoming_ : target_told_; }
  [[nodiscard]] bool idle() const { return !writing_; }

  void set_listener(std::shared_ptr<scsi::LuStateListener> listener);

 private:
  /// A change on the node that orders, from its decision to its answer.
  struct Change {
    scsi::LuState state;
    std::vector<scsi::LuEvent> events;
    scsi::LuAnswer answer;
    Op* op = nullptr;  ///< null: nobody waits for it
    bool written = false;
    bool told = false;
  };
  /// A state that the node that orders sent.
  struct Incoming {
    InboundRequest* request = nullptr;
    Message message;
    scsi::LuState state;
    std::vector<scsi::LuEvent> events;
    bool written = false;
  };

  [[nodiscard]] bool lease_holds(Op& op, bool changed);
  void answer_op(Op& op, std::error_code status, bool changed = false);
  void hold(Op& op);
  void set_open(bool open);
  void install(scsi::LuState state, std::vector<scsi::LuEvent> events);

  [[nodiscard]] bool step();
  [[nodiscard]] bool step_incoming();
  [[nodiscard]] bool step_ordering();
  [[nodiscard]] bool step_change();
  [[nodiscard]] bool may_tell() const { return outbound_.ready && clock_.now() >= next_tell_; }
  [[nodiscard]] bool step_following();
  [[nodiscard]] bool begin_next();
  void begin(const scsi::LuRequest& request, Op* op);
  void end_tasks(std::vector<scsi::LuEvent> events);
  [[nodiscard]] bool has_missed_some(const Message& message, const scsi::LuState& told) const;
  void hand_over();
  void write(const scsi::LuState& state, engine::Callback<> then);
  void fail_write(std::error_code error);
  void tell(const scsi::LuState& state, std::span<const scsi::LuEvent> events, bool agree);
  void on_told(std::uint64_t version, bool agree, const engine::Uuid& epoch, const engine::IoResult<Message>& result,
               std::span<const std::byte> payload);
  void forget_telling();
  void refuse_incoming();
  void take_theirs(scsi::LuState theirs);
  [[nodiscard]] scsi::LuRequest own_request(scsi::LuRequestKind kind) const;
  [[nodiscard]] bool ends_with_power(const scsi::LuState& state) const;
  void note_told(const Message& message);

  const NodeSettings& settings_;
  engine::Clock& clock_;
  Partner& partner_;
  const Standing& standing_;
  LocalStore& store_;
  Outbound& outbound_;
  Operations& operations_;
  LuStateInForce& in_force_;
  Completions& completions_;
  Forwarder& forwarder_;
  LuStateUser& user_;
  std::shared_ptr<scsi::LuStateListener> listener_;
  bool agreed_ = false;  ///< in sync: both members have the same state
  bool known_ = false;   ///< no member: told by the node that orders, in this epoch
  bool target_told_ = false, target_there_ = false;
  bool power_on_ = false;  ///< what power does not outlive is still in force; a member that follows was told so
  bool port_lost_ = false;
  engine::TimerId timer_{};
  engine::TimePoint next_tell_;
  std::uint64_t telling_run_ = 0;  ///< an answer to an earlier one says nothing any more
  bool writing_ = false, telling_ = false, pumping_ = false, again_ = false;
  engine::TimePoint writing_since_;
  List<Op> held_;
  List<Op> changes_;
  std::optional<Change> change_;
  std::optional<Incoming> incoming_;
  scsi::EndedTasks ended_;
};

}  // namespace lockstep::replication
