#pragma once
// Three initiator ports and one unit state: requests as initiators send them, and what each nexus was told.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/base/byte_order.hpp"
#include "engine/scsi/lu_state.hpp"
#include "engine/scsi/reserve_out.hpp"
#include "engine/scsi/transport_id.hpp"

namespace lockstep::scsi::test {

using Type = ReservationType;
inline constexpr std::array kAllTypes{Type::write_exclusive,
                                      Type::exclusive_access,
                                      Type::write_exclusive_registrants_only,
                                      Type::exclusive_access_registrants_only,
                                      Type::write_exclusive_all_registrants,
                                      Type::exclusive_access_all_registrants};

inline NexusKey port_of(char name, std::uint16_t target_port = 1) {
  return {.initiator = std::string("iqn.2001-04.com.example:") + name,
          .isid = {0x00, 0x02, 0x3D, 0, 0, static_cast<std::uint8_t>(name)},
          .port = target_port};
}

/// The parameter list of every service action but REGISTER AND MOVE.
struct List {
  std::uint64_t key = 0;
  std::uint64_t service_key = 0;
  bool all_ports = false;
  bool persist = false;
  bool specifies = false;
  std::vector<NexusKey> named{};
  [[nodiscard]] std::vector<std::byte> bytes() const {
    std::vector<std::byte> list(8192);
    engine::ByteWriter out(list);
    out.be64(key);
    out.be64(service_key);
    out.zeros(4);
    out.u8(static_cast<std::uint8_t>((specifies ? 8 : 0) | (all_ports ? 4 : 0) | (persist ? 1 : 0)));
    out.zeros(3);
    if (specifies) {
      out.be32(0);
      for (const NexusKey& each : named) write_transport_id(out, each);
    }
    list.resize(out.size());
    if (specifies) engine::store_be<std::uint32_t>(&list[24], static_cast<std::uint32_t>(list.size() - 28));
    return list;
  }
};

class LuTest : public ::testing::Test {
 protected:
  const NexusKey a = port_of('a'), b = port_of('b'), c = port_of('c');
  LuState state;
  std::vector<LuEvent> events;  ///< of the last request
  LuAnswer answer;
  bool changed = false;

  Status run(const LuRequest& request) {
    const LuState before = state;
    LuOutcome out = apply(state, request);
    EXPECT_EQ(out.changed, out.next != before || !out.events.empty());
    EXPECT_EQ(out.next.version, before.version + (out.changed ? 1 : 0));
    const auto decoded = LuState::decode(out.next.encode());
    EXPECT_TRUE(decoded && *decoded == out.next);
    state = std::move(out.next);
    events = std::move(out.events);
    answer = out.answer;
    changed = out.changed;
    return answer.status;
  }

  LuRequest request_of(const NexusKey& from, ReserveOut action, std::vector<std::byte> parameters,
                       std::uint8_t scope_and_type = 0) {
    return {.kind = LuRequestKind::reserve_out,
            .nexus = from,
            .service_action = static_cast<std::uint8_t>(action),
            .scope_and_type = scope_and_type,
            .target_ports = 0b110,
            .may_persist = true,
            .parameters = std::move(parameters)};
  }
  Status out(const NexusKey& from, ReserveOut action, const List& list, std::uint8_t scope_and_type = 0) {
    return run(request_of(from, action, list.bytes(), scope_and_type));
  }
  Status out(const NexusKey& from, ReserveOut action, const List& list, Type type) {
    return out(from, action, list, static_cast<std::uint8_t>(type));
  }
  Status simple(LuRequestKind kind, const NexusKey& from) { return run({.kind = kind, .nexus = from}); }

  void register_(const NexusKey& from, std::uint64_t key) {
    ASSERT_EQ(out(from, ReserveOut::register_key, {.service_key = key}), Status::good);
  }
  void hold(const NexusKey& from, std::uint64_t key, Type type) {
    ASSERT_EQ(out(from, ReserveOut::reserve, {.key = key}, type), Status::good);
  }
  [[nodiscard]] bool told(const NexusKey& nexus, LuAttention kind) const {
    for (const LuEvent& event : events) {
      if (event.kind == kind && event.concerns(nexus)) return true;
    }
    return false;
  }
  [[nodiscard]] bool told_nothing(const NexusKey& nexus) const {
    return std::ranges::none_of(events, [&](const LuEvent& event) { return event.concerns(nexus); });
  }
  void expect_refused(AdditionalSense additional) const {
    EXPECT_EQ(answer.status, Status::check_condition);
    EXPECT_EQ(answer.sense.key, SenseKey::illegal_request);
    EXPECT_EQ(answer.sense.additional, additional)
        << std::hex << int(answer.sense.additional.code) << '/' << int(answer.sense.additional.qualifier);
    EXPECT_FALSE(changed);
  }
};

}  // namespace lockstep::scsi::test
