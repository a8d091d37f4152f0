// A logical unit's state: any bytes as a state, a request, an answer or events are refused or read such that writing
// them gives the same bytes; and any steps lead from one sound state to the next, within its bounds.
#include "engine/scsi/lu_state.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <string>
#include <vector>

#include "engine/base/crc32c.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::scsi;
using lockstep::fuzz::Input;

constexpr std::size_t kEnvelope = 16;  // its last four bytes are the checksum of all others

void reseal(std::vector<std::byte>& bytes) {
  if (bytes.size() < kEnvelope) return;
  const std::span whole(bytes);
  const std::uint32_t crc = engine::crc32c(whole.subspan(kEnvelope), engine::crc32c(whole.first(kEnvelope - 4)));
  for (std::size_t i = 0; i < 4; ++i) bytes[kEnvelope - 4 + i] = static_cast<std::byte>(crc >> (24 - 8 * i));
}

void read(std::span<const std::byte> bytes) {
  if (const auto state = LuState::decode(bytes)) assert(std::ranges::equal(state->encode(), bytes));
  if (const auto request = LuRequest::decode(bytes)) assert(std::ranges::equal(request->encode(), bytes));
  if (const auto answer = LuAnswer::decode(bytes)) assert(std::ranges::equal(answer->encode(), bytes));
  if (const auto events = decode_events(bytes)) assert(std::ranges::equal(encode_events(*events), bytes));
}

// Patches of {offset (2), value} in what is sound otherwise.
void read_spoiled(Input& input, std::vector<std::byte> bytes) {
  for (int n = input.u8() % 8; n > 0 && !bytes.empty(); --n) {
    const std::size_t at = input.u16() % bytes.size();
    bytes[at] = static_cast<std::byte>(input.u8());
  }
  reseal(bytes);
  read(bytes);
}

NexusKey nexus(std::uint8_t n) {
  NexusKey key;
  key.initiator = "iqn.2026-11.io.lockstep:" + std::string(n & 4 ? "two" : "one");
  key.isid = {0x80, 0, 0, 0, 0, static_cast<std::uint8_t>(n & 1)};
  key.port = n & 2 ? 2 : 1;
  return key;
}

LuRequest next_request(Input& input) {
  LuRequest request;
  const auto kinds = static_cast<std::uint8_t>(kLastLuRequestKind);
  const std::uint8_t what = input.u8();
  // Half of them are PERSISTENT RESERVE OUT.
  request.kind = what & 0x80 ? LuRequestKind::reserve_out : static_cast<LuRequestKind>(1 + (what & 0x7F) % kinds);
  const std::uint8_t who = input.u8();
  request.nexus = nexus(who & 7);
  request.id.bytes[0] = who >> 3 & 3;  // nil: not remembered
  request.may_persist = who & 0x40;
  request.target_ports = 6;
  request.service_action = input.u8();
  request.scope_and_type = input.u8();
  request.mode.descriptor_sense = request.service_action & 1;
  request.mode.software_write_protect = request.service_action & 2;
  request.mode.threshold_off = request.service_action & 4;
  if (request.kind == LuRequestKind::mode_select) {
    request.kept.descriptor_sense = request.scope_and_type & 1;
    request.kept.software_write_protect = request.scope_and_type & 2;
    request.kept.threshold_off = request.scope_and_type & 4;
  }
  request.port = request.service_action & 1 ? 1 : 2;
  if (request.kind == LuRequestKind::mode_select) request.service_action = 0;  // which it has no room for
  request.survivor = static_cast<std::uint16_t>(3 - request.port);
  if (request.kind == LuRequestKind::reserve_out) {
    const auto list = input.bytes(input.u16() % 600);
    request.parameters.assign(list.begin(), list.end());
  }
  return request;
}

void check(const LuState& before, const LuOutcome& outcome) {
  if (!outcome.changed) assert(outcome.next == before && outcome.events.empty());
  assert(outcome.next.version >= before.version);
  const auto bytes = outcome.next.encode();
  assert(bytes.size() <= kMaxLuState);
  const auto again = LuState::decode(bytes);
  assert(again && *again == outcome.next);
  const auto answer = LuAnswer::decode(outcome.answer.encode());
  assert(answer && *answer == outcome.answer);
  const auto events = encode_events(outcome.events);
  assert(events.size() <= kMaxLuEvents);
  const auto events_again = decode_events(events);
  assert(events_again && *events_again == outcome.events);
  // With exclusive access somebody who has not registered is kept out.
  NexusKey stranger = nexus(0);
  stranger.initiator = "iqn.2026-11.io.lockstep:stranger";
  const auto& held = outcome.next.reservation;
  if (held) assert(!outcome.next.allows(stranger, AccessClass::write));
  if (held && excludes_reads(held->type)) assert(!outcome.next.allows(stranger, AccessClass::read));
}

void steps(Input& input) {
  LuState state;
  for (int n = 0; n < 64 && !input.empty(); ++n) {
    const LuRequest request = next_request(input);
    const auto encoded = request.encode();
    assert(encoded.size() <= kMaxLuRequest);
    const auto same = LuRequest::decode(encoded);
    assert(same && *same == request);
    LuOutcome outcome = apply(state, request);
    check(state, outcome);
    state = std::move(outcome.next);
    if (request.service_action == 0xFE) read_spoiled(input, state.encode());
    if (request.service_action == 0xFF) read_spoiled(input, encoded);
  }
  const LuState left = state.after_power_loss();
  assert(left.after_power_loss() == left);
  assert(!left.reserved_by);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  if (input.u8() & 1) {
    const auto bytes = input.bytes(size);
    read(bytes);
    std::vector<std::byte> sealed(bytes.begin(), bytes.end());
    reseal(sealed);
    read(sealed);
  } else {
    steps(input);
  }
  return 0;
}
