// The nodes of many pairs, as a witness sees them: each with its own user and connection, by the code that lockstepd
// asks with, in the rhythm of lockstepd (mgmt/data_plane/witness_slot.hpp, replication/core/witnessing.cpp) and of
// management (mgmt/control/configuration_witness.hpp). Then each pair loses a node at the same moment.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "engine/runtime/reactor.hpp"
#include "replication/arbiter/etcd_witness.hpp"

namespace {

using namespace lockstep;
using namespace std::chrono_literals;
using engine::Duration;
using engine::TimePoint;
using replication::EtcdWitness;
using replication::SwapOutcome;
using replication::WitnessRecord;
using replication::WitnessView;

constexpr Duration kProbeEvery = 5s, kLookEvery = 20s, kLookAlone = 500ms, kRefreshEvery = 60s;

struct Options {
  std::string endpoint, ca, pairs;
  unsigned volumes = 10, settle = 30, seconds = 60, storm = 30, lost = ~0U, lease_ms = 1500;
};

double milliseconds(Duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

/// What one phase took.
struct Phase {
  std::string name;
  TimePoint begun;
  std::vector<double> reads, swaps, failovers;  ///< milliseconds
  std::size_t failed = 0;

  static std::string row(std::vector<double>& all) {
    if (all.empty()) return R"({"count": 0})";
    std::ranges::sort(all);
    const auto at = [&](double part) {
      return all[static_cast<std::size_t>(part * static_cast<double>(all.size() - 1))];
    };
    return fmt::format(R"({{"count": {}, "p50": {:.1f}, "p99": {:.1f}, "max": {:.1f}}})", all.size(), at(0.5), at(0.99),
                       all.back());
  }
  void print(TimePoint now) {
    fmt::print(R"({{"phase": "{}", "seconds": {:.1f}, "reads": {}, "swaps": {}, "failovers": {}, "failed": {}}})"
               "\n",
               name, milliseconds(now - begun) / 1000, row(reads), row(swaps), row(failovers), failed);
    std::fflush(stdout);
  }
};

struct World {
  engine::Reactor reactor;
  Options options;
  Phase phase;
  std::mt19937_64 random{1};

  Duration within(Duration most) {
    return Duration(static_cast<Duration::rep>(random() % static_cast<std::uint64_t>(most.count())));
  }
  engine::Uuid uuid() {
    engine::Uuid made;
    for (auto& byte : made.bytes) byte = static_cast<std::uint8_t>(random());
    return made;
  }
  void begin(std::string name) { phase = {std::move(name), reactor.now(), {}, {}, {}, 0}; }
};

struct PairOfNodes {
  engine::Uuid id;
  std::string user, password;
  std::vector<engine::Uuid> volumes;
};

/// One node of a pair.
class LoadNode {
 public:
  LoadNode(World& world, const PairOfNodes& pair, engine::NodeSide side, const replication::WitnessAccess& access)
      : world_(world), pair_(pair), side_(side), seen_(pair.volumes.size()) {
    auto settings = replication::EtcdSettings::create(pair.id, std::span(&world.options.endpoint, 1), access);
    if (!settings) throw std::runtime_error(settings.error().message);
    settings->side = side;
    witness_ = std::make_shared<EtcdWitness>(world.reactor, std::move(*settings));
  }

  void start() {
    witness_->probe(
        [this](const auto& found) {
          if (!found.answers) return again([this] { start(); });
          for (std::size_t i = 0; side_ == engine::NodeSide::a && i < seen_.size(); ++i) make_record(i);
          tend();
          after(world_.within(kLookEvery), [this] { look(); });
          after(world_.within(kLookEvery), [this] { look_of_management(); });
        },
        20s);
  }
  /// Its partner is gone.
  void lose_partner() {
    lost_at_ = world_.reactor.now();
    after(std::chrono::milliseconds(world_.options.lease_ms) + world_.within(200ms), [this] {
      for (std::size_t i = 0; i < seen_.size(); ++i) ask(i);
    });
  }
  void die() { witness_.reset(); }
  [[nodiscard]] bool ready() const { return ready_; }

 private:
  template <class Then>
  void after(Duration delay, Then then) {
    world_.reactor.call_after(delay, [alive = std::weak_ptr(witness_), then]() mutable {
      if (!alive.expired()) then();
    });
  }
  template <class Then>
  void again(Then then) {
    ++world_.phase.failed;
    after(200ms, then);
  }
  WitnessRecord record(std::uint64_t number, engine::MemberSet members) { return {number, world_.uuid(), members, {}}; }

  void swap(std::size_t i, const WitnessRecord& to, engine::Callback<const engine::IoResult<SwapOutcome>&> done) {
    witness_->swap(pair_.volumes[i], seen_[i], to,
                   [this, i, at = world_.reactor.now(), done = std::move(done)](auto outcome) mutable {
                     if (outcome) {
                       seen_[i] = outcome->current;
                       world_.phase.swaps.push_back(milliseconds(world_.reactor.now() - at));
                     }
                     done(outcome);
                   });
  }
  void read(const engine::Uuid& volume, engine::Callback<const engine::IoResult<WitnessView>&> done) {
    witness_->read(volume, [this, at = world_.reactor.now(), done = std::move(done)](auto view) mutable {
      if (view) world_.phase.reads.push_back(milliseconds(world_.reactor.now() - at));
      if (!view) ++world_.phase.failed;
      done(view);
    });
  }

  void make_record(std::size_t i) {
    swap(i, record(1, engine::MemberSet::both()), [this, i](const auto& outcome) {
      if (!outcome) return again([this, i] { make_record(i); });
      ready_ = ++made_ == seen_.size();
      if (ready_) next_refresh_ = world_.reactor.now() + world_.within(kRefreshEvery);
    });
  }
  /// One writes of all volumes what they have reached, once a minute.
  void refresh() {
    if (side_ != engine::NodeSide::a || alone_ || !ready_ || world_.reactor.now() < next_refresh_) return;
    next_refresh_ = world_.reactor.now() + (kRefreshEvery - 1s);
    for (std::size_t i = 0; i < seen_.size(); ++i)
      swap(i, record(seen_[i].record ? seen_[i].record->number : 1, engine::MemberSet::both()), [](const auto&) {});
  }
  void look() {
    looked_at_ = world_.reactor.now();
    for (std::size_t i = 0; i < seen_.size(); ++i)
      read(pair_.volumes[i], [this, i, left = seen_.size() - 1 - i](const auto& view) {
        if (view) seen_[i] = *view;
        if (left > 0) return;
        if (view) refresh();
        const Duration alone = std::clamp<Duration>(10 * (world_.reactor.now() - looked_at_), kLookAlone, 5s);
        after(alone_ ? alone : kLookEvery, [this] { look(); });
      });
  }
  void look_of_management() {
    read({}, [](const auto&) {});
    after(kLookEvery, [this] { look_of_management(); });
  }
  void tend() {
    const Duration silent = world_.reactor.now() - witness_->answered_at();
    if (silent >= kProbeEvery)
      return witness_->probe([this](const auto& found) {
        if (!found.answers) return again([this] { tend(); });
        tend();
      });
    witness_->tend();
    after(kProbeEvery - silent, [this] { tend(); });
  }

  void ask(std::size_t i) {
    read(pair_.volumes[i], [this, i](const auto& view) {
      if (!view) return after(200ms, [this, i] { ask(i); });
      seen_[i] = *view;
      const WitnessRecord mine = record((view->record ? view->record->number : 0) + 1, engine::MemberSet::only(side_));
      swap(i, mine, [this, i, mine](const auto& outcome) {
        const bool there = outcome && outcome->current.record == mine;  // by an earlier try of the same swap
        if (!there) return again([this, i] { ask(i); });
        world_.phase.failovers.push_back(milliseconds(world_.reactor.now() - lost_at_));
        if (!std::exchange(alone_, true)) look();
      });
    });
  }

  World& world_;
  const PairOfNodes& pair_;
  engine::NodeSide side_;
  std::shared_ptr<EtcdWitness> witness_;
  std::vector<WitnessView> seen_;
  TimePoint lost_at_, looked_at_, next_refresh_;
  std::size_t made_ = 0;
  bool ready_ = false, alone_ = false;
};

std::vector<PairOfNodes> pairs_in(World& world) {
  std::ifstream file(world.options.pairs);
  std::vector<PairOfNodes> pairs;
  for (std::string id, user, password; file >> id >> user >> password;) {
    PairOfNodes pair{*engine::Uuid::parse(id), user, password, {}};
    for (unsigned i = 0; i < world.options.volumes; ++i) pair.volumes.push_back(world.uuid());
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

void run(World& world) {
  const Options& o = world.options;
  std::ifstream ca(o.ca);
  replication::WitnessAccess access;
  access.ca = std::string(std::istreambuf_iterator<char>(ca), {});
  const auto pairs = pairs_in(world);
  std::vector<std::unique_ptr<LoadNode>> a, b;
  for (const auto& pair : pairs) {
    access.user = pair.user;
    access.password = pair.password;
    a.push_back(std::make_unique<LoadNode>(world, pair, engine::NodeSide::a, access));
    b.push_back(std::make_unique<LoadNode>(world, pair, engine::NodeSide::b, access));
  }
  auto& reactor = world.reactor;
  world.begin("start");
  for (auto* side : {&a, &b})
    for (auto& node : *side)
      reactor.call_after(world.within(std::chrono::seconds(o.settle)), [&node] { node->start(); });
  std::function<void()> when_ready = [&] {
    if (!std::ranges::all_of(a, [](const auto& node) { return node->ready(); })) {
      reactor.call_after(100ms, [&] { when_ready(); });
      return;
    }
    world.phase.print(reactor.now());
    world.begin("in sync");
    reactor.call_after(std::chrono::seconds(o.seconds), [&] {
      world.phase.print(reactor.now());
      world.begin("storm");
      for (std::size_t i = 0; i < std::min<std::size_t>(a.size(), o.lost); ++i) {
        b[i]->die();
        a[i]->lose_partner();
      }
      reactor.call_after(std::chrono::seconds(o.storm), [&] {
        world.phase.print(reactor.now());
        world.begin("alone");
        reactor.call_after(std::chrono::seconds(o.storm), [&] {
          world.phase.print(reactor.now());
          reactor.stop();
        });
      });
    });
  };
  reactor.call_after(std::chrono::seconds(o.settle), [&] { when_ready(); });
  reactor.run();
}

}  // namespace

int main(int argc, char** argv) {
  World world;
  CLI::App app{"The nodes of many pairs at one witness"};
  app.add_option("--endpoint", world.options.endpoint)->required();
  app.add_option("--ca", world.options.ca)->required();
  app.add_option("--pairs", world.options.pairs, "Of each pair a line: id, user, password")->required();
  app.add_option("--volumes", world.options.volumes, "Of each pair");
  app.add_option("--settle", world.options.settle, "Seconds within which all nodes start");
  app.add_option("--seconds", world.options.seconds, "In sync");
  unsigned seed = 1;
  app.add_option("--seed", seed, "Other volumes, other moments");
  app.add_option("--lost", world.options.lost, "Pairs that lose a node at the same moment; else all");
  app.add_option("--storm", world.options.storm, "Seconds after they have lost it, and as many after those");
  CLI11_PARSE(app, argc, argv);
  world.random.seed(seed);
  run(world);
  return 0;
}
