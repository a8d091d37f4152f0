// PERSISTENT RESERVE OUT as SPC-4 5.12 has it.
#include <algorithm>

#include "lu_fixture.hpp"

namespace lockstep::scsi::test {
namespace {

using enum ReserveOut;
using PersistentReserveOut = LuTest;

TEST_F(PersistentReserveOut, RegisteringNeedsKeyZeroAndAfterwardsTheKey) {
  EXPECT_EQ(out(a, register_key, {.key = 5, .service_key = 1}), Status::reservation_conflict);
  register_(a, 1);
  EXPECT_EQ(state.generation, 1u);
  EXPECT_EQ(out(a, register_key, {.key = 0, .service_key = 2}), Status::reservation_conflict);
  EXPECT_EQ(out(a, register_key, {.key = 1, .service_key = 2}), Status::good);
  EXPECT_EQ(state.find(a)->key, 2u);
  EXPECT_EQ(state.generation, 2u);
  EXPECT_EQ(out(a, register_key, {.key = 2, .service_key = 0}), Status::good);
  EXPECT_EQ(state.find(a), nullptr);
  EXPECT_EQ(state.generation, 3u);
}

TEST_F(PersistentReserveOut, UnregisteringWhatIsNotRegisteredDoesNothing) {
  EXPECT_EQ(out(a, register_key, {}), Status::good);
  EXPECT_EQ(out(a, register_and_ignore, {.key = 77}), Status::good);
  EXPECT_FALSE(changed);
  EXPECT_EQ(state.generation, 0u);
}

TEST_F(PersistentReserveOut, RegisterAndIgnoreTakesNoNoticeOfTheKey) {
  EXPECT_EQ(out(a, register_and_ignore, {.key = 99, .service_key = 1}), Status::good);
  EXPECT_EQ(out(a, register_and_ignore, {.key = 98, .service_key = 2}), Status::good);
  EXPECT_EQ(state.find(a)->key, 2u);
  EXPECT_EQ(out(a, register_and_ignore, {.key = 97}), Status::good);
  EXPECT_TRUE(state.registrations.empty());
}

TEST_F(PersistentReserveOut, TheSameInitiatorAtTheOtherTargetPortIsAnotherNexus) {
  register_(a, 1);
  EXPECT_EQ(state.find(port_of('a', 2)), nullptr);
  EXPECT_EQ(out(port_of('a', 2), reserve, {.key = 1}, Type::write_exclusive), Status::reservation_conflict);
}

TEST_F(PersistentReserveOut, AllTargetPortsRegistersAtEachOne) {
  EXPECT_EQ(out(a, register_key, {.service_key = 1, .all_ports = true}), Status::good);
  ASSERT_NE(state.find(port_of('a', 2)), nullptr);
  EXPECT_EQ(state.find(port_of('a', 2))->key, 1u);
  EXPECT_EQ(state.registrations.size(), 2u);
}

TEST_F(PersistentReserveOut, AnOwnRegistrationCountsBeforeOneOfTheInitiatorsName) {
  NexusKey all_of_a = a;
  all_of_a.any_isid = true;
  all_of_a.isid = {};
  for (const bool own_first : {false, true}) {
    state.registrations = {{all_of_a, 1}, {a, 2}};
    if (own_first) std::ranges::reverse(state.registrations);
    EXPECT_EQ(state.find(a)->key, 2u);
  }
}

TEST_F(PersistentReserveOut, SpecifiedInitiatorPortsAreRegisteredToo) {
  NexusKey all_of_c = c;
  all_of_c.any_isid = true;
  all_of_c.isid = {};
  const List list{.service_key = 1, .specifies = true, .named = {b, all_of_c}};
  EXPECT_EQ(out(a, register_key, list), Status::good);
  EXPECT_EQ(state.registrations.size(), 3u);
  ASSERT_TRUE(state.find(b) && state.find(c));
  NexusKey other_session = c;
  other_session.isid[0] ^= 0x80;
  EXPECT_EQ(state.find(other_session), state.find(c)) << "a name without ISID stands for all of its ports";
  EXPECT_EQ(state.generation, 1u);
}

TEST_F(PersistentReserveOut, SpecifyingPortsIsForUnregisteredNexusesAndForRegisterAlone) {
  register_(a, 1);
  EXPECT_EQ(out(a, register_key, {.key = 1, .service_key = 2, .specifies = true, .named = {b}}),
            Status::check_condition);
  expect_refused(asc::kInvalidFieldInCdb);
  for (const ReserveOut action : {register_and_ignore, ReserveOut::reserve, release, clear, preempt}) {
    List list{.key = 1, .service_key = 1, .specifies = true};
    auto bytes = list.bytes();
    bytes.resize(24);
    if (action == register_and_ignore) bytes = list.bytes();
    run(request_of(a, action, bytes, 1));
    expect_refused(asc::kInvalidFieldInParameterList);
  }
}

TEST_F(PersistentReserveOut, ParameterListsOfOtherLengthsAreRefused) {
  register_(a, 1);
  for (const ReserveOut action : {register_key, ReserveOut::reserve, release, clear, preempt, preempt_and_abort,
                                  register_and_ignore, register_and_move}) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{23}, std::size_t{28}}) {
      auto bytes = List{.key = 1, .service_key = 1}.bytes();
      bytes.resize(size);
      run(request_of(a, action, bytes, 1));
      if (action == register_and_move && size == 28) engine::store_be<std::uint32_t>(&bytes[20], 5);
      expect_refused(asc::kParameterListLengthError);
    }
  }
}

TEST_F(PersistentReserveOut, AListOfPortsThatDoesNotEndWhereItSaysIsRefused) {
  auto bytes = List{.service_key = 1, .specifies = true, .named = {b}}.bytes();
  engine::store_be<std::uint32_t>(&bytes[24], static_cast<std::uint32_t>(bytes.size()));
  run(request_of(a, register_key, bytes));
  expect_refused(asc::kParameterListLengthError);
  engine::store_be<std::uint32_t>(&bytes[24], static_cast<std::uint32_t>(bytes.size() - 28));
  engine::store_be<std::uint16_t>(&bytes[30], 0xFFFC);  // the TransportID's own length
  run(request_of(a, register_key, bytes));
  expect_refused(asc::kInvalidFieldInParameterList);
  EXPECT_EQ(answer.sense.field, (FieldPointer{.in_cdb = false, .byte = 28, .bit = 7}));
}

TEST_F(PersistentReserveOut, PersistenceThroughPowerLossIsThePromiseOfTheLastRegistration) {
  EXPECT_EQ(out(a, register_key, {.service_key = 1, .persist = true}), Status::good);
  hold(a, 1, Type::exclusive_access);
  EXPECT_EQ(state.after_power_loss().registrations, state.registrations);
  EXPECT_EQ(state.after_power_loss().reservation, state.reservation);
  register_(b, 2);
  EXPECT_TRUE(state.after_power_loss().registrations.empty());
  EXPECT_FALSE(state.after_power_loss().reservation);
  EXPECT_EQ(state.after_power_loss().version, state.version + 1);
}

TEST_F(PersistentReserveOut, WithoutAPlaceToKeepItPersistenceIsRefused) {
  auto request = request_of(a, register_key, List{.service_key = 1, .persist = true}.bytes());
  request.may_persist = false;
  run(request);
  expect_refused(asc::kInvalidFieldInParameterList);
  EXPECT_EQ(answer.sense.field, (FieldPointer{.in_cdb = false, .byte = 20, .bit = 0}));
}

TEST_F(PersistentReserveOut, ReservingNeedsARegistrationAndItsKey) {
  EXPECT_EQ(out(a, ReserveOut::reserve, {.key = 1}, Type::write_exclusive), Status::reservation_conflict);
  register_(a, 1);
  EXPECT_EQ(out(a, ReserveOut::reserve, {.key = 2}, Type::write_exclusive), Status::reservation_conflict);
  EXPECT_EQ(out(a, ReserveOut::reserve, {.key = 1}, Type::write_exclusive), Status::good);
  EXPECT_EQ(state.generation, 1u) << "RESERVE does not count";
}

TEST_F(PersistentReserveOut, TypesAndScopesThatDoNotExistAreRefused) {
  register_(a, 1);
  for (const std::uint8_t bad : {0x00, 0x02, 0x04, 0x09, 0x0F, 0x11, 0x21}) {
    out(a, ReserveOut::reserve, {.key = 1}, bad);
    expect_refused(asc::kInvalidFieldInCdb);
  }
}

TEST_F(PersistentReserveOut, TheHolderMayReserveAgainWithTheSameTypeOnly) {
  register_(a, 1);
  register_(b, 2);
  hold(a, 1, Type::write_exclusive);
  EXPECT_EQ(out(a, ReserveOut::reserve, {.key = 1}, Type::write_exclusive), Status::good);
  EXPECT_FALSE(changed);
  EXPECT_EQ(out(a, ReserveOut::reserve, {.key = 1}, Type::exclusive_access), Status::reservation_conflict);
  EXPECT_EQ(out(b, ReserveOut::reserve, {.key = 2}, Type::write_exclusive), Status::reservation_conflict);
}

TEST_F(PersistentReserveOut, EveryTypeAllowsWhatItsTableSays) {  // SPC-4 table 66
  for (const Type type : kAllTypes) {
    state = {};
    register_(a, 1);
    register_(b, 2);
    hold(a, 1, type);
    const bool registrants = for_registrants(type);
    for (const auto access : {AccessClass::read, AccessClass::write, AccessClass::configure}) {
      const bool reads_of_others = access == AccessClass::read && !excludes_reads(type);
      EXPECT_TRUE(state.allows(a, access));
      EXPECT_EQ(state.allows(b, access), registrants || reads_of_others) << int(type);
      EXPECT_EQ(state.allows(c, access), reads_of_others) << int(type);
      EXPECT_EQ(state.check(&c, access), reads_of_others ? engine::Errc::ok : engine::Errc::reservation_conflict);
    }
    EXPECT_TRUE(state.allows(c, AccessClass::status));
    EXPECT_TRUE(state.restricted());
  }
}

TEST_F(PersistentReserveOut, ReleasingTellsOtherRegistrantsWhereTheyTookPart) {
  for (const Type type : kAllTypes) {
    state = {};
    register_(a, 1);
    register_(b, 2);
    hold(a, 1, type);
    EXPECT_EQ(out(a, release, {.key = 1}, type), Status::good);
    EXPECT_FALSE(state.reservation);
    EXPECT_EQ(told(b, LuAttention::reservations_released), for_registrants(type));
    EXPECT_TRUE(told_nothing(a) && told_nothing(c));
    EXPECT_EQ(state.registrations.size(), 2u);
  }
}

TEST_F(PersistentReserveOut, ReleasingWhatIsNotHeldIsGoodAndOfAnotherTypeIsNot) {
  register_(a, 1);
  register_(b, 2);
  EXPECT_EQ(out(a, release, {.key = 1}, Type::write_exclusive), Status::good);
  hold(a, 1, Type::write_exclusive);
  EXPECT_EQ(out(b, release, {.key = 2}, Type::write_exclusive), Status::good);
  EXPECT_EQ(out(b, release, {.key = 1}, Type::write_exclusive), Status::reservation_conflict);
  EXPECT_TRUE(state.reservation);
  out(a, release, {.key = 1}, Type::exclusive_access);
  expect_refused(asc::kInvalidReleaseOfPersistentReservation);
}

TEST_F(PersistentReserveOut, AnyRegistrantMayReleaseWhatAllHold) {
  register_(a, 1);
  register_(b, 2);
  hold(a, 1, Type::write_exclusive_all_registrants);
  EXPECT_EQ(out(b, release, {.key = 2}, Type::write_exclusive_all_registrants), Status::good);
  EXPECT_FALSE(state.reservation);
  EXPECT_TRUE(told(a, LuAttention::reservations_released));
}

TEST_F(PersistentReserveOut, AHolderThatUnregistersReleases) {
  for (const Type type : kAllTypes) {
    state = {};
    register_(a, 1);
    register_(b, 2);
    hold(a, 1, type);
    EXPECT_EQ(out(a, register_key, {.key = 1}), Status::good);
    EXPECT_EQ(state.reservation.has_value(), for_all_registrants(type));
    EXPECT_EQ(told(b, LuAttention::reservations_released), for_registrants(type) && !for_all_registrants(type));
    EXPECT_EQ(out(b, register_key, {.key = 2}), Status::good);
    EXPECT_FALSE(state.reservation) << "the last registrant is gone";
  }
}

TEST_F(PersistentReserveOut, ClearTakesEverythingAndTellsTheOthers) {
  register_(a, 1);
  register_(b, 2);
  hold(b, 2, Type::exclusive_access);
  EXPECT_EQ(out(a, clear, {.key = 1}), Status::good);
  EXPECT_TRUE(state.registrations.empty());
  EXPECT_FALSE(state.reservation);
  EXPECT_TRUE(told(b, LuAttention::reservations_preempted));
  EXPECT_TRUE(told_nothing(a));
  EXPECT_EQ(state.generation, 3u);
}

TEST_F(PersistentReserveOut, PreemptingTheHolderTakesTheReservationOver) {
  for (const ReserveOut action : {preempt, preempt_and_abort}) {
    state = {};
    register_(a, 1);
    register_(b, 2);
    register_(c, 3);
    hold(b, 2, Type::write_exclusive_registrants_only);
    EXPECT_EQ(out(a, action, {.key = 1, .service_key = 2}, Type::exclusive_access), Status::good);
    EXPECT_EQ(state.reservation, (Reservation{Type::exclusive_access, a}));
    EXPECT_FALSE(state.find(b));
    EXPECT_TRUE(told(b, LuAttention::registrations_preempted));
    EXPECT_TRUE(told(c, LuAttention::reservations_released)) << "the type is another";
    EXPECT_TRUE(told_nothing(a));
    EXPECT_EQ(state.generation, 4u);
  }
}

TEST_F(PersistentReserveOut, PreemptingWithTheSameTypeTellsOnlyThosePreempted) {
  register_(a, 1);
  register_(b, 2);
  register_(c, 3);
  hold(b, 2, Type::exclusive_access);
  EXPECT_EQ(out(a, preempt, {.key = 1, .service_key = 2}, Type::exclusive_access), Status::good);
  EXPECT_TRUE(told_nothing(c));
}

TEST_F(PersistentReserveOut, AHolderMayPreemptItselfToChangeTheType) {
  register_(a, 1);
  register_(b, 1);
  hold(a, 1, Type::write_exclusive);
  EXPECT_EQ(out(a, preempt, {.key = 1, .service_key = 1}, Type::exclusive_access), Status::good);
  EXPECT_EQ(state.reservation, (Reservation{Type::exclusive_access, a}));
  EXPECT_FALSE(state.find(b)) << "it had the same key";
}

TEST_F(PersistentReserveOut, PreemptingSomeoneElseRemovesRegistrationsOnly) {
  register_(a, 1);
  register_(b, 2);
  register_(c, 3);
  hold(b, 2, Type::write_exclusive);
  EXPECT_EQ(out(a, preempt, {.key = 1, .service_key = 3}, std::uint8_t{0}), Status::good) << "the type is ignored";
  EXPECT_EQ(state.reservation, (Reservation{Type::write_exclusive, b}));
  EXPECT_FALSE(state.find(c));
  EXPECT_TRUE(told(c, LuAttention::registrations_preempted));
  EXPECT_EQ(out(a, preempt, {.key = 1, .service_key = 4}), Status::reservation_conflict) << "nobody has that key";
}

TEST_F(PersistentReserveOut, PreemptingKeyZeroIsForAllRegistrantsOnly) {
  register_(a, 1);
  register_(b, 2);
  out(a, preempt, {.key = 1}, Type::write_exclusive);
  expect_refused(asc::kInvalidFieldInParameterList);
  hold(b, 2, Type::write_exclusive_all_registrants);
  EXPECT_EQ(out(a, preempt, {.key = 1}, Type::exclusive_access), Status::good);
  EXPECT_EQ(state.reservation, (Reservation{Type::exclusive_access, a}));
  EXPECT_EQ(state.registrations.size(), 1u);
  EXPECT_TRUE(told(b, LuAttention::registrations_preempted));
}

TEST_F(PersistentReserveOut, PreemptingOneOfAllRegistrantsLeavesTheReservation) {
  register_(a, 1);
  register_(b, 2);
  hold(b, 2, Type::exclusive_access_all_registrants);
  EXPECT_EQ(out(a, preempt, {.key = 1, .service_key = 2}, Type::write_exclusive), Status::good);
  ASSERT_TRUE(state.reservation);
  EXPECT_EQ(state.reservation->type, Type::exclusive_access_all_registrants);
  EXPECT_FALSE(state.find(b));
}

class RegisterAndMove : public LuTest {
 protected:
  std::vector<std::byte> list(const NexusKey& to, std::uint64_t key, std::uint64_t service_key, bool unregister,
                              std::uint16_t port = 1) {
    std::vector<std::byte> bytes(24 + kMaxTransportId);
    engine::ByteWriter out(bytes);
    out.be64(key);
    out.be64(service_key);
    out.u8(0);
    out.u8(unregister ? 2 : 0);
    out.be16(port);
    out.be32(static_cast<std::uint32_t>(transport_id_size(to)));
    write_transport_id(out, to);
    bytes.resize(out.size());
    return bytes;
  }
  void SetUp() override {
    register_(a, 1);
    hold(a, 1, Type::write_exclusive);
  }
};

TEST_F(RegisterAndMove, RegistersTheOtherAndGivesItTheReservation) {
  EXPECT_EQ(run(request_of(a, register_and_move, list(b, 1, 9, false, 2))), Status::good);
  EXPECT_EQ(state.reservation, (Reservation{Type::write_exclusive, port_of('b', 2)}));
  EXPECT_EQ(state.find(port_of('b', 2))->key, 9u);
  EXPECT_TRUE(state.find(a));
  EXPECT_EQ(state.generation, 2u);
}

TEST_F(RegisterAndMove, MayUnregisterTheOldHolder) {
  EXPECT_EQ(run(request_of(a, register_and_move, list(b, 1, 9, true))), Status::good);
  EXPECT_FALSE(state.find(a));
  EXPECT_TRUE(state.holds(*state.find(b)));
}

TEST_F(RegisterAndMove, IsForTheHolderAndNotForAllRegistrants) {
  register_(b, 2);
  EXPECT_EQ(run(request_of(b, register_and_move, list(c, 2, 9, false))), Status::reservation_conflict);
  EXPECT_EQ(run(request_of(a, register_and_move, list(c, 7, 9, false))), Status::reservation_conflict);
  EXPECT_EQ(out(a, preempt, {.key = 1, .service_key = 1}, Type::write_exclusive_all_registrants), Status::good);
  EXPECT_EQ(run(request_of(a, register_and_move, list(c, 1, 9, false))), Status::reservation_conflict);
}

TEST_F(RegisterAndMove, RefusesAZeroKeyItselfAnUnknownPortAndANameWithoutIsid) {
  NexusKey nameless = b;
  nameless.any_isid = true;
  for (const auto& bytes :
       {list(b, 1, 0, false), list(a, 1, 9, false), list(b, 1, 9, false, 7), list(nameless, 1, 9, false)}) {
    run(request_of(a, register_and_move, bytes));
    expect_refused(asc::kInvalidFieldInParameterList);
  }
  EXPECT_EQ(run(request_of(a, register_and_move, list(port_of('a', 2), 1, 9, false, 2))), Status::good)
      << "the same initiator port through another target port is another nexus";
}

TEST_F(PersistentReserveOut, OneRegistrationTooManyIsRefusedAndChangesNothing) {
  for (unsigned i = 0; i < kMaxRegistrations; ++i) {
    NexusKey each = a;
    each.isid[4] = static_cast<std::uint8_t>(i);
    register_(each, 1 + i);
  }
  NexusKey one_more = b;
  out(one_more, register_key, {.service_key = 1});
  expect_refused(asc::kInsufficientRegistrationResources);
}

}  // namespace
}  // namespace lockstep::scsi::test
