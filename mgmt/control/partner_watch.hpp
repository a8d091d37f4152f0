#pragma once
// Looks at the partner about once a second: compares revisions, fetches its report and its events, and knows whether it
// can be reached.
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "mgmt/control/configuration_witness.hpp"
#include "mgmt/control/node_core.hpp"
#include "mgmt/control/pair_view.hpp"
#include "mgmt/control/turn_loop.hpp"

namespace lockstep::mgmt {

struct PartnerView {
  bool asked = false;  ///< since this process started
  bool reachable = false;
  std::int64_t since_ms = 0;  ///< reachable, or not, since then; 0: not known
  std::string reason;         ///< why not
  PartnerTrouble trouble = PartnerTrouble::none;
  bool refuses = false;  ///< as NodeView::refuses
  NodeReport report;     ///< the last one there was
};

class PartnerWatch {
 public:
  /// Both outlive this. `agreed` is called with each look at which both have the same revision.
  PartnerWatch(NodeCore& core, ConfigurationWitness& arbiter, std::function<void()> agreed);
  /// `end` ends this process, which was set back with its machine's memory. For start-up only; without one it goes on
  /// as if its database alone had been set back.
  void end_with(std::function<void()> end) { end_ = std::move(end); }
  void start() { loop_.start(); }
  void stop() { loop_.stop(); }
  void poke() { loop_.poke(); }
  [[nodiscard]] PartnerView view() const;

  void turn();  ///< one look; the loop's body

 private:
  Outcome<NodeReport> look(Peer& peer);
  void forget();
  void fetch_events(Peer& peer);
  void agree(Peer& peer);
  void end_if_set_back();
  [[nodiscard]] PartnerTrouble trouble_of(const Refusal& refusal, Peer& peer);
  void note_standing(PartnerTrouble trouble, const Node& partner, const Uuid& pair);
  void note(const Outcome<NodeReport>& seen, PartnerTrouble trouble, const Node& partner);

  NodeCore& core_;
  ConfigurationWitness& arbiter_;
  const std::function<void()> agreed_;
  std::function<void()> end_;
  mutable std::mutex mutex_;  ///< guards view_
  PartnerView view_;
  int first_refusals_ = 0;
  std::string agreement_problem_;  ///< logged already
  TurnLoop loop_;
};

}  // namespace lockstep::mgmt
