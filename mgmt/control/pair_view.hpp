#pragma once
// Both nodes at one moment, as far as this one knows, and the verdicts on it: pure.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mgmt/control/configuration.hpp"
#include "mgmt/control/event_log.hpp"
#include "mgmt/control/file_difference.hpp"
#include "mgmt/control/node_report.hpp"
#include "mgmt/control/revision.hpp"

namespace lockstep::mgmt {

/// What the partner is to this node, where it does not do its part.
enum class PartnerTrouble : std::uint8_t {
  none,
  away,               ///< it can't be reached, or does not answer
  other_certificate,  ///< somebody answers in its place
  has_no_pair,        ///< it answers, and knows of no pair: it has lost its database
  replaced_this,      ///< it says that this one is out: another machine took its place, or it was taken out
};

struct NodeView {
  const Node* node = nullptr;  ///< null: there is no such node (yet)
  bool local = false;
  bool asked = true;      ///< false: it has not been asked yet since this process started
  bool reachable = true;  ///< its management answers
  std::string reason;     ///< why not
  PartnerTrouble trouble = PartnerTrouble::none;
  bool refuses = false;  ///< it has the pair, and does not know this node's certificate for its partner's
  std::int64_t since_ms = 0;
  NodeReport report;  ///< the last one, when it is not reachable

  /// lockstepd runs there and its status is of now.
  [[nodiscard]] bool current() const { return reachable && report.running && report.status.has_value(); }
};

/// What a node without a pair has all the same.
struct Unpaired {
  std::size_t served = 0;     ///< volumes that its lockstepd has attached
  std::size_t replicas = 0;   ///< in its folder
  bool saved = false;         ///< there is a copy of a configuration, perhaps one that is of no use
  std::string saved_of{};     ///< the pair's name
  std::string saved_problem;  ///< why it is of no use
};

struct PairView {
  std::shared_ptr<const Configuration> configuration;
  RevisionState revision;
  bool conflict = false;
  std::int64_t replaced_ms = 0;           ///< since when this node is known to be out of the pair; 0: it is not
  std::string save_problem;               ///< why the copy of the configuration beside the volumes is not of now
  std::int64_t newer_copy = 0;            ///< the revision of that copy, where it is later than the database's
  std::string certificate_problem;        ///< a sentence about what this node shows to people; empty when all is well
  std::vector<std::string> not_listened;  ///< where this node's management should listen and can't: a sentence each
  std::vector<FileDifference> file_differences;  ///< what this node's configuration file says and is not in force
  std::optional<Unpaired> unpaired;              ///< set while this node is in no pair
  std::optional<NodeSide> local_side;
  /// Volumes that a job is under way for; nothing: this node does not know of all jobs.
  std::optional<std::vector<Uuid>> at_work{};
  std::array<NodeView, 2> nodes;  ///< by side

  [[nodiscard]] const NodeView& at(NodeSide side) const { return nodes[static_cast<std::size_t>(side)]; }
};

enum class Verdict : std::uint8_t { ok, degraded, critical };
[[nodiscard]] const char* to_string(Verdict verdict);

struct VolumeVerdict {
  Verdict verdict = Verdict::ok;
  std::string summary;  ///< one sentence
  std::string advice;   ///< what to do; empty when nothing, or when it heals by itself
};
[[nodiscard]] VolumeVerdict judge_volume(const PairView& view, const Volume& volume);

struct HealthProblem {
  Severity severity = Severity::warning;  ///< info: nothing is wrong, but something could be better
  std::string subject;                    ///< pair, node, link, witness, volume
  std::optional<NodeSide> side;
  std::optional<Uuid> volume;
  std::string message;
  std::string advice;
};
BOOST_DESCRIBE_STRUCT(HealthProblem, (), (severity, subject, side, volume, message, advice))

struct Health {
  Verdict verdict = Verdict::ok;
  std::string summary;
  std::vector<HealthProblem> problems;  ///< the worst first; the verdict and the summary are of those that are wrong
};
[[nodiscard]] Health judge_pair(const PairView& view);

}  // namespace lockstep::mgmt
