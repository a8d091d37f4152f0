#pragma once
// One node of a scripted pair, played by the test: it keeps contact and answers what comes as the test wants, and sends
// what no healthy partner would send at that moment, or at all.
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "replication/core/messages.hpp"
#include "replication/core/replica_state.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {

class PlayedPartner final : public replication::LinkEvents {
 public:
  /// Ends the process of that side and goes on in its place, by its name, until the other has exchanged states with it.
  PlayedPartner(ScriptedPair& pair, engine::NodeSide side);
  ~PlayedPartner() override;
  PlayedPartner(const PlayedPartner&) = delete;
  PlayedPartner& operator=(const PlayedPartner&) = delete;

  /// It has said hello on its way out, and the other has asked for its state.
  [[nodiscard]] bool in_touch() const { return greeted_ && !received(replication::MessageType::state).empty(); }

  /// What it says of its replica, the first volume's. Told when the other asks, or at once. Of those of further volumes
  /// it always says that they are in sync.
  replication::ReplicaState state;
  static constexpr std::uint64_t kGeneration = 1'000'000;  ///< above all that the other can know
  std::uint64_t generation = kGeneration;                  ///< of its replica
  std::uint64_t knows_generation = 0;                      ///< of the other's, when it tells its state
  bool grants_leases = true;
  Nanos lease = 0;         ///< that it says it has configured; 0: it says nothing
  std::uint64_t boot = 0;  ///< of its machine; 0: it says nothing
  Nanos clock_ahead = 0;   ///< its clock shows so much more than the world's
  /// Requests that it does not answer; looked at as they come.
  std::function<bool(const replication::Message&)> keeps = [](const replication::Message&) { return false; };
  /// What it answers to those that it has nothing of its own to say to.
  std::function<engine::Errc(const replication::Message&)> says = [](const replication::Message&) {
    return engine::Errc::ok;
  };
  /// The last word on an answer: its header and what comes with it.
  std::function<void(const replication::Message& question, replication::Message& header,
                     std::vector<std::byte>& payload)>
      amends = [](const auto&, auto&, auto&) {};

  struct Exchange {
    std::vector<std::byte> out, in;
    bool done = false;
    std::optional<replication::Message> answer;  ///< none: the way broke
    [[nodiscard]] bool ended_with(engine::Errc status) const { return answer && answer->status == status; }
  };
  /// About the volume, in the epoch of `state`.
  [[nodiscard]] replication::Message message(replication::MessageType type) const;
  Exchange& send(replication::Message message, std::vector<std::byte> out = {}, std::size_t room = 0);
  /// … and waits for the answer.
  Exchange& ask(const replication::Message& message, std::vector<std::byte> out = {}, std::size_t room = 0);
  Exchange& tell_state();
  Exchange& propose(const engine::EpochRecord& next) { return propose(next, state.record.id); }
  Exchange& propose(const engine::EpochRecord& next, const engine::Uuid& base);
  /// The unit's state, from the node that orders.
  /// As a change that was just made, without events.
  Exchange& change_unit_state(const scsi::LuState& unit);
  Exchange& tell_unit_state(const scsi::LuState& unit);
  /// The same, without waiting for the answer.
  Exchange& send_unit_state(const scsi::LuState& unit, std::span<const scsi::LuEvent> events = {},
                            std::uint16_t flags = 0);
  /// The other's answer to a heartbeat: whether it grants a lease in that epoch.
  bool is_granted(const engine::Uuid& epoch);
  /// The other's clock, of just now.
  std::uint64_t stamp();

  /// From now on it is another process.
  void restart();
  /// The same, and the other node knows it by its own way out only: the old way in has not ended there.
  void restart_unseen();

  /// Of the proposals that came: what is to be the next epoch.
  std::vector<engine::EpochRecord> proposals;
  /// Requests of that type that came, the last one last.
  [[nodiscard]] std::vector<replication::Message> received(replication::MessageType type) const;
  /// Answers those that were kept.
  void let_go(engine::Errc status);
  /// … and the first of them only.
  void let_go_first(engine::Errc status);

  void on_link_up() override;
  void on_link_down() override { greeted_ = false; }
  void on_inbound_up(std::uint64_t) override {}
  void on_inbound_down(std::uint64_t) override { kept_.clear(); }
  void on_request(std::uint64_t session, replication::InboundRequest& request) override;

 private:
  struct Kept {
    replication::InboundRequest* request;
    replication::Message message;
  };
  void answer(replication::InboundRequest& request, const replication::Message& question, engine::Errc status);
  void start();
  void end();
  [[nodiscard]] const replication::ReplicaState& state_of(const engine::Uuid& volume) const;
  void answer_with(replication::InboundRequest& request, replication::Message header, std::vector<std::byte> payload);
  [[nodiscard]] std::uint16_t speaks() { return pair_.world().scenario.link_version; }
  [[nodiscard]] SimLink& way_out() { return pair_.world().way_from(side_); }
  [[nodiscard]] SimLink& way_in() { return pair_.world().way_from(other(side_)); }

  ScriptedPair& pair_;
  const engine::NodeSide side_;
  const Nanos began_, clock_then_;  ///< its clock goes on from what its machine's showed then
  engine::Uuid process_;
  std::vector<replication::ReplicaState> others_;
  bool greeted_ = false;
  std::deque<Exchange> exchanges_;
  std::vector<replication::Message> received_;
  std::vector<Kept> kept_;
};

}  // namespace lockstep::simulation
