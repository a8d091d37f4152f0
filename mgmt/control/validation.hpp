#pragma once
// What names, addresses, sizes and secrets may be. Pure. Each check gives nothing when all is well, or a sentence.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::mgmt {

using Complaint = std::optional<std::string>;

constexpr std::int64_t kMinVolumeSize = std::int64_t{1} << 20;
constexpr std::int64_t kMaxVolumeSize = std::int64_t{64} << 40;
constexpr std::int64_t kVolumeGranule = 4096;

[[nodiscard]] Complaint check_pair_name(std::string_view name);
[[nodiscard]] Complaint check_node_name(std::string_view name);
[[nodiscard]] Complaint check_volume_name(std::string_view name);
/// RFC 7143 4.2.7: iqn., eui. or naa., in lower case.
[[nodiscard]] Complaint check_iscsi_name(std::string_view name);
[[nodiscard]] Complaint check_address(std::string_view address);
[[nodiscard]] Complaint check_endpoint(std::string_view url);
[[nodiscard]] Complaint check_volume_size(std::int64_t bytes);
/// How long a node may serve without having heard from its partner, in milliseconds; says why not shorter or longer.
[[nodiscard]] Complaint check_lease(std::int64_t ms);
/// Of resync, in bytes a second. lockstepd takes no configuration with a number that is far larger (desired_state.cpp).
[[nodiscard]] Complaint check_resync_floor(std::int64_t bytes);
[[nodiscard]] Complaint check_resync_ceiling(std::int64_t bytes, std::int64_t floor);
[[nodiscard]] Complaint check_chap_user(std::string_view user);
[[nodiscard]] Complaint check_chap_secret(std::string_view secret);

}  // namespace lockstep::mgmt
