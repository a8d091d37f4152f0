#pragma once
// Looks at the partner about once a second: compares revisions, fetches its report and its events, and knows whether it
// can be reached.
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "mgmt/control/node_core.hpp"

namespace lockstep::mgmt {

struct PartnerView {
  bool asked = false;  ///< since this process started
  bool reachable = false;
  std::int64_t since_ms = 0;  ///< reachable, or not, since then; 0: not known
  std::string reason;         ///< why not
  NodeReport report;          ///< the last one there was
};

class PartnerWatch {
 public:
  explicit PartnerWatch(NodeCore& core) : core_(core) {}
  ~PartnerWatch();
  void start();
  void stop();
  void poke();
  [[nodiscard]] PartnerView view() const;

  void turn();  ///< one look; the loop's body

 private:
  void loop();
  Outcome<NodeReport> look(Peer& peer);
  void fetch_events(Peer& peer);
  void note(const Outcome<NodeReport>& seen, const Node& partner);

  NodeCore& core_;
  mutable std::mutex mutex_;
  std::condition_variable poked_;
  bool poke_ = false;
  bool stopping_ = false;
  PartnerView view_;
  int first_refusals_ = 0;
  std::thread thread_;
};

}  // namespace lockstep::mgmt
