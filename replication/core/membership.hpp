#pragma once
// A replica's part in the epochs of its volume: hears of what the node, the partner, the store and the operator do, and
// has the parts below take the steps that follow. Steps are few and slow: each is a chain of callbacks under one token
// (epoch_steps.hpp); this node drives it (epoch_driver.hpp), or the partner (epoch_follower.hpp).
//
// Who acts is decided by verdict.hpp from states that the nodes exchange.
#include <functional>
#include <optional>
#include <string>

#include "replication/core/epoch_driver.hpp"
#include "replication/core/epoch_follower.hpp"
#include "replication/core/epoch_steps.hpp"
#include "replication/core/flap_damping.hpp"
#include "replication/core/giving_up.hpp"
#include "replication/core/going_alone.hpp"
#include "replication/core/growth.hpp"
#include "replication/core/left_epoch.hpp"
#include "replication/core/mirror_parts.hpp"
#include "replication/core/operator_command.hpp"
#include "replication/core/phase_runner.hpp"
#include "replication/core/state_exchange.hpp"
#include "replication/core/store_watch.hpp"
#include "replication/core/verdict.hpp"

namespace lockstep::replication {

class Membership : ExchangeUser, StepsUser, PhasesUser, AloneUser, DriverUser, FollowerUser, GivingUpUser {
 public:
  using Done = OperatorCommand::Done;

  explicit Membership(const MirrorParts& parts);
  ~Membership() override;

  /// First thing after attach(): what an earlier process wrote and did not flush is made durable before anything of it
  /// is seen.
  void begin();
  /// The node begins, perhaps long after: from now on the partner can call.
  void on_node_started() { alone_.begin(); }
  /// Before that, in the place of a tick.
  void watch_before_start();
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
  void on_lease(const engine::Uuid& epoch, bool granted, const Lease& lease);
  /// The lease ran out: suspend. What was not started waits until it is known whether this node goes on alone.
  void lose_lease() override;

  void look_again() { exchange(); }  ///< something that the partner should know changed
  /// Everything that the store was given; a failure is the store's. A store that has failed owes nothing.
  void make_durable(engine::IoCallback done);

  void on_equal();                 ///< the sequencer says that nothing differs any more
  void join() { driver_.join(); }  ///< the target is equal: {A,B}
  void on_partner_refused();       ///< an order was refused: look at its state
  void on_store_failed();
  void fail_metadata(const std::string& why);

  void make_room(std::uint64_t size, Done done) { growth_.make_room(size, std::move(done)); }
  void want_size(std::uint64_t size) { growth_.want_size(size); }
  void want_arbiter(ArbiterWish wish);

  void leave(Done done);
  void force_solo(bool accept_inconsistent, Done done);
  void give_up(Done done) { giving_up_.begin(std::move(done)); }
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
  [[nodiscard]] StepParts step_parts();
  // commands (membership_commands.cpp)
  static constexpr engine::Duration kMarksAllWithin = std::chrono::minutes(5);  ///< 64 TiB on a slow disk
  [[nodiscard]] engine::Result<void> check_forced(bool accept_inconsistent) const;
  void mark_all_and_go_on(bool accept_inconsistent);
  void go_on_by_force();
  [[nodiscard]] bool has_begun() const override { return begun_ == Begun::wholly; }
  // the clock
  [[nodiscard]] bool is_idle() const;
  void finish_closing();
  void take_link_back();
  void watch_lease(engine::TimePoint now);
  void take_buffers_back(engine::TimePoint now);
  void end_overdue_step(engine::TimePoint now);
  void help_step_on(engine::TimePoint now);
  // what the partner says (state_exchange.hpp), and what follows (membership_agreeing.cpp)
  void exchange() { exchange_.ask(); }
  [[nodiscard]] bool may_tell_state() const override { return !steps_.is(Step::following); }
  [[nodiscard]] bool waits_for_partner() const override { return verdict_ == Verdict::follow; }
  [[nodiscard]] bool sees_split_brain() const override { return verdict_ == Verdict::split_brain; }
  void on_gone_alone(bool forced) override;
  void on_partner_state(const ReplicaState& theirs, bool first) override;
  void on_partner_unfit(const std::string& why) override { failure_ = why; }
  void on_asked(bool learnt) override;
  void act(const ReplicaState& theirs);
  void agree_again(const ReplicaState& theirs, bool was_settled);
  /// A step is under way after which this node is alone, since contact comes and goes.
  [[nodiscard]] bool leaves_partner_out() const { return damping_.damped() && steps_.is(Step::driving); }
  [[nodiscard]] bool leaves_it_to_partner() const;
  void change_in_sync(const ReplicaState& theirs);
  void start_in_touch();
  [[nodiscard]] bool is_left_to_this(const ReplicaState& theirs) const;
  void stop_if_left_behind(const ReplicaState& theirs);
  void let_partner_change();
  // steps
  void send_refused_again(engine::Duration every);
  void record_what_was_left();
  void stop_if_set_back();
  void heed_witness();
  void on_step_ended() override;
  void on_step_given_up() override;
  void on_recorded() override { failure_.clear(); }
  void on_record_refused() override;
  void on_late_record() override;
  void resume() override;
  void prove_store() override { alone_.prove_store(); }
  void watch_stores(engine::TimePoint now);
  [[nodiscard]] bool needs_another_epoch() const;
  void trust_store_again();
  // touch (membership_roles.cpp)
  /// Leases out of touch, after which the partner serves no more by this node's leave, and nothing of its sessions can
  /// be begun.
  static constexpr int kGoneAfter = 3;
  [[nodiscard]] engine::Duration gone_after() const {
    return kGoneAfter * settings_.granted_lease * (100 + settings_.drift_percent) / 100;
  }
  void tell_when_decided();
  [[nodiscard]] bool partner_serves_nobody() const;
  void end_what_partner_held(engine::TimePoint now);
  void let_sessions_end(engine::TimePoint now);

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
  FlapDamping damping_;
  StoreWatch store_watch_;
  LeftEpoch left_epoch_;
  Growth growth_;
  StateExchange exchange_;
  EpochSteps steps_;
  PhaseRunner phases_;
  GoingAlone alone_;
  OperatorCommand command_;
  EpochDriver driver_;
  EpochFollower follower_;
  GivingUp giving_up_;
  enum class Begun : std::uint8_t {
    no,
    flushed,  ///< the first flush went well
    wholly    ///< and what this node left is recorded
  };
  Begun begun_ = Begun::no;
  bool leaving_ = false;
  bool split_ = false;
  bool forced_ = false;  ///< by an operator, in this process, and alone since
  bool told_of_force_ = false;
  ArbiterWish wish_ = ArbiterWish::none;
  engine::TimePoint sent_again_;
  bool was_undecided_ = false;
  bool partner_is_gone_ = false;      ///< … and this node is alone
  engine::TimePoint partner_served_;  ///< when it may have last, where this node is alone
  Verdict verdict_ = Verdict::wait;
  engine::Callback<> closed_done_;
  engine::TimePoint link_back_at_;
  bool last_flush_begun_ = false;
  std::string failure_;
};

}  // namespace lockstep::replication
