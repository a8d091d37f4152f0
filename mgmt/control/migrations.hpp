#pragma once
// The schema's history. A migration that was ever released is never edited: a change is a new one at the end.
#include <span>
#include <string_view>

namespace lockstep::mgmt {

constexpr int kApplicationId = 0x4C6F636B;  ///< "Lock", in the file's header

/// Migration i brings a database from schema version i to i + 1.
[[nodiscard]] std::span<const std::string_view> migrations();

}  // namespace lockstep::mgmt
