#pragma once
// What node.status says, gathered on the home reactor as values and written as JSON elsewhere.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/iser/figures.hpp"
#include "engine/rdma/check/fabric_check.hpp"
#include "engine/rdma/verbs.hpp"
#include "iscsi_target/server/server.hpp"
#include "mgmt/data_plane/carrier_watch.hpp"
#include "mgmt/data_plane/hop_disk.hpp"
#include "mgmt/data_plane/partner_paths.hpp"
#include "replication/core/pair_node.hpp"

namespace lockstep::data_plane {

struct VolumeReport {
  engine::Uuid id;
  unsigned shard = 0;
  bool mirrored = true;
  engine::AccessState access = engine::AccessState::unavailable;
  std::uint64_t size = 0;  ///< bytes
  std::uint64_t allocated_bytes = 0;
  DiskCounters io;
  replication::VolumeStatus mirror;  ///< of a volume that is not mirrored: as if solo
};

/// Of the link, which each shard has for itself.
struct ShardLink {
  unsigned number = 0;
  bool connected = false;
  std::string problem;                    ///< why the way out is down
  std::vector<std::string> paths_down{};  ///< of those that the first shard's link has up, as they are called there
  std::optional<Carried> carried{};       ///< nothing: no device is in use
};

struct NodeReport {
  std::string process;
  std::uint64_t revision = 0;
  std::optional<engine::NodeSide> side;  ///< nothing before the first node.apply
  engine::Duration uptime{};
  bool has_partner = false;
  bool partner_connected = false;
  std::int64_t partner_since_ms = 0;
  std::string partner_problem;
  bool partner_over_rdma = false;
  std::string why_not_rdma;     ///< why the link's data goes over TCP; empty: it does not
  std::string partner_cipher;   ///< of what carries the link's data; empty: not encrypted, or it is down
  std::string partner_address;  ///< where the link goes; empty while it is down
  std::vector<PathReport> partner_paths;
  std::vector<ShardLink> shards;
  replication::PairNode::LeaseStatus lease;
  std::string arbiter;             ///< "witness", "preferred", "fence" or "none"
  bool witness_reachable = false;  ///< … or the fence's device
  bool witness_changing = false;   ///< none is asked
  std::vector<VolumeReport> volumes;
  std::vector<iscsi_target::SessionInfo> sessions;
  engine::TimePoint now;
  std::vector<std::string> findings;  ///< what is wrong with this machine or its settings, a sentence each
  std::vector<rdma::Finding> rdma_findings;
  std::vector<rdma::PortCounter> rdma_counters;
  rdma::Registrations rdma_registrations;
  std::uint64_t rdma_looks = 0;             ///< how often RDMA was looked at; none where it is off
  iser::Figures rdma_link;                  ///< as far as a device is in use
  std::optional<iser::Figures> rdma_hosts;  ///< nothing: no device is in use
};

[[nodiscard]] nlohmann::json to_json(const NodeReport& report);
[[nodiscard]] const char* name_of(engine::MemberSet members);
[[nodiscard]] const char* name_of(engine::NodeSide side);
[[nodiscard]] const char* name_of(engine::ArbiterKind kind);
/// With the side: "preferred_a".
[[nodiscard]] const char* name_of(const engine::ArbiterSettings& arbiter);
[[nodiscard]] const char* name_of(engine::AccessState state);

}  // namespace lockstep::data_plane
