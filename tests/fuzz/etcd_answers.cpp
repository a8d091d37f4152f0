// Any body as an answer of etcd's: an error, or a record that was checked.
#include <array>
#include <cstdint>
#include <string_view>

#include "replication/arbiter/etcd_auth.hpp"
#include "replication/arbiter/etcd_messages.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::replication;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const WitnessSlot slot{};
  (void)parse_range_answer(slot, body);
  (void)parse_reads_answer(std::array{slot, slot}, body);
  (void)parse_swap_answer(slot, WitnessRecord{}, body);
  (void)parse_swaps_answer(std::array{EtcdSwap{slot, {}, {}}, EtcdSwap{slot, {}, {}}}, body);
  (void)parse_delete_answer(body);
  (void)parse_authenticate_answer(body);
  (void)etcd_refusal(body);
  return 0;
}
