#pragma once
// Machines that are out of the pair, as this node remembers them: another one has taken their place
// (pair_replace.cpp), or they have left (leave_jobs.hpp). And whether this node is such a machine itself, which its
// partner tells it. Thread-safe.
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mgmt/control/configuration.hpp"
#include "mgmt/control/node_settings.hpp"

namespace lockstep::mgmt {

struct ReplacedNode {
  Uuid id;
  NodeSide side = NodeSide::a;
  std::string name;
  std::string fingerprint;
  std::int64_t at_ms = 0;
  bool left = false;  ///< nobody took its place then
};

class ReplacedNodes {
 public:
  static constexpr std::size_t kMost = 16;  ///< the oldest is forgotten: it is refused all the same, but not by name

  explicit ReplacedNodes(NodeSettings& settings);
  void add(const Node& node, bool left = false);
  /// By id, where the caller said one, else by its certificate.
  [[nodiscard]] std::optional<ReplacedNode> find(std::string_view id, std::string_view fingerprint) const;

  /// When the partner first said that this node is out; 0: it is not.
  [[nodiscard]] std::int64_t replaced_here_ms() const;
  /// True when that is news.
  bool set_replaced_here(bool replaced);

 private:
  void store();
  NodeSettings& settings_;
  mutable std::mutex mutex_;
  std::vector<ReplacedNode> nodes_;
  std::int64_t replaced_here_ms_ = 0;
};

}  // namespace lockstep::mgmt
