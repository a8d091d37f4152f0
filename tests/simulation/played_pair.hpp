#pragma once
// A pair of which A is real, and in sync with a B that the test plays.
#include <optional>

#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/played_partner.hpp"

namespace lockstep::simulation {

using engine::DiskOpcode;
using engine::Errc;
using engine::MemberSet;
using replication::Message;
using replication::MessageType;
using replication::MirrorState;

constexpr Nanos kSoon = 20 * kMillisecond;
constexpr Nanos kLease = 2 * kSecond;
constexpr std::uint64_t kBlockOfBoth = 8;

inline void a_orders(Scenario& s) { s.lease = kLease; }
inline void b_orders(Scenario& s) {
  s.lease = kLease;
  s.first_sequencer = kB;
}

inline void patient(Scenario& s) {
  a_orders(s);
  s.store_deadline = 60 * kSecond;
}

inline bool is(const Message& m, MessageType type) { return m.type == type; }

/// A is real, and in sync with what the test plays as B.
struct PlayedB {
  explicit PlayedB(const ScriptedPair::Adjust& adjust = a_orders) : pair(pair_program(), adjust), b(pair, kB) {
    EXPECT_TRUE(b.in_touch());
    EXPECT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::in_sync) && pair.status(kA).serving; }));
    EXPECT_EQ(pair.value_at(kA, 0), 0);
    auto& unit = pair.read_state(kA);
    EXPECT_TRUE(pair.wait_for([&] { return unit.done; }));
    const auto found = scsi::LuState::decode(unit.request.data.first(unit.request.transferred));
    if (found) version = found->version;
  }
  [[nodiscard]] engine::EpochRecord next(MemberSet members, std::uint64_t above = 0) const {
    engine::EpochRecord record = b.state.record;
    record.number += 1 + above;
    record.ancestors.insert(record.ancestors.begin(), record.id);
    record.id.bytes[0] ^= static_cast<std::uint8_t>(record.number);
    record.members = members;
    if (!members.is_both()) record.sequencer = members.contains(kA) ? kA : kB;
    return record;
  }
  /// Above all that the real B had before.
  static constexpr std::uint64_t kNumbers = std::uint64_t{1} << 50;
  /// A write that B ordered.
  [[nodiscard]] Message order(std::uint64_t sequence) const {
    Message m = b.message(MessageType::replicate);
    m.opcode = DiskOpcode::write;
    m.sequence = kNumbers + sequence;
    m.extent = {kBlockOfBoth * kBlock, kBlock};
    return m;
  }
  /// A write that came to B just now.
  [[nodiscard]] Message forward(std::uint64_t tag) {
    Message m = b.message(MessageType::forward);
    m.opcode = DiskOpcode::write;
    m.tag = m.lowest_tag = tag;
    m.extent = {kBlockOfBoth * kBlock, kBlock};
    m.sequence = version;
    m.stamp = b.stamp();
    return m;
  }
  [[nodiscard]] static std::vector<std::byte> block_of(int fill) {
    return std::vector<std::byte>(kBlock, static_cast<std::byte>(fill));
  }
  [[nodiscard]] int stored() { return std::to_integer<int>(pair.host(kA).data(0).visible()[kBlockOfBoth * kBlock]); }
  /// B answers neither heartbeats nor a hello on a new way.
  static bool silent(const Message& m) { return is(m, MessageType::heartbeat) || is(m, MessageType::hello); }
  /// A has granted B a lease until the last moment, before which `shortly_before` is called.
  void suspend(const std::function<void()>& shortly_before = [] {}) {
    b.keeps = silent;
    b.state.serving = false;
    pair.run_for(kLease * 3 / 4);
    ASSERT_TRUE(b.is_granted(b.state.record.id));
    shortly_before();
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::suspended); }));
  }
  /// A has won at the witness, and waits until B's lease is over.
  void let_a_win() {
    suspend();
    const auto won = [&] { return witnessed() && witnessed()->members == MemberSet::only(kA); };
    ASSERT_TRUE(pair.wait_for(won, kLease / 2));
    pair.run_for(2 * kSoon);
  }
  /// B has gone on alone: A is no member.
  void leave_a_behind() {
    b.state.record = next(MemberSet::only(kB));
    b.tell_state();
    ASSERT_TRUE(
        pair.wait_for([&] { return pair.status(kA).epoch.id == b.state.record.id && pair.status(kA).serving; }));
    tell_unit();
  }
  /// B proposes an epoch without A, which agrees.
  void have_a_leave() {
    auto& leave = b.propose(next(MemberSet::only(kB)));
    ASSERT_TRUE(pair.wait_for([&] { return leave.done; }));
    ASSERT_TRUE(leave.ended_with(Errc::ok));
    b.state.record = pair.status(kA).epoch;
    tell_unit();
  }
  void tell_unit() {
    scsi::LuState unit;
    unit.version = version;
    EXPECT_TRUE(b.tell_unit_state(unit).ended_with(Errc::ok));
  }
  /// What A says of itself.
  [[nodiscard]] replication::ReplicaState told() {
    const auto& exchange = b.tell_state();
    return replication::decode_state(std::span(exchange.in).first(exchange.answer->payload)).value();
  }
  [[nodiscard]] std::optional<replication::WitnessRecord> witnessed() {
    return pair.world().witness.view(pair.world().scenario.volumes[0].id).record;
  }
  /// B answers heartbeats again, and all else.
  void back_in_touch() {
    b.keeps = [](const Message&) { return false; };
    b.let_go(Errc::ok);
  }
  /// A proposes an epoch of both, and B does not answer: a transition is under way.
  void keep_a_proposal() {
    b.keeps = [](const Message& m) { return is(m, MessageType::propose); };
    b.state.attempted = 50;
    b.tell_state();
    ASSERT_TRUE(pair.wait_for([&] { return !b.proposals.empty(); }));
  }
  /// B, out of touch while A ordered a write, has tried for that epoch at the witness, and takes no orders yet.
  void come_back_after_an_attempt(std::uint64_t number) {
    pair.host(kA).witness().set_reachable(false);
    b.keeps = [](const Message& m) { return is(m, MessageType::replicate) || silent(m); };
    pair.write(kA, kBlockOfBoth, 1);
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::suspended); }));
    b.state.attempted = number;
    b.state.serving = false;
    auto refused = std::make_shared<bool>(false);
    b.says = [refused](const Message& m) {
      if (!is(m, MessageType::replicate)) return Errc::ok;
      *refused = true;
      return Errc::stale;
    };
    back_in_touch();
    ASSERT_TRUE(pair.wait_for([&] { return *refused; }));
  }
  /// B can't be a member, and leaves: A is alone. Then B is a target that has everything.
  void go_on_alone() {
    b.state.able = false;
    b.tell_state();
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::solo); }));
    pair.run_for(kSoon);  // it has asked once more
    b.state.record = pair.status(kA).epoch;
    b.state.able = b.state.forwarding = true;
    b.state.serving = false;
  }
  void spoil_metadata(const std::function<void(StoreFaults&)>& how) {
    StoreFaults faults = pair.host(kA).metadata(0).faults();
    how(faults);
    pair.host(kA).metadata(0).set_faults(faults);
  }
  void hang_metadata() {
    spoil_metadata([](StoreFaults& f) { f.hang = kAlways; });
  }
  /// Times that A closed its initiators' sessions.
  [[nodiscard]] unsigned fences() { return pair.host(kA).fences(); }
  /// An order of B's hangs in A's store, as does all that comes after it.
  void hang_an_order() {
    hang(pair, kA);
    b.send(order(1), block_of(1));
    pair.run_for(kSoon);
  }
  /// Somebody else's record at the witness.
  void at_the_witness(const replication::WitnessRecord& record) {
    const auto id = pair.world().scenario.volumes[0].id;
    auto& witness = pair.world().witness;
    ASSERT_TRUE(witness.swap(id, witness.view(id).mod_revision, record).won);
  }

  ScriptedPair pair;
  PlayedPartner b;
  std::uint64_t version = 0;  ///< of the unit's state
};

}  // namespace lockstep::simulation
