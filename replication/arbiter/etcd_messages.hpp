#pragma once
// What is said to etcd's JSON gateway (v3, etcd 3.4 and later) and what its answers mean. Pure.
// 64-bit numbers travel as strings, keys and values as base64; fields that are zero or false are left out.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.hpp"
#include "replication/arbiter/witness_value.hpp"
#include "replication/core/arbiter.hpp"

namespace lockstep::replication {

constexpr std::string_view kEtcdRangePath = "/v3/kv/range";
constexpr std::string_view kEtcdTxnPath = "/v3/kv/txn";
constexpr std::string_view kEtcdDeletePath = "/v3/kv/deleterange";

/// A linearizable read of the record.
[[nodiscard]] std::string etcd_range_request(const WitnessSlot& slot);
/// A transaction that would write, on a condition that never holds, and so reads: refused where a swap would be, by a
/// full database or a role that only reads. Answered as reads of one record are.
[[nodiscard]] std::string etcd_write_trial_request(const WitnessSlot& slot);
constexpr std::ptrdiff_t kEtcdMostReads = 64;  ///< in one request; etcd takes 128, and an answer has room for 100
/// Linearizable reads of several records.
[[nodiscard]] std::string etcd_reads_request(std::span<const WitnessSlot> slots);
/// Put and read back if what stands there is still what was `seen`, else only read.
[[nodiscard]] std::string etcd_swap_request(const WitnessSlot& slot, const WitnessView& seen,
                                            const WitnessRecord& record);
constexpr std::size_t kEtcdMostSwaps = 32;  ///< in one request, which lockstep-witness lets have 64 KiB
struct EtcdSwap {
  WitnessSlot slot;
  WitnessView seen;
  WitnessRecord record;
};
/// All of them, or none: where one of these records is another one by now.
[[nodiscard]] std::string etcd_swaps_request(std::span<const EtcdSwap> swaps);
[[nodiscard]] std::string etcd_delete_request(const WitnessSlot& slot);

// An answer that is not what etcd says in such a case gives an Error that quotes what was wrong: Errc::corrupt. A value
// that no node of the pair wrote, or wrote as the last there, gives a view that says so (WitnessView::tampered).
[[nodiscard]] engine::Result<WitnessView> parse_range_answer(const WitnessSlot& slot, std::string_view body);
/// One for each of `slots`.
[[nodiscard]] std::vector<engine::Result<WitnessView>> parse_reads_answer(std::span<const WitnessSlot> slots,
                                                                          std::string_view body);
[[nodiscard]] engine::Result<SwapOutcome> parse_swap_answer(const WitnessSlot& slot, const WitnessRecord& record,
                                                            std::string_view body);
/// One for each of `swaps`, all won; empty: none was carried out.
[[nodiscard]] engine::Result<std::vector<SwapOutcome>> parse_swaps_answer(std::span<const EtcdSwap> swaps,
                                                                          std::string_view body);
[[nodiscard]] engine::Result<void> parse_delete_answer(std::string_view body);

}  // namespace lockstep::replication
