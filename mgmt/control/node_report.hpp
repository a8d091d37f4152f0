#pragma once
// What a node's management knows of its own lockstepd: node.status as values, and how the last node.apply went. It
// travels to the partner as JSON.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe/class.hpp>

#include "engine/base/uuid.hpp"
#include "mgmt/control/refusal.hpp"

namespace lockstep::mgmt {

struct EpochView {
  std::int64_t number = 0;
  std::string id;
  std::string members;
  std::string sequencer;
  std::string arbiter;  ///< "witness", "preferred_a" or "preferred_b"; empty: its lockstepd does not tell
  bool operator==(const EpochView&) const = default;
};
BOOST_DESCRIBE_STRUCT(EpochView, (), (number, id, members, sequencer, arbiter))

struct ReplicaStatus {
  engine::Uuid volume;
  std::string state;
  bool serving = false;
  std::string access;
  bool failover_limited = false;
  std::optional<EpochView> epoch;
  std::int64_t size = 0;  ///< bytes that it serves
  std::int64_t dirty_bytes = 0;
  std::int64_t allocated_bytes = 0;
  std::string reason;
  bool resync_running = false;
  std::int64_t resync_total = 0;
  std::int64_t resync_done = 0;
  std::int64_t resync_rate = 0;
  std::int64_t reads = 0;
  std::int64_t writes = 0;
  std::int64_t read_bytes = 0;
  std::int64_t write_bytes = 0;
  std::int64_t shard = 0;
};
BOOST_DESCRIBE_STRUCT(ReplicaStatus, (),
                      (volume, state, serving, access, failover_limited, epoch, size, dirty_bytes, allocated_bytes,
                       reason, resync_running, resync_total, resync_done, resync_rate, reads, writes, read_bytes,
                       write_bytes, shard))

struct SessionStatus {
  std::string initiator;
  std::string address;
  std::string portal;
  std::string transport = "tcp";  ///< or "rdma"
  std::int64_t since_ms = 0;
};
BOOST_DESCRIBE_STRUCT(SessionStatus, (), (initiator, address, portal, transport, since_ms))

/// The same way over RDMA, beside TCP.
struct LinkRdmaStatus {
  std::string state{};    ///< as LinkPathStatus::state
  std::string cipher{};   ///< empty: not encrypted, or down
  std::string problem{};  ///< why it is down
  std::int64_t losses = 0;
  bool operator==(const LinkRdmaStatus&) const = default;
};
BOOST_DESCRIBE_STRUCT(LinkRdmaStatus, (), (state, cipher, problem, losses))

/// One of the link's paths, as the node sees its own way out.
struct LinkPathStatus {
  std::string transport{};
  std::string state{};  ///< "down", "joining", "proving" or "proven"
  std::string from{};   ///< without a port
  std::string to{};
  bool last_resort = false;
  std::string cipher{};  ///< empty: without TLS, or down
  bool kernel_tls = false;
  std::string problem{};  ///< why it is down
  std::optional<std::int64_t> round_trip_us{};
  std::int64_t bytes_out = 0;
  std::int64_t bytes_in = 0;
  std::int64_t losses = 0;               ///< how often it was lost
  std::optional<LinkRdmaStatus> rdma{};  ///< nothing: it is not tried there
  // Of the connection that stands:
  std::int64_t segments_out = 0;
  std::int64_t segments_sent_again = 0;
  std::int64_t path_mtu = 0;  ///< 0: not known
  bool operator==(const LinkPathStatus&) const = default;
};
BOOST_DESCRIBE_STRUCT(LinkPathStatus, (),
                      (transport, state, from, to, last_resort, cipher, kernel_tls, problem, round_trip_us, bytes_out,
                       bytes_in, losses, rdma, segments_out, segments_sent_again, path_mtu))

/// The link's data went over from RDMA to TCP, or back.
struct CarrierSwitch {
  std::string to{};
  std::int64_t at_ms = 0;
  std::int64_t after_ms = 0;  ///< that it was the other one
  std::string why{};          ///< to TCP: a sentence
  bool operator==(const CarrierSwitch&) const = default;
};
BOOST_DESCRIBE_STRUCT(CarrierSwitch, (), (to, at_ms, after_ms, why))

/// What carried the link's data since its lockstepd started.
struct CarriedStatus {
  std::int64_t rdma_ms = 0;
  std::int64_t tcp_ms = 0;
  std::int64_t to_rdma = 0;  ///< how often it went over
  std::int64_t to_tcp = 0;
  std::optional<CarrierSwitch> last_switch{};
  bool operator==(const CarriedStatus&) const = default;
};
BOOST_DESCRIBE_STRUCT(CarriedStatus, (), (rdma_ms, tcp_ms, to_rdma, to_tcp, last_switch))

/// One of the pair's shards, as the node sees its link.
struct ShardStatus {
  std::int64_t number = 0;
  bool connected = false;
  std::string problem{};  ///< why not
  /// While it is connected: the paths that the first shard's link has up and this one's has not, by where the first's
  /// go.
  std::vector<std::string> paths_down{};
  std::optional<CarriedStatus> carried{};  ///< nothing: it uses no RDMA device, or does not tell
  bool operator==(const ShardStatus&) const = default;
};
BOOST_DESCRIBE_STRUCT(ShardStatus, (), (number, connected, problem, paths_down, carried))

/// Of RDMA on its machine.
struct FabricFinding {
  std::string id;
  std::string severity;  ///< "warning", or "advice": it works, and could be better
  std::string message;   ///< a sentence
  std::string advice;    ///< what to do
  bool operator==(const FabricFinding&) const = default;
};
BOOST_DESCRIBE_STRUCT(FabricFinding, (), (id, severity, message, advice))

/// What was moved over RDMA since its lockstepd started.
struct RdmaFigures {
  std::int64_t messages_in = 0;
  std::int64_t messages_out = 0;
  std::int64_t bytes_in = 0;  ///< of those
  std::int64_t bytes_out = 0;
  std::int64_t reads = 0;
  std::int64_t writes = 0;
  std::int64_t bytes_read = 0;  ///< of the peers' memory
  std::int64_t bytes_written = 0;
  std::int64_t windows = 0;  ///< of own memory that peers were let at
  std::int64_t eager = 0;    ///< writes whose data came with them and was not copied
  std::int64_t invalidations = 0;
  std::int64_t copied_immediate_prefix = 0;  ///< bytes, by why
  std::int64_t copied_ahs = 0;
  std::int64_t copied_bounce = 0;
  std::int64_t copied_control = 0;
  std::int64_t copied_cipher = 0;  ///< data that was encrypted or decrypted
  std::int64_t starved = 0;        ///< receives that waited for memory
  std::int64_t invalidated = 0;    ///< windows that a peer's answer shut
  std::int64_t hidden = 0;         ///< windows that the node shut
  // Work requests that failed, by status:
  std::int64_t error_length = 0;
  std::int64_t error_remote_access = 0;
  std::int64_t error_remote_invalid = 0;
  std::int64_t error_remote_operation = 0;
  std::int64_t error_local_protection = 0;
  std::int64_t error_local_operation = 0;
  std::int64_t error_no_answer = 0;
  std::int64_t error_no_receive = 0;
  std::int64_t error_other = 0;
  // Now, but for the most:
  std::int64_t connections = 0;
  std::int64_t work = 0;        ///< requests under way
  std::int64_t work_depth = 0;  ///< how many there may be
  std::int64_t work_most = 0;   ///< ever, on one connection
  bool operator==(const RdmaFigures&) const = default;
};
BOOST_DESCRIBE_STRUCT(RdmaFigures, (),
                      (messages_in, messages_out, bytes_in, bytes_out, reads, writes, bytes_read, bytes_written,
                       windows, eager, invalidations, copied_immediate_prefix, copied_ahs, copied_bounce,
                       copied_control, copied_cipher, starved, invalidated, hidden, error_length, error_remote_access,
                       error_remote_invalid, error_remote_operation, error_local_protection, error_local_operation,
                       error_no_answer, error_no_receive, error_other, connections, work, work_depth, work_most))

/// Memory regions that its RDMA devices hold.
struct RdmaRegistrations {
  std::int64_t regions = 0;
  std::int64_t bytes = 0;    ///< what several devices or domains know counts for each
  std::int64_t made = 0;     ///< since its lockstepd started
  std::int64_t refused = 0;  ///< the same, by the system or a device
  bool operator==(const RdmaRegistrations&) const = default;
};
BOOST_DESCRIBE_STRUCT(RdmaRegistrations, (), (regions, bytes, made, refused))

/// What the driver of an RDMA device that it serves over counts.
struct RdmaPortCounter {
  std::string device;
  std::int64_t port = 0;
  std::string kind;  ///< "packets_lost", "no_receive", "damaged" or "marked"
  std::string name;
  std::int64_t value = 0;
  bool operator==(const RdmaPortCounter&) const = default;
};
BOOST_DESCRIBE_STRUCT(RdmaPortCounter, (), (device, port, kind, name, value))

struct DataPlaneStatus {
  std::string version;
  std::string process;
  std::int64_t revision = 0;
  std::int64_t uptime_ms = 0;
  /// What it holds on an answer of its partner's; nothing: it does not tell, and its lease can't be changed in use.
  std::optional<std::int64_t> lease_ms;
  bool lease_settled = false;  ///< nothing that was held, or sent, by another one counts any more
  bool partner_connected = false;
  std::string partner_path;          ///< "tcp" or "rdma"
  std::string partner_why_not_rdma;  ///< a sentence; empty: it is, or lockstepd does not tell
  std::int64_t partner_since_ms = 0;
  std::string partner_cipher;  ///< of what carries the link's data; empty: not encrypted, or down
  /// In their order; nothing: it was told of no partner, or is of before there were several paths.
  std::optional<std::vector<LinkPathStatus>> partner_paths;
  std::vector<ShardStatus> shards;  ///< none: it is of before there were several
  std::string witness_kind;
  std::optional<bool> witness_reachable;
  bool witness_changing = false;  ///< it was told to ask none, and does not
  std::vector<ReplicaStatus> volumes;
  std::vector<SessionStatus> sessions;
  std::vector<std::string> findings;  ///< what is wrong with its machine or its settings, a sentence each
  std::vector<FabricFinding> rdma_findings;
  std::vector<RdmaPortCounter> rdma_counters;
  std::optional<RdmaRegistrations> rdma_registrations;  ///< nothing: it uses no RDMA device, or does not tell
  std::optional<RdmaFigures> rdma_hosts;                ///< nothing: it uses no RDMA device, or does not tell
  std::optional<RdmaFigures> rdma_link;                 ///< the same of the link

  [[nodiscard]] const ReplicaStatus* volume(const engine::Uuid& id) const;
};
BOOST_DESCRIBE_STRUCT(DataPlaneStatus, (),
                      (version, process, revision, uptime_ms, lease_ms, lease_settled, partner_connected, partner_path,
                       partner_why_not_rdma, partner_since_ms, partner_cipher, partner_paths, shards, witness_kind,
                       witness_reachable, witness_changing, volumes, sessions, findings, rdma_findings, rdma_counters,
                       rdma_registrations, rdma_hosts, rdma_link))

struct ApplyProblem {
  std::string object;
  std::string message;
};
BOOST_DESCRIBE_STRUCT(ApplyProblem, (), (object, message))
/// The object of the problem that lockstepd is told nothing, since the configuration is older than its orders.
inline constexpr const char* kHeldBack = "management";

struct NodeReport {
  bool running = false;                   ///< lockstepd answers
  std::string message;                    ///< why not, when it does not
  std::optional<DataPlaneStatus> status;  ///< the last one there was
  std::int64_t applied = 0;               ///< the revision that node.apply was last called with
  std::vector<ApplyProblem> problems;     ///< of that call
  std::vector<engine::Uuid> missing;      ///< ready volumes whose files are not in the node's folder
  std::int64_t at_ms = 0;

  [[nodiscard]] bool misses(const engine::Uuid& volume) const;
  /// It has the problem kHeldBack.
  [[nodiscard]] bool is_held_back() const;
};
BOOST_DESCRIBE_STRUCT(NodeReport, (), (running, message, status, applied, problems, missing, at_ms))

/// Its lockstepd has a connection of the link to the partner's, of any shard.
[[nodiscard]] bool is_linked(const NodeReport& report);

/// Of node.status's result. Fields that are missing stay as they are above: an older lockstepd says less.
[[nodiscard]] Outcome<DataPlaneStatus> status_from(std::string_view json);
[[nodiscard]] std::string to_json_text(const NodeReport& report);
[[nodiscard]] Outcome<NodeReport> report_from(std::string_view json);

}  // namespace lockstep::mgmt
