// What else a logical unit's state does: SPC-2 reservations, resets, mode, medium, sanitizing, repeated requests; and
// its form on disk.
#include <random>

#include "lu_fixture.hpp"

#include "engine/base/crc32c.hpp"

namespace lockstep::scsi::test {
namespace {

using enum LuRequestKind;
using LuStateTest = LuTest;

engine::Uuid uuid(std::uint8_t last) {
  engine::Uuid id;
  id.bytes[0] = 0xAA;
  id.bytes[15] = last;
  return id;
}

TEST_F(LuStateTest, ReserveKeepsOthersOutOfEverythingButWhatIsNeverRefused) {
  EXPECT_FALSE(state.restricted());
  EXPECT_EQ(simple(LuRequestKind::reserve, a), Status::good);
  EXPECT_EQ(simple(LuRequestKind::reserve, a), Status::good);
  EXPECT_EQ(simple(LuRequestKind::reserve, b), Status::reservation_conflict);
  for (const auto access : {AccessClass::status, AccessClass::configure, AccessClass::read, AccessClass::write}) {
    EXPECT_TRUE(state.allows(a, access));
    EXPECT_FALSE(state.allows(b, access));
  }
  EXPECT_TRUE(state.allows(b, AccessClass::unrestricted));
  EXPECT_EQ(simple(release, b), Status::good) << "of what it does not hold";
  EXPECT_FALSE(state.allows(b, AccessClass::read));
  EXPECT_EQ(simple(release, a), Status::good);
  EXPECT_FALSE(state.restricted());
}

TEST_F(LuStateTest, ReserveEndsWithItsNexusAResetOrItsNode) {
  for (const auto kind : {nexus_lost, unit_reset, target_reset, power_on}) {
    simple(LuRequestKind::reserve, a);
    ASSERT_TRUE(state.reserved_by);
    run({.kind = kind, .nexus = a});
    EXPECT_FALSE(state.reserved_by);
  }
  simple(LuRequestKind::reserve, a);
  run({.kind = port_lost, .port = 2, .survivor = 1});
  EXPECT_TRUE(state.reserved_by) << "it came by the other port";
  run({.kind = port_lost, .port = 1, .survivor = 2});
  EXPECT_FALSE(state.reserved_by);
}

TEST_F(LuStateTest, PersistentReservationsOutliveResetsAndLostNexuses) {
  register_(a, 1);
  hold(a, 1, Type::write_exclusive);
  for (const auto kind : {nexus_lost, unit_reset, target_reset}) run({.kind = kind, .nexus = a});
  run({.kind = port_lost, .port = 1, .survivor = 2});
  EXPECT_TRUE(state.find(a));
  EXPECT_TRUE(state.reservation);
}

TEST_F(LuStateTest, TheTwoKindsOfReservationExcludeOneAnother) {  // SPC-2 5.5.1, SPC-3 5.6.3
  simple(LuRequestKind::reserve, a);
  EXPECT_EQ(out(a, ReserveOut::register_key, {.service_key = 1}), Status::reservation_conflict);
  simple(release, a);
  register_(a, 1);
  EXPECT_EQ(simple(LuRequestKind::reserve, a), Status::reservation_conflict) << "registered, but nothing is reserved";
  EXPECT_EQ(simple(LuRequestKind::reserve, b), Status::reservation_conflict);
  EXPECT_EQ(simple(release, b), Status::reservation_conflict);
}

TEST_F(LuStateTest, WhoHoldsAPersistentReservationIsToldGoodByReserve) {
  register_(a, 1);
  register_(b, 2);
  hold(a, 1, Type::write_exclusive);
  for (const auto kind : {LuRequestKind::reserve, release}) {
    EXPECT_EQ(simple(kind, a), Status::good);
    EXPECT_FALSE(changed);
    EXPECT_EQ(simple(kind, b), Status::reservation_conflict);
  }
  EXPECT_EQ(out(a, ReserveOut::preempt, {.key = 1, .service_key = 1}, Type::write_exclusive_registrants_only),
            Status::good);
  EXPECT_EQ(simple(LuRequestKind::reserve, b), Status::good) << "a registrant of registrants only";
  EXPECT_EQ(simple(LuRequestKind::reserve, c), Status::reservation_conflict);
}

TEST_F(LuStateTest, ModeParametersAreToldToTheOthersAndResetPutsThemBack) {
  LuRequest select{.kind = mode_select, .nexus = a};
  select.mode.software_write_protect = true;
  EXPECT_EQ(run(select), Status::good);
  EXPECT_TRUE(told(b, LuAttention::mode_parameters_changed));
  EXPECT_TRUE(told_nothing(a));
  EXPECT_EQ(state.check(&a, AccessClass::write), engine::Errc::write_protected);
  EXPECT_EQ(state.check(&a, AccessClass::read), engine::Errc::ok);
  run(select);
  EXPECT_FALSE(changed);
  run({.kind = unit_reset, .nexus = a});
  EXPECT_EQ(state.mode, LuMode{});
  EXPECT_TRUE(told(a, LuAttention::unit_reset) && told(b, LuAttention::unit_reset)) << "the issuer, too";
}

TEST_F(LuStateTest, OfTheModeParametersThoseStayThatAListDoesNotName) {
  run({.kind = mode_select, .nexus = a, .mode = {.descriptor_sense = true, .software_write_protect = true}});
  run({.kind = mode_select, .nexus = b, .mode = {.threshold_off = true}, .kept = {true, true, false}});
  EXPECT_EQ(state.mode, (LuMode{true, true, true}));
  run({.kind = mode_select, .nexus = a, .mode = {}, .kept = {false, true, true}});
  EXPECT_EQ(state.mode, (LuMode{false, true, true}));
  run({.kind = mode_select, .nexus = a, .mode = {.descriptor_sense = true}, .kept = {true, true, true}});
  EXPECT_FALSE(changed);
  run({.kind = mode_select, .nexus = a});
  EXPECT_EQ(state.mode, LuMode{}) << "a node that names nothing means all";
}

TEST_F(LuStateTest, ModeParametersCannotBeChangedUnderTheReservationOfAnother) {
  register_(a, 1);
  hold(a, 1, Type::write_exclusive);
  LuRequest select{.kind = mode_select, .nexus = b, .mode = {.descriptor_sense = true}};
  EXPECT_EQ(run(select), Status::reservation_conflict);
}

TEST_F(LuStateTest, APreventedMediumStaysUntilEveryNexusAllowsOrIsLost) {
  simple(prevent, a);
  simple(prevent, b);
  run({.kind = eject, .nexus = a});
  expect_refused(asc::kMediumRemovalPrevented);
  simple(allow, a);
  EXPECT_EQ(simple(eject, a), Status::check_condition);
  simple(nexus_lost, b);
  EXPECT_EQ(simple(eject, a), Status::good);
  EXPECT_EQ(state.check(&a, AccessClass::read), engine::Errc::not_ready);
  EXPECT_EQ(state.check(&a, AccessClass::configure), engine::Errc::ok);
  simple(prevent, b);
  EXPECT_EQ(simple(load, a), Status::check_condition) << "what is prevented stays as it is";
  simple(allow, b);
  EXPECT_EQ(simple(load, a), Status::good);
  EXPECT_TRUE(told(b, LuAttention::medium_may_have_changed));
  EXPECT_EQ(state.check(&a, AccessClass::read), engine::Errc::ok);
}

TEST_F(LuStateTest, SanitizingShutsTheMediumThroughResetsAndMovesToTheNodeThatIsLeft) {
  EXPECT_EQ(simple(sanitize, a), Status::good);
  run({.kind = unit_reset, .nexus = b});
  run({.kind = power_on});
  EXPECT_EQ(state.check(&a, AccessClass::read), engine::Errc::not_ready);
  EXPECT_EQ(state.check(nullptr, AccessClass::unrestricted), engine::Errc::ok) << "what does the sanitizing";
  EXPECT_EQ(simple(sanitize, b), Status::check_condition);
  EXPECT_EQ(answer.sense.additional, asc::kSanitizeInProgress);
  EXPECT_EQ(state.sanitize.port, 1);
  run({.kind = port_lost, .port = 1, .survivor = 2});
  EXPECT_EQ(state.sanitize.port, 2);
  run({.kind = sanitize_finished});
  EXPECT_EQ(state.check(&a, AccessClass::write), engine::Errc::ok);
}

TEST_F(LuStateTest, AFailedSanitizeIsLeftByExitFailureModeWhereThatWasAllowed) {
  for (const bool allowed : {false, true}) {
    run({.kind = sanitize, .nexus = a, .sanitize = {.unrestricted_exit = allowed}});
    run({.kind = sanitize_failed});
    EXPECT_EQ(state.sanitize.phase, SanitizeState::Phase::failed);
    EXPECT_EQ(simple(exit_failure_mode, a), allowed ? Status::good : Status::check_condition);
    EXPECT_EQ(state.sanitize.phase, allowed ? SanitizeState::Phase::none : SanitizeState::Phase::failed);
  }
}

TEST_F(LuStateTest, TheSoftThresholdIsToldToAllOnceWhenTheFirstStoreReachesItAndAgainWhenBothHadLeftIt) {
  const auto space = [&](LuRequestKind kind, std::uint16_t port) {
    EXPECT_EQ(run({.kind = kind, .port = port}), Status::good);
    EXPECT_EQ(told(a, LuAttention::soft_threshold_reached), told(b, LuAttention::soft_threshold_reached));
    return told(a, LuAttention::soft_threshold_reached);
  };
  EXPECT_TRUE(space(space_low, 2));
  EXPECT_TRUE(state.is_low(2) && !state.is_low(1));
  EXPECT_FALSE(space(space_low, 2));
  EXPECT_FALSE(changed);
  EXPECT_FALSE(space(space_low, 1)) << "they know";
  EXPECT_FALSE(space(space_enough, 2));
  EXPECT_TRUE(state.warns_of_space()) << "one node lacks what both need";
  EXPECT_FALSE(space(space_enough, 1));
  EXPECT_FALSE(state.warns_of_space());
  EXPECT_TRUE(space(space_low, 1));
  run({.kind = space_low, .port = 3});
  EXPECT_FALSE(changed) << "no such node";
}

TEST_F(LuStateTest, ALowStoreCountsAsLongAsItsNodeIsThereAndRestrictsNobody) {
  run({.kind = space_low, .port = 2});
  EXPECT_FALSE(state.restricted());
  run({.kind = unit_reset, .nexus = a});
  EXPECT_TRUE(state.is_low(2)) << "a reset makes no space";
  run({.kind = port_lost, .port = 1, .survivor = 2});
  EXPECT_TRUE(state.is_low(2));
  run({.kind = port_lost, .port = 40000, .survivor = 1});
  EXPECT_FALSE(changed);
  run({.kind = port_lost, .port = 2, .survivor = 1});
  EXPECT_FALSE(state.is_low(2));
  run({.kind = space_low, .port = 1});
  run({.kind = power_on});
  EXPECT_EQ(state.low_space, 0);
}

TEST_F(LuStateTest, AThresholdThatIsDisabledTellsNobodyUntilItIsEnabled) {
  LuRequest select{.kind = mode_select, .nexus = a, .mode = {.threshold_off = true}};
  run(select);
  EXPECT_TRUE(told(b, LuAttention::mode_parameters_changed));
  run({.kind = space_low, .port = 1});
  EXPECT_TRUE(changed);
  EXPECT_TRUE(events.empty());
  select.mode = {};
  run(select);
  EXPECT_TRUE(told(a, LuAttention::soft_threshold_reached)) << "who asked for it, too";
  EXPECT_TRUE(told(b, LuAttention::soft_threshold_reached));
}

TEST_F(LuStateTest, ARequestThatComesTwiceIsAnsweredAsTheFirstTime) {
  auto request = request_of(a, ReserveOut::register_key, List{.service_key = 1}.bytes());
  request.id = uuid(1);
  EXPECT_EQ(run(request), Status::good);
  EXPECT_EQ(run(request), Status::good) << "carried out again it would be a conflict";
  EXPECT_FALSE(changed);
  EXPECT_TRUE(events.empty());
  for (unsigned i = 0; i < kMaxReplays; ++i) {
    run({.kind = unit_reset, .id = uuid(static_cast<std::uint8_t>(10 + i)), .nexus = a});
  }
  EXPECT_EQ(state.replays.size(), kMaxReplays);
  EXPECT_EQ(run(request), Status::reservation_conflict) << "forgotten";
}

LuState full_state() {
  LuState s;
  s.version = 0x0102030405060708;
  s.generation = 0x11121314;
  s.persistent = true;
  s.registrations = {{port_of('a'), 0xA1}, {port_of('b', 2), 0xB2}};
  s.reservation = Reservation{Type::exclusive_access_registrants_only, port_of('b', 2)};
  s.mode = {.descriptor_sense = true, .software_write_protect = true, .threshold_off = true};
  s.ejected = true;
  s.low_space = 2;
  s.preventions = {port_of('c')};
  s.sanitize.phase = SanitizeState::Phase::running;
  s.sanitize.pattern = {std::byte{0xDE}, std::byte{0xAD}};
  s.replays = {{uuid(1),
                {.status = Status::check_condition,
                 .sense = {.key = SenseKey::illegal_request,
                           .additional = asc::kInvalidFieldInCdb,
                           .field = FieldPointer{.in_cdb = true, .byte = 2, .bit = 7}}}}};
  return s;
}

TEST(LuCodec, AnEmptyStateHasTheseBytes) {
  constexpr std::uint8_t golden[] = {
      'L', 'S', 'L', 'U', 0, 1, 0, 0, 0, 0, 0, 29, 0, 0, 0, 0,  // magic, version, length, checksum (below)
      0,   0,   0,   0,   0, 0, 0, 0,                           // version of the state
      0,   0,   0,   0,                                         // generation
      0,   0,   0,   0,                                         // APTPL, registrations, type, SPC-2
      0,   0,   0,                                              // mode, ejected, preventions
      0,   2,   0,   1,   0, 0, 0, 0, 0,                        // sanitize
      0,   0,                                                   // replays
  };
  auto bytes = LuState{}.encode();
  ASSERT_EQ(bytes.size(), 16u + 29u);
  bytes[12] = bytes[13] = bytes[14] = bytes[15] = std::byte{0};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::uint8_t expected = i == 11 ? 29 : golden[i];
    EXPECT_EQ(std::to_integer<unsigned>(bytes[i]), expected) << i;
  }
}

TEST(LuCodec, TheThresholdTakesBitsThatWereZeroBefore) {
  LuState s;
  s.mode.threshold_off = true;
  s.low_space = 6;
  const auto plain = LuState{}.encode(), bytes = s.encode();
  ASSERT_EQ(bytes.size(), plain.size());
  for (std::size_t i = 16; i < bytes.size(); ++i) {
    const unsigned expected = i == 32 ? 4 : i == 33 ? 6 : std::to_integer<unsigned>(plain[i]);
    EXPECT_EQ(std::to_integer<unsigned>(bytes[i]), expected) << i;
  }
  EXPECT_EQ(*LuState::decode(bytes), s);
}

TEST(LuCodec, WhatIsEncodedIsDecodedAgain) {
  const LuState s = full_state();
  const auto back = LuState::decode(s.encode());
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, s);
  const LuRequest r{.kind = LuRequestKind::reserve_out,
                    .id = uuid(9),
                    .nexus = port_of('a'),
                    .service_action = 6,
                    .scope_and_type = 5,
                    .target_ports = 6,
                    .may_persist = true,
                    .parameters = List{.service_key = 4}.bytes()};
  EXPECT_EQ(*LuRequest::decode(r.encode()), r);
  const LuRequest select{.kind = LuRequestKind::mode_select,
                         .id = uuid(9),
                         .nexus = port_of('a'),
                         .mode = {.descriptor_sense = true},
                         .kept = {.threshold_off = true}};
  EXPECT_EQ(*LuRequest::decode(select.encode()), select);
  const std::vector<LuEvent> events{{LuAttention::unit_reset, true, {}},
                                    {LuAttention::registrations_preempted, false, {port_of('a'), port_of('b')}}};
  EXPECT_EQ(*decode_events(encode_events(events)), events);
  for (const Replay& each : s.replays) EXPECT_EQ(*LuAnswer::decode(each.answer.encode()), each.answer);
}

TEST(LuCodec, TheLargestStateFits) {
  LuState s = full_state();
  s.registrations.clear();
  s.sanitize.pattern.assign(kMaxSanitizePattern, std::byte{1});
  NexusKey longest{.initiator = std::string(kMaxInitiatorName, 'x'), .isid = {}, .port = 1};
  for (unsigned i = 0; i < kMaxRegistrations; ++i) {
    longest.isid[5] = static_cast<std::uint8_t>(i);
    s.registrations.push_back({longest, 1});
  }
  s.reservation->holder = s.reserved_by.emplace(longest);
  s.preventions.assign(kMaxPreventions, longest);
  s.replays.assign(kMaxReplays, {});
  EXPECT_EQ(*LuState::decode(s.encode()), s);
}

TEST(LuCodec, EveryChangedByteIsNoticed) {
  const auto good = full_state().encode();
  for (std::size_t i = 0; i < good.size(); ++i) {
    auto bytes = good;
    bytes[i] ^= std::byte{0x40};
    EXPECT_FALSE(LuState::decode(bytes)) << i;
    EXPECT_FALSE(LuState::decode(std::span(good).first(i))) << i;
  }
}

TEST(LuCodec, AnotherVersionIsSaidToBeOne) {
  auto bytes = LuState{}.encode();
  bytes[5] = std::byte{2};
  const std::span<const std::byte> whole(bytes);
  const auto crc = engine::crc32c(whole.subspan(16), engine::crc32c(whole.first(12)));
  engine::store_be<std::uint32_t>(&bytes[12], crc);
  EXPECT_EQ(LuState::decode(bytes).error().code, engine::Errc::wrong_version);
}

TEST(LuCodec, AHolderThatIsNotRegisteredCannotBe) {
  LuState s = full_state();
  s.reservation->holder = port_of('z');
  EXPECT_FALSE(LuState::decode(s.encode()));
  s.reservation->type = Type::write_exclusive_all_registrants;
  EXPECT_TRUE(LuState::decode(s.encode()));
  s.registrations.clear();
  EXPECT_FALSE(LuState::decode(s.encode()));
}

TEST(TransportIdTest, ComesWithAndWithoutIsid) {
  NexusKey nexus = port_of('a', 0);
  for (const bool any : {false, true}) {
    nexus.any_isid = any;
    if (any) nexus.isid = {};
    std::vector<std::byte> bytes(transport_id_size(nexus));
    engine::ByteWriter out(bytes);
    write_transport_id(out, nexus);
    ASSERT_TRUE(out.ok());
    EXPECT_EQ(out.room(), 0u);
    EXPECT_EQ(bytes[0], any ? std::byte{0x05} : std::byte{0x45});
    const auto back = read_transport_id(bytes);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->nexus, nexus);
    EXPECT_EQ(back->size, bytes.size());
  }
}

TEST(TransportIdTest, NoiseIsRefusedAndNeverReadBeyond) {
  NexusKey nexus = port_of('a', 0);
  std::vector<std::byte> good(transport_id_size(nexus));
  engine::ByteWriter out(good);
  write_transport_id(out, nexus);
  for (std::size_t size = 0; size < good.size(); ++size) {
    const std::vector<std::byte> cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(read_transport_id(cut));
  }
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    auto bytes = good;
    for (unsigned changes = random() % 4; changes > 0; --changes) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    const auto id = read_transport_id(bytes);
    if (id) {
      EXPECT_LE(id->nexus.initiator.size(), kMaxInitiatorName);
    }
  }
}

}  // namespace
}  // namespace lockstep::scsi::test
