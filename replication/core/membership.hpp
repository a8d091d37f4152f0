#pragma once
// The steps of this replica from one epoch of its volume to the next: those that it drives, those that its partner
// does, and what an operator asks for. Steps are few and slow: each is a chain of callbacks under one token
// (epoch_steps.hpp).
//
// Who acts is decided by verdict.hpp from states that the nodes exchange; a follower refuses what does not follow from
// its own durable record, so that a decision from an old state does no harm.
#include <functional>
#include <optional>
#include <string>

#include "replication/core/epoch_steps.hpp"
#include "replication/core/going_alone.hpp"
#include "replication/core/growth.hpp"
#include "replication/core/left_epoch.hpp"
#include "replication/core/mirror_parts.hpp"
#include "replication/core/phase_runner.hpp"
#include "replication/core/state_exchange.hpp"
#include "replication/core/store_watch.hpp"
#include "replication/core/verdict.hpp"

namespace lockstep::replication {

class Membership : ExchangeUser, StepsUser, PhasesUser, AloneUser {
 public:
  using Done = engine::Callback<engine::Result<void>>;

  explicit Membership(const MirrorParts& parts);
  ~Membership() override;

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

  [[nodiscard]] bool wants_lease() const { return standing_.in_sync(); }
  [[nodiscard]] bool grant(const engine::Uuid& epoch) { return alone_.grant(epoch); }
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

  void make_room(std::uint64_t size, Done done) { growth_.make_room(size, std::move(done)); }
  void want_size(std::uint64_t size) { growth_.want_size(size); }
  void want_arbiter(ArbiterWish wish);

  void leave(Done done);
  void force_solo(bool accept_inconsistent, Done done);
  void give_up(Done done);
  /// Serves nothing any more; calls back, with a tick, when neither of the stores has anything under way.
  void close(engine::Callback<> done);
  [[nodiscard]] bool closed() const { return std::holds_alternative<phase::Closed>(standing_.phase); }
  /// Closed, and nobody owes it a callback.
  [[nodiscard]] bool is_over() const;

  [[nodiscard]] ReplicaState state() const override;
  /// The partner has recorded this node's epoch, and sends here what its initiators ask.
  [[nodiscard]] bool partner_follows() const {
    return outbound_.ready && agreed() && exchange_.partner() && exchange_.partner()->forwarding;
  }
  /// The partner is known to have recorded this node's epoch.
  [[nodiscard]] bool agreed() const { return exchange_.agreed(); }
  [[nodiscard]] MirrorState mirror_state() const;
  [[nodiscard]] std::string reason() const;
  [[nodiscard]] bool serving() const;
  /// Not serving, and it will soon be known whether it does: true for a bounded time only.
  [[nodiscard]] bool undecided() const;
  [[nodiscard]] bool failover_limited() const;
  [[nodiscard]] bool busy() const { return steps_.busy(); }

 private:
  enum class GivingUp : std::uint8_t { no, asking, doing };
  [[nodiscard]] bool has_begun() const { return begun_ == Begun::wholly; }
  // the clock
  [[nodiscard]] bool is_idle() const;
  void finish_closing();
  void take_link_back();
  void watch_lease(engine::TimePoint now);
  void take_buffers_back(engine::TimePoint now);
  void end_overdue_step(engine::TimePoint now);
  // what the partner says (state_exchange.hpp), and what follows
  void exchange() { exchange_.ask(); }
  [[nodiscard]] bool may_tell_state() const override { return !steps_.is(Step::following); }
  [[nodiscard]] bool waits_for_partner() const override { return verdict_ == Verdict::follow; }
  [[nodiscard]] bool sees_split_brain() const override { return verdict_ == Verdict::split_brain; }
  void on_gone_alone() override;
  void on_partner_state(const ReplicaState& theirs, bool first) override;
  void on_partner_unfit(const std::string& why) override { failure_ = why; }
  void on_asked(bool learnt) override;
  void act(const ReplicaState& theirs);
  void change_in_sync(const ReplicaState& theirs);
  void let_partner_change();
  // steps (membership_drive.cpp, membership_follow.cpp)
  void send_refused_again(engine::Duration every);
  void record_what_was_left();
  void stop_if_set_back();
  void on_step_ended() override;
  void on_step_given_up() override;
  void on_recorded() override { failure_.clear(); }
  void on_record_refused() override;
  void on_late_record() override;
  void drive_resume();
  void resume();
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
  [[nodiscard]] bool may_change_in_sync() const;
  void grow_alone();
  void prove_store() override { alone_.prove_store(); }
  void watch_stores(engine::TimePoint now);
  void trust_store_again();
  // touch (membership_roles.cpp)
  void tell_when_decided();
  void finish_waiter(engine::Result<void> result);

  const NodeSettings& settings_;
  engine::Clock& clock_;
  engine::Random& random_;
  Witness* witness_;
  Partner& partner_;
  const Standing& standing_;
  LocalStore& store_;
  Outbound& outbound_;
  ForwardEntries& forward_entries_;
  Completions& completions_;
  Space& space_;
  Forwarder& forwarder_;
  Resync& resync_;
  Sequencer& sequencer_;
  Applier& applier_;
  Generations& generations_;
  Cleaner& cleaner_;
  Witnessing& witnessing_;
  LuStateKeeper& lu_;
  Front& front_;
  const std::function<void()>& changed_;
  StoreWatch store_watch_;
  LeftEpoch left_epoch_;
  Growth growth_;
  StateExchange exchange_;
  EpochSteps steps_;
  PhaseRunner phases_;
  GoingAlone alone_;
  enum class Begun : std::uint8_t {
    no,
    flushed,  ///< the first flush went well
    wholly    ///< and what this node left is recorded
  };
  Begun begun_ = Begun::no;
  bool leaving_ = false;
  bool split_ = false;
  ArbiterWish wish_ = ArbiterWish::none;
  engine::TimePoint last_clean_, sent_again_;
  bool was_undecided_ = false;
  Verdict verdict_ = Verdict::wait;
  Done waiter_;
  bool waiter_is_leave_ = false;
  GivingUp giving_up_ = GivingUp::no;
  engine::TimePoint waiter_until_;
  engine::Callback<> closed_done_;
  engine::TimePoint link_back_at_;
  bool last_flush_begun_ = false;
  engine::Callback<> store_settled_;    ///< goes on when the store owes nothing
  InboundRequest* proposal_ = nullptr;  ///< being followed, not yet answered
  Message proposal_message_;
  std::string failure_;
};

}  // namespace lockstep::replication
