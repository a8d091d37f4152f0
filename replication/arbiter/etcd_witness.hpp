#pragma once
// The witness kept in etcd: a key a volume, read linearizably, changed by compare-and-swap on its mod_revision.
// Endpoints are asked one after the other, the one that answered last first. A request that reached an endpoint and got
// no clear answer is never repeated for a swap: its outcome is unknown.
#include <memory>
#include <string>
#include <vector>

#include "engine/runtime/reactor.hpp"
#include "replication/arbiter/http_post.hpp"
#include "replication/arbiter/witness_value.hpp"
#include "replication/core/arbiter.hpp"

namespace lockstep::replication {

struct EtcdSettings {
  engine::Uuid pair;
  engine::NodeSide side = engine::NodeSide::a;  ///< this node
  WitnessSeal seal{};                           ///< of its records
  std::vector<HttpEndpoint> endpoints;          ///< at least one
  engine::Duration try_deadline = std::chrono::milliseconds(500);
  engine::Duration total_deadline = std::chrono::milliseconds(1500);  ///< over all endpoints, from leaving the queue
};

/// Owned by one reactor; callbacks run on it. Destroying it drops what is outstanding without calling back.
class EtcdWitness final : public Witness {
 public:
  static constexpr std::size_t kMaxInFlight = 16;
  static constexpr std::size_t kMaxQueued = 4096;  ///< beyond: Errc::resource_exhausted, nothing was asked

  EtcdWitness(engine::Reactor& reactor, EtcdSettings settings);
  ~EtcdWitness() override;

  void read(const engine::Uuid& volume, engine::Callback<engine::IoResult<WitnessView>> done) override;
  void swap(const engine::Uuid& volume, const WitnessView& seen, const WitnessRecord& record,
            engine::Callback<engine::IoResult<SwapOutcome>> done) override;
  void remove(const engine::Uuid& volume, engine::Callback<std::error_code> done) override;

  /// True when an endpoint answers a linearizable read now.
  void probe(engine::Callback<bool> done);
  /// Why the last request failed, a sentence for a person; empty when it did not.
  [[nodiscard]] const std::string& last_problem() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep::replication
