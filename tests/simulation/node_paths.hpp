#pragma once
// What a node has between its mirror and the paths of its link: the real link session over simulated paths, and its
// judge.
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "replication/link/paths_link.hpp"
#include "replication/link/paths_service.hpp"
#include "tests/simulation/judged_paths.hpp"
#include "tests/simulation/program.hpp"

namespace lockstep::simulation {

class NodePaths final : private replication::LinkEvents {
 public:
  using Paths = std::span<const std::unique_ptr<SimLink>>;
  NodePaths(Machine& machine, engine::Clock& clock, Paths paths, const engine::Uuid& process)
      : machine_(machine),
        paths_(paths),
        judge_(clock, machine.verdict),
        judged_(judged(paths, judge_)),
        out_(clock, process, ranked(machine.scenario, judged_), {}, kProof),
        in_(clock, process, *this) {
    out_.set_lease(engine::Duration(std::max(machine.scenario.lease, machine.scenario.longer_lease)));
    out_.start(*this);
    judge_.watch(out_);
    for (std::size_t i = 0; i < paths.size(); ++i) events_.push_back(std::make_unique<PathEvents>(*this, i));
  }

  void start(replication::LinkEvents& mirror) { mirror_ = &mirror; }
  [[nodiscard]] replication::PathsLink& out() { return out_; }
  [[nodiscard]] replication::LinkEvents& events_of(std::size_t path) { return *events_[path]; }
  /// As when its address is changed: the path ends, and is made anew.
  void change(std::size_t path) {
    if (!paths_[path]->is_up()) return;
    judge_.path_changes(path);
    out_.on_path_closing(static_cast<replication::PathSlot>(path));
    paths_[path]->reset();
  }

 private:
  static constexpr std::size_t kProof = 8192;  ///< bytes; in the proportions of volumes and links here

  class PathEvents final : public replication::LinkEvents {
   public:
    PathEvents(NodePaths& paths, std::size_t number)
        : paths_(paths), number_(number), slot_(static_cast<replication::PathSlot>(number)) {}
    void on_link_up() override { paths_.out_.on_path_up(slot_); }
    void on_link_down() override {
      const bool closing = paths_.out_.is_ending();
      paths_.judge_.path_down(number_, !closing);
      paths_.out_.on_path_down(slot_);
    }
    void on_link_failing() override {
      paths_.judge_.path_fails(number_);
      paths_.out_.on_path_failing(slot_);
    }
    void on_inbound_up(std::uint64_t) override { paths_.in_.on_path_up(slot_); }
    void on_inbound_down(std::uint64_t) override { paths_.in_.on_path_down(slot_); }
    void on_request(std::uint64_t, replication::InboundRequest& r) override { paths_.in_.on_request(slot_, r); }

   private:
    NodePaths& paths_;
    std::size_t number_;
    replication::PathSlot slot_;
  };

  void on_link_up() override { mirror_->on_link_up(); }
  void on_link_down() override {
    judge_.session_over();
    look_for_faults();
    mirror_->on_link_down();
  }
  void on_inbound_up(std::uint64_t session) override { mirror_->on_inbound_up(session); }
  void on_inbound_down(std::uint64_t session) override {
    look_for_faults();
    mirror_->on_inbound_down(session);
  }
  void on_request(std::uint64_t session, replication::InboundRequest& r) override { mirror_->on_request(session, r); }
  void on_set_back() override { mirror_->on_set_back(); }
  void on_partner_set_back(const engine::Uuid& process) override { mirror_->on_partner_set_back(process); }
  /// Both programs are right: neither ever says what makes no sense to the other.
  void look_for_faults() {
    if (out_.faults() + in_.faults() == 0) return;
    machine_.verdict.fail("a link session ended: " + (out_.faults() != 0 ? out_.problem() : in_.problem()));
  }

  static std::vector<std::unique_ptr<JudgedPath>> judged(Paths paths, PathsJudge& judge) {
    std::vector<std::unique_ptr<JudgedPath>> all;
    for (const auto& path : paths) all.push_back(std::make_unique<JudgedPath>(*path, judge, all.size()));
    return all;
  }
  /// By networks, of which the first two are equal, the others each worse than the one before; over RDMA before TCP.
  static std::vector<replication::PathOut> ranked(const Scenario& scenario,
                                                  const std::vector<std::unique_ptr<JudgedPath>>& paths) {
    std::vector<replication::PathOut> all;
    for (const auto& path : paths) {
      const std::size_t number = all.size();
      const bool is_rdma = scenario.is_rdma(number);
      const std::size_t network = is_rdma ? scenario.twin_of(number) : number;
      const auto order = static_cast<std::uint8_t>(network < 2 ? 0 : network);
      const auto transport = is_rdma ? replication::PathTransport::rdma : replication::PathTransport::tcp;
      all.push_back({*path, replication::rank_of(transport, 10'000, order)});
    }
    return all;
  }

  Machine& machine_;
  replication::LinkEvents* mirror_ = nullptr;
  Paths paths_;
  PathsJudge judge_;
  std::vector<std::unique_ptr<JudgedPath>> judged_;
  replication::PathsLink out_;
  replication::PathsService in_;
  std::vector<std::unique_ptr<PathEvents>> events_;
};

}  // namespace lockstep::simulation
