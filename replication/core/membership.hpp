#pragma once
// Where this replica stands in its volume's epochs, and every step from one to the next. Steps are few and slow: each
// is a chain of callbacks under one token (step_), void as soon as another step begins or the way out breaks.
//
// Who acts is decided by verdict.hpp from states that the nodes exchange; a follower refuses what does not follow from
// its own durable record, so that a decision from an old state does no harm.
#include <optional>
#include <string>

#include "replication/core/core_state.hpp"
#include "replication/core/verdict.hpp"

namespace lockstep::replication {

class Membership {
 public:
  using Done = engine::Callback<engine::Result<void>>;

  explicit Membership(Core& core) : core_(core) {}
  ~Membership();

  /// First thing after attach(): what an earlier process wrote and did not flush is made durable before anything of it
  /// is seen.
  void begin();
  void tick();

  void on_connected();
  void on_disconnected();
  void on_inbound_down();
  void on_contact_made();
  void on_contact_lost();
  void on_partner_restarted();
  /// This node's initiators lose their sessions, perhaps for the sake of another volume: nothing of theirs is started.
  void on_fenced();
  /// True when the volume is its own requests' (state, propose, resume).
  void take(std::uint64_t session, InboundRequest& request, const Message& message);

  [[nodiscard]] bool wants_lease() const { return core_.in_sync(); }
  [[nodiscard]] bool grant(const engine::Uuid& epoch);
  void on_lease(const engine::Uuid& epoch, bool granted, engine::TimePoint until);
  /// The lease ran out: suspend. What was not started waits until it is known whether this node goes on alone.
  void lose_lease();

  void look_again() { exchange(); }  ///< something that the partner should know changed
  void make_durable();               ///< everything that the store was given; a failure is the store's

  void on_equal();            ///< the sequencer says that nothing differs any more
  void join();                ///< the target is equal: {A,B}
  void on_partner_refused();  ///< an order was refused: look at its state
  void on_store_failed();
  void fail_metadata(const std::string& why);

  void make_room(std::uint64_t size, Done done);
  void want_size(std::uint64_t size);

  void leave(Done done);
  void force_solo(bool accept_inconsistent, Done done);
  void give_up(Done done);
  /// Serves nothing any more; calls back, with a tick, when neither of the stores has anything under way.
  void close(engine::Callback<> done);
  [[nodiscard]] bool closed() const { return std::holds_alternative<phase::Closed>(core_.phase); }
  /// Closed, and nobody owes it a callback.
  [[nodiscard]] bool is_over() const;

  [[nodiscard]] ReplicaState state() const;
  /// The partner has recorded this node's epoch, and sends here what its initiators ask.
  [[nodiscard]] bool partner_follows() const {
    return core_.partner_ready && agreed() && partner_ && partner_->forwarding;
  }
  /// The partner is known to have recorded this node's epoch.
  [[nodiscard]] bool agreed() const { return agreed_ == core_.epoch().id; }
  [[nodiscard]] MirrorState mirror_state() const;
  [[nodiscard]] std::string reason() const;
  [[nodiscard]] bool serving() const;
  /// Not serving, and it will soon be known whether it does: true for a bounded time only.
  [[nodiscard]] bool undecided() const;
  [[nodiscard]] bool failover_limited() const;
  [[nodiscard]] bool busy() const { return change_.has_value(); }

 private:
  /// Leases: for one to run out, then the arbiter's answer; or for a step that may wait for three.
  static constexpr int kDecidesWithin = 4;
  enum class Step : std::uint8_t { driving, following, recording };
  /// From one epoch to the next, or an agreement to stay.
  struct Change {
    Step step;
    engine::TimePoint began;
    std::optional<engine::TimePoint> recording_since;  ///< a record is being written
    std::optional<engine::Uuid> drains_for;  ///< what was ordered ends, to agree from this record of the partner's
  };
  enum class GivingUp : std::uint8_t { no, asking, doing };
  struct PendingSolo {
    engine::EpochRecord next;
    bool forced = false;
  };

  // the phase
  void apply(const PhaseEvent& event);
  void perform(Effect effect, const ReplicaPhase& was);
  [[nodiscard]] bool has_begun() const { return begun_ == Begun::wholly; }
  [[nodiscard]] bool metadata_failed() const { return std::holds_alternative<phase::Failed>(core_.phase); }
  [[nodiscard]] bool is_changing(Step step) const { return change_ && change_->step == step; }
  // the clock
  [[nodiscard]] bool is_idle() const;
  void finish_closing();
  void take_link_back();
  void watch_lease(engine::TimePoint now);
  void take_buffers_back(engine::TimePoint now);
  void end_overdue_step(engine::TimePoint now);
  // exchange (membership_exchange.cpp) and decide
  void exchange();
  void on_state(std::uint64_t run, const engine::IoResult<Message>& result, std::span<const std::byte> payload);
  [[nodiscard]] bool learn_state(const engine::IoResult<Message>& result, std::span<const std::byte> payload);
  void act(const ReplicaState& theirs);
  void let_partner_change();
  void take_state(std::uint64_t session, InboundRequest& request, const Message& message);
  void answer_states();
  void refuse_states();  ///< the volume is not served here any more
  // steps (membership_drive.cpp, membership_follow.cpp)
  void send_refused_again(engine::Duration every);
  [[nodiscard]] std::optional<engine::EpochRecord> left_record() const;
  [[nodiscard]] bool has_left_without_metadata() const;
  void record_what_was_left();
  void forget_what_is_recorded();
  std::uint64_t begin_step(Step kind);
  void end_step();
  [[nodiscard]] bool current(std::uint64_t step) const { return step == step_; }
  void record(const engine::EpochRecord& next, engine::IoCallback done);
  void stop_if_set_back();
  void refuse_record();
  void on_late_record(std::error_code error);
  void drive_resume();
  void drive_both(const ReplicaState& theirs, std::uint64_t above);
  void record_both(std::uint64_t step, const ReplicaState& theirs, std::uint64_t above, bool equal);
  void propose(std::uint64_t step, const engine::EpochRecord& next, const engine::Uuid& base, bool equal,
               engine::Callback<engine::Errc> done);
  void drive_solo(const ReplicaState& theirs);
  void adopt(const engine::EpochRecord& record, bool serve);
  void take_propose(InboundRequest& request, const Message& message);
  void follow_leave(std::uint64_t step, engine::EpochRecord next);
  void leave_without_metadata(std::uint64_t step, const engine::EpochRecord& next);
  void follow_join(std::uint64_t step, engine::EpochRecord next, bool equal);
  void answer_proposal(engine::Errc status);
  void take_resume(InboundRequest& request, const Message& message);
  // giving up (membership_give_up.cpp)
  [[nodiscard]] std::string why_not_give_up() const;
  void on_partner_asked(bool answered);
  void stop_for_good(std::uint64_t step, engine::EpochRecord next);
  void record_giving_up(std::uint64_t step, engine::EpochRecord next);
  void end_giving_up(const std::string& why);
  // growing (membership_grow.cpp)
  [[nodiscard]] Message state_message() const;
  void note_partner_room(const Message& m);
  [[nodiscard]] std::uint64_t size_to_take() const;
  [[nodiscard]] bool may_grow_in_sync() const;
  void grow_alone();
  // alone (membership_alone.cpp)
  void decide_without_partner();
  [[nodiscard]] engine::TimePoint ago(engine::Duration time) const;
  [[nodiscard]] bool store_hangs() const;
  [[nodiscard]] bool store_is_proven();
  [[nodiscard]] bool suspects_store() const;
  void watch_record();
  void watch_own_ticks(engine::TimePoint now);
  void watch_stores(engine::TimePoint now);
  void settle_store(std::uint64_t step, engine::Callback<> done);
  [[nodiscard]] bool store_owes() const;
  [[nodiscard]] bool owes_own_work() const;
  [[nodiscard]] bool store_owes_since(engine::TimePoint limit) const;
  void trust_store_again();
  [[nodiscard]] bool owes_old_work() const;
  void watch_old_work();
  void want_solo(engine::EpochRecord next, bool forced);
  void go_solo_when_leases_are_over();
  // arriving (membership_roles.cpp)
  void begin_in_sync();
  void make_equal();
  void serve_in_sync(bool fresh);
  void resume_in_sync();
  void serve_alone(const ReplicaPhase& was);
  void drop_possibly_retried(const ReplicaPhase& was);
  void forward_all();
  void start_source();
  void lose_target();
  void settle_left();
  void open_gate();
  void close_gate();
  void refuse_held();
  void fence();
  [[nodiscard]] bool goes_on_soon() const;
  void watch_kept_sessions();
  void tell_when_decided();
  void end_unrecorded_step();
  void give_step_up();
  void finish_waiter(engine::Result<void> result);

  Core& core_;
  enum class Begun : std::uint8_t {
    no,
    flushed,  ///< the first flush went well
    wholly    ///< and what this node left is recorded
  };
  Begun begun_ = Begun::no;
  bool leaving_ = false;
  bool exchanging_ = false, partner_stopped_ = false, partner_unknown_ = false, split_ = false, confirming_ = false;
  std::optional<Change> change_;
  std::uint64_t step_ = 0, exchange_run_ = 0;
  std::uint64_t record_run_ = 0, late_record_ = 0;  ///< the last one; the one that was given up and is not returned
  bool late_record_is_there_ = false;               ///< it returned while a change was under way
  bool own_record_unknown_ = false;  ///< a record of this node alone did not go well, or not yet: it may be there
  bool proving_ = false;             ///< a flush is under way that shows whether the store stands still
  engine::TimePoint proven_at_;
  unsigned flushing_ = 0;
  engine::TimePoint flush_began_;
  engine::TimePoint last_tick_, unread_until_, last_exchange_, attached_, last_clean_, sent_again_, confirm_again_;
  engine::TimePoint gated_since_;
  bool was_undecided_ = false;
  std::optional<ReplicaState> partner_;
  Verdict verdict_ = Verdict::wait;
  std::uint64_t wanted_size_ = 0;   ///< 0: as it is
  std::uint64_t partner_room_ = 0;  ///< as it said last; 0: not known
  bool making_room_ = false, partner_is_larger_ = false;
  std::optional<PendingSolo> pending_solo_;
  Done waiter_;
  bool waiter_is_leave_ = false;
  GivingUp giving_up_ = GivingUp::no;
  bool owed_old_work_ = false;  ///< when it was last looked
  engine::TimePoint waiter_until_;
  engine::Callback<> closed_done_;
  engine::TimePoint link_back_at_;
  bool last_flush_begun_ = false;
  engine::Callback<> store_settled_;  ///< goes on when the store owes nothing
  struct WaitingState {
    InboundRequest* request;
    Message message;
  };
  std::vector<WaitingState> states_to_answer_;
  InboundRequest* proposal_ = nullptr;  ///< being followed, not yet answered
  Message proposal_message_;
  std::string failure_;
  engine::Uuid agreed_;       ///< the last epoch that the partner is known to have recorded
  engine::Uuid begun_epoch_;  ///< the last one of both that was in force in this process
};

}  // namespace lockstep::replication
