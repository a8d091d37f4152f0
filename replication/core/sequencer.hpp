#pragma once
// Operations on this node's own store: all of them on the member that orders, reads alone on the other.
//
// A write: range locked exclusively -> space on both (thin stores) -> dirty bits durable -> written here and sent to
// the partner at once -> both durable -> watermark, unlock, acknowledge. Once issued it is never taken back: it ends in
// the epoch that decides.
//
// Requires: an operation whose extent lies in the volume, on a node that orders, or that may read here; it is in no
// list. Guarantees: each one ends by Completions, or goes on by its user, once. Callers: front, for operations;
// PhaseRunner and the steps between epochs, for what becomes of them.
#include "replication/core/completions.hpp"
#include "replication/core/link_budget.hpp"
#include "replication/core/local_store.hpp"
#include "replication/core/messages.hpp"
#include "replication/core/operations.hpp"
#include "replication/core/outbound.hpp"
#include "replication/core/regions.hpp"
#include "replication/core/resync.hpp"
#include "replication/core/sequences.hpp"
#include "replication/core/space.hpp"
#include "replication/core/standing.hpp"

namespace lockstep::replication {

/// What the sequencer tells upwards; all of it is rare.
class SequencerUser {
 public:
  virtual ~SequencerUser() = default;
  virtual void route(Op& op) = 0;         ///< taken back: it waits at the gate, or goes back to the partner
  virtual void forward(Op& op) = 0;       ///< this member can't read it, and the node that orders may
  virtual void lose_lease() = 0;          ///< it ran out
  virtual void on_partner_refused() = 0;  ///< an order: look at its state
};

class Sequencer {
 public:
  Sequencer(engine::Clock& clock, engine::BufferPool& buffers, Partner& partner, const Standing& standing,
            LocalStore& store, Outbound& outbound, Operations& operations, Regions& regions, Space& space,
            Resync& resync, Completions& completions, SequencerUser& user)
      : clock_(clock),
        buffers_(buffers),
        partner_(partner),
        standing_(standing),
        store_(store),
        outbound_(outbound),
        operations_(operations),
        regions_(regions),
        space_(space),
        resync_(resync),
        completions_(completions),
        user_(user),
        share_(partner.orders(), [this] { send_waiting(); }) {}
  ~Sequencer();

  void start(Op& op);
  /// Regions of `op` are equal now: it may go on to its lock.
  void lock(Op& op);

  /// Writes that were not answered on an old way out go out again: the receiver said that its old work is over.
  void resend();
  /// The partner is no longer waited for: writes end with what this node has.
  void drop_remote();
  /// Alone: what this store failed ends with its error.
  void end_failed();
  /// There is some, not ended yet.
  [[nodiscard]] bool has_failed() const;
  /// Of `which`, what was not issued ends with not_serving; what is being read ends so when the store returns it.
  void drop(const Selection& which);
  /// A lease came, or is not needed any more: what waited for it goes on.
  void on_leased();
  /// Operations that were not started, and wait, go back to be held: the gate is closed.
  void take_back_waiting();
  /// The same; `done` runs when no other is left. With `leaves` the partner goes on without this replica afterwards,
  /// and what neither store has taken ends then; with `leaves_to_next_process`, what only this one has, too: the
  /// partner restarted, and takes no order of this epoch any more.
  enum class Drain : std::uint8_t { stays, leaves, leaves_to_next_process };
  void drain(engine::Callback<> done, Drain how = Drain::stays);
  void cancel_drain() { drained_ = nullptr; }
  /// Requests that were given up end where only the partner is waited for; their writes go on, with the data copied.
  /// For when neither node serves. They count as over: nobody may serve again before both members have them, or this
  /// one is alone, or none any more.
  void end_requests_given_up();
  /// There are such writes.
  [[nodiscard]] bool has_outlived() const;
  /// This replica left, or is detached: what the members have is acknowledged, what nobody knows of is not.
  void settle_after_leaving();

  [[nodiscard]] std::uint64_t watermark() const { return outbound_.sequences.watermark(); }
  [[nodiscard]] std::uint64_t last_sequence() const { return outbound_.sequences.last(); }
  [[nodiscard]] std::size_t active() const { return active_.size(); }
  /// The link has a buffer of some operation.
  [[nodiscard]] bool on_link();
  /// … and has had it since before `limit`.
  [[nodiscard]] bool holds_link_since(engine::TimePoint limit);
  /// … of one that no longer waits for the partner, since before `limit`.
  [[nodiscard]] bool stuck_on_link(engine::TimePoint limit);
  /// An operation that the store has had since before `limit`.
  [[nodiscard]] bool has_older_than(engine::TimePoint limit);

 private:
  /// A watermark that nothing else tells is sent within this time. The partner does not wait for one that covers
  /// nothing but forwards of its own that it was told of: it knows better.
  static constexpr engine::Duration kWatermarkWithin = std::chrono::microseconds(500);
  static constexpr engine::Duration kKnownWithin = std::chrono::milliseconds(10);
  /// … and within twice that, then four times, while alarms find that orders told it.
  static constexpr int kMostInVain = 2;
  /// The first operation of which `pred` is true. Whoever acts on it makes it false and asks again: what is done to one
  /// operation may end others.
  template <class Pred>
  [[nodiscard]] Op* find(Pred pred) {
    for (Op* op = active_.front(); op; op = List<Op>::next(op)) {
      if (pred(*op)) return op;
    }
    return nullptr;
  }
  static void on_granted(engine::RangeLock::Node& node);
  engine::TimePoint check_contact(Op& op);
  void lose_lease(Op& op);
  [[nodiscard]] bool may_start(Op& op);
  void run(Op& op);
  void flush(Op& op);
  void find_run(Op& op);
  void on_run_found(Op& op, const engine::IoResult<engine::StoreRun>& found);
  void read(Op& op);
  [[nodiscard]] static std::span<std::byte> part_of(Op& op);
  void read_part(Op& op);
  void next_part(Op& op);
  void on_read(Op& op, std::error_code error);
  void fail_read(Op& op, std::error_code error);
  void on_compared(Op& op);
  void fetch(Op& op);
  void on_fetched(Op& op, const engine::IoResult<Message>& result);
  void repair(Op& op);
  void on_repaired(Op& op, std::error_code failed);
  void answer_repaired(Op& op);
  void answer_read(Op& op);
  // space (sequencer_room.cpp)
  void make_room(Op& op);
  void reserve_here(Op& op);
  void on_room_here(Op& op, std::error_code error);
  void reserve_there(Op& op);
  void on_room_there(Op& op, const engine::IoResult<Message>& result, std::uint64_t asked);
  void wait_for_partner(Op& op);
  void ask_again();
  void refuse(Op& op);
  [[nodiscard]] static std::error_code not_started(const Op& op);
  void take_back(Op& op);
  void mark_dirty(Op& op);
  void issue(Op& op);
  void store(Op& op);
  void send(Op& op);
  void send_waiting();
  void put_on_link(Op& op);
  [[nodiscard]] bool may_refer(const Op& op) const;
  void take_share(Op& op, std::uint64_t bytes);
  void came_off_link(Op& op);
  void on_stored(Op& op, std::error_code error);
  void tell_half_done(Op& op);
  void on_replicated(Op& op, const engine::IoResult<Message>& result);
  void settle(Op& op);
  void settle_failed(Op& op);
  void finish(Op& op, std::error_code status);
  [[nodiscard]] bool owes_watermarks() const;
  void owe_watermark(engine::Duration within = kWatermarkWithin);
  void wait_to_tell_watermark();
  void note_told(std::uint64_t watermark);
  void check_drained();
  [[nodiscard]] bool counts_for_drain(const Op& op) const;
  [[nodiscard]] bool mirrored() const;

  engine::Clock& clock_;
  engine::BufferPool& buffers_;
  Partner& partner_;
  const Standing& standing_;
  LocalStore& store_;
  Outbound& outbound_;
  Operations& operations_;
  Regions& regions_;
  Space& space_;
  Resync& resync_;
  Completions& completions_;
  SequencerUser& user_;
  List<Op>& active_ = operations_.at_work;
  /// Issued, and not sent yet, in the order of their issue. What it holds besides, of a way that broke, is passed over.
  List<Op, &Op::link_hook> for_link_;
  LinkShare share_;
  engine::Callback<> drained_;
  Drain drain_ = Drain::stays;
  std::optional<engine::TimePoint> watermark_due_;  ///< of one that no order has told yet
  engine::TimePoint watermark_timer_at_;            ///< while the timer runs
  engine::TimerId watermark_timer_ = engine::TimerId::none;
  int alarms_in_vain_ = 0;  ///< in a row, since the last that had something to tell; at most kMostInVain
  std::uint64_t told_ = 0;  ///< the watermark of the last order, which the partner took as far as is known
};

}  // namespace lockstep::replication
