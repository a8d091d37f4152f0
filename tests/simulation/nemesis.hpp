#pragma once
// Breaks things, with pauses, in the ways that the scenario knows; and heals everything at the end.
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tests/simulation/host.hpp"

namespace lockstep::simulation {

class World;

class Nemesis {
 public:
  Nemesis(World& world, SimRandom random);
  void start();
  /// No more faults; everything that can be mended from outside is.
  void heal();
  /// Moments in which a fault tells more than at others: a write has just been sent to `host`; a read through `host`
  /// has returned what nobody acknowledged yet. Now and then one follows.
  void write_was_sent(Host& host);
  void unacknowledged_was_read();
  /// A volume's state has changed on some node.
  void state_changed();
  /// A member's store has failed, and the two have not agreed yet that it leaves.
  void store_failed(Host& host);
  /// A node of several shards is about to close its initiators' sessions on one of its threads.
  void sessions_are_closed(Host& host);
  /// By the other node's fence command: it starts again after a while.
  void powered_off(Host& host) { end(host, Host::End::power_cut); }
  /// What operators ordered may still be under way until then.
  [[nodiscard]] Nanos ordered_until() const { return ordered_until_; }
  /// Each was answered.
  [[nodiscard]] bool orders_ended() const;
  /// Called now and then after heal(): starts what is down, restarts what needs a restart to come back. A store that
  /// was only late, or full, needs none.
  void nurse();

 private:
  enum class Fault : std::uint8_t {
    kill,
    power_cut,
    power_cut_both,
    freeze,
    shutdown,
    leave,
    network,
    session_break,
    paths,
    shard_link,
    thread,
    witness,
    store_errors,
    store_hang,
    store_slow,
    store_full,
    stall,
    one_way_stall,
    restart_at_once,
    long_freeze,
    pause,
    revert,
    revert_both,
    memory,
    detach,
    replace,
    force,
    give_up,
    two_orders,
    write_cache,
    dies_twice,
    two_at_once,
    both_stores,
    pool_full,
    bad_sectors,
    witness_slow,
    witness_set_back,
    witness_emptied,
    witness_overwritten,
  };
  static void on_act(void* self, std::uint64_t);
  static void on_strike(void* self, std::uint64_t fault_and_side);
  static void on_strike_any(void* self, std::uint64_t);
  static void on_cut_power(void* self, std::uint64_t side);
  static void on_fail_store(void* self, std::uint64_t side);
  static void on_second_fault(void* self, std::uint64_t side);
  static void on_strike_both(void* self, std::uint64_t);
  static void on_boot(void* self, std::uint64_t side);
  static void on_thaw(void* self, std::uint64_t side);
  static void on_mend_network(void* self, std::uint64_t from);
  static void on_mend_witness(void* self, std::uint64_t side);
  static void on_hear_again(void* self, std::uint64_t side);
  static void on_mend_store(void* self, std::uint64_t side);
  static void on_restart_after_leave(void* self, std::uint64_t side);
  static void on_go_on(void* self, std::uint64_t store);
  static void on_flow_goes_on(void* self, std::uint64_t flow);
  static void on_hold_shard(void* self, std::uint64_t flow);
  static void on_shard_goes_on(void* self, std::uint64_t flow);
  static void on_mend_shard_link(void* self, std::uint64_t shard_and_side);
  static void on_mend_path(void* self, std::uint64_t path_and_side);
  static void on_force(void* self, std::uint64_t how);
  static void on_second_order(void* self, std::uint64_t volume_and_side);
  static void on_keep_second(void* self, std::uint64_t side);
  static void on_witness_fast(void* self, std::uint64_t side);
  static void on_cache_off(void* self, std::uint64_t volume);
  static void on_cache_on_again(void* self, std::uint64_t volume);
  static void on_switch_cache(void* self, std::uint64_t order);

  void act();
  void commit(Fault fault);
  void strike(Fault fault, Host& host);
  void commit_more(Fault fault, Host& host);
  void end(Host& host, Host::End how);
  void boot(Host& host);
  void spoil_store(Fault fault, Host& host);
  void mend_store(Host& host);
  void freeze(Host& host, Nanos time, bool with_its_clock);
  void restart_at_once(Host& host);
  void stall_store(Host& host);
  void stall_flow();
  void spoil_path(Host& host);
  void spoil_path(Host& host, std::size_t path, std::uint64_t how, Nanos time);
  void take_rdma_away(std::size_t path, std::uint64_t how, Nanos time);
  void spoil_shard_link(Host& host);
  void hold_shard(std::uint64_t flow, bool held);
  [[nodiscard]] engine::NodeSide forwarding_side(unsigned shard);
  void freeze_thread(Host& host);
  /// One of its ways out: of any shard.
  [[nodiscard]] SimLink& some_way_from(engine::NodeSide side);
  [[nodiscard]] unsigned some_shard();
  void revert(Host& host);
  void hears_nobody_for(Host& host, Nanos time);
  void revert_with_memory(Host& host);
  void revert_both();
  void keep_both();
  void decide_between_old_copies(unsigned volume);
  void detach(Host& host);
  [[nodiscard]] std::optional<unsigned> volume_to_detach(Host& host);
  void replace(Host& host);
  void force(Host& host);
  [[nodiscard]] bool may_be_old(const Host& host);
  void force_an_old_copy(Host& host, Nanos before);
  void go_on_with_an_old_copy(Host& host, unsigned volume);
  void give_up(Host& host);
  void two_orders(Host& host);
  void give_order(Host& host, unsigned volume);
  [[nodiscard]] Program::Said answer_of(const Host& host);
  [[nodiscard]] bool grew_in_the_dark(Host& host, unsigned volume);
  void give_up_a_split(Host& host, unsigned volume);
  void write_cache();
  void put_cache_on(std::uint64_t volume);
  void die_twice(Host& host);
  [[nodiscard]] bool alone(Host& host);
  void fail_two(Host& host);
  void fail_both_stores();
  void fill_pools(Host& host);
  void lose_sectors(Host& host);
  void slow_witness(Host& host);
  void set_witness_back();
  void empty_witness();
  void overwrite_witness();
  [[nodiscard]] bool witness_knows_better(const Host& host);
  [[nodiscard]] bool has_left(const Host& host);
  void goes_on_everywhere();
  [[nodiscard]] Nanos some_leases(Nanos low, Nanos high);
  [[nodiscard]] SimStore& store(std::uint64_t number);
  /// No other fault may come between: what is under way is only promised to end well when it is let be.
  [[nodiscard]] bool careful();
  void strike_in_care();
  [[nodiscard]] bool outlives_restarts(const Host& old_copy);
  void nurse_store(Host& host);
  [[nodiscard]] bool usable(Host& host) const { return host.running() && !host.frozen() && !host.stopping(); }
  [[nodiscard]] Host& either();
  [[nodiscard]] Nanos a_while(Nanos low, Nanos high) {
    return random_.chance(400'000) ? random_.between(low, high) : random_.skewed(low, high);
  }

  // Of a side, as the argument of an event.
  static std::uint64_t number(engine::NodeSide side) { return static_cast<std::uint64_t>(side); }
  static engine::NodeSide side_of(std::uint64_t number) { return static_cast<engine::NodeSide>(number); }
  static constexpr Nanos kLongestCare = 20 * kSecond;

  World& world_;
  SimRandom random_;
  std::vector<Fault> known_;
  bool over_ = false;
  Nanos careful_until_ = 0;
  bool restarts_in_care_ = false;  ///< meanwhile processes may end, and stand still, and sessions break
  SimRandom in_care_;
  Nanos failed_since_[2] = {};                ///< after heal(), as nurse() has seen it
  Nanos deaf_ = 0;                            ///< how long after its start a node hears nobody
  std::uint64_t refused_ = 0;                 ///< orders to give up
  const Host* restored_ = nullptr;            ///< whose disks an operator replaced by those of an earlier day
  bool keeping_ = false, both_kept_ = false;  ///< snapshots of both machines
  bool both_restored_ = false;                ///< … to which an operator has set them back
  struct Order {
    engine::NodeSide side;
    std::uint64_t life;  ///< of the process that was told
  };
  std::map<std::uint64_t, Order> orders_;  ///< of two_orders, that have no answer yet
  std::uint64_t last_order_ = 0;
  Nanos ordered_until_ = 0;
  std::optional<SimWitness::Snapshot> witness_then_;
  std::uint64_t detached_in_[2] = {};  ///< the life of each node in which it was ordered to
  std::uint64_t giving_up_in_ = 0;     ///< the life of a node that was told to give up and has not answered
  bool dying_ = false;                 ///< a process died, and its machine is to lose power, too
  bool cached_ = false;                ///< some node may have its write cache on
};

}  // namespace lockstep::simulation
