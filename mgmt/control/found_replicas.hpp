#pragma once
// The replicas whose files are in a folder, and what their metadata says of their volumes. What is read may be damaged,
// or made by somebody else: it counts only after the metadata's own checks. Nothing is written.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/uuid.hpp"
#include "engine/metadata/identity.hpp"

namespace lockstep::mgmt {

struct FoundReplica {
  engine::Uuid volume;     ///< by its files' name
  std::int64_t copy = 1;   ///< likewise: Copy::number
  std::int64_t bytes = 0;  ///< of its data; 0: there is none
  std::optional<engine::VolumeIdentity> identity{};
  engine::EpochRecord epoch{};  ///< the newest, where there is an identity
  std::string left_alone{};     ///< a sentence: why it is of no use, or not used; empty: it may be used
};

/// By their files' names alone, in the order of volumes and copies.
[[nodiscard]] std::vector<FoundReplica> replicas_named(const std::filesystem::path& folder);
/// The same with what their metadata says.
[[nodiscard]] std::vector<FoundReplica> replicas_read(const std::filesystem::path& folder);

}  // namespace lockstep::mgmt
