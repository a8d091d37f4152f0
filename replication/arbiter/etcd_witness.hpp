#pragma once
// The witness kept in etcd: a key a volume, read linearizably, changed by compare-and-swap on its mod_revision.
// Endpoints are asked one after the other, the one that answered last first. A request that reached an endpoint and got
// no clear answer is never repeated for a swap: its outcome is unknown. One that etcd refused because of its token was
// not carried out: it is sent once more, with a new token.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/runtime/reactor.hpp"
#include "replication/arbiter/http_post.hpp"
#include "replication/arbiter/witness_access.hpp"
#include "replication/arbiter/witness_value.hpp"
#include "replication/core/arbiter.hpp"

namespace lockstep::replication {

struct EtcdSettings {
  engine::Uuid pair;
  engine::NodeSide side = engine::NodeSide::a;  ///< this node
  WitnessSeal seal{};                           ///< of its records
  std::vector<HttpEndpoint> endpoints;          ///< at least one
  std::shared_ptr<TlsClient> tls;               ///< there when an endpoint's `tls` is
  std::string user;                             ///< empty: etcd asks for none
  std::string password;
  engine::Duration try_deadline = std::chrono::milliseconds(500);
  engine::Duration total_deadline = std::chrono::milliseconds(1500);  ///< over all endpoints, from leaving the queue
  /// For a token, of the last endpoint, a third of it for each before: checking a password takes etcd a while, on
  /// purpose. Requests do not wait as long.
  engine::Duration token_deadline = std::chrono::seconds(3);

  /// An error says what is wrong with an endpoint or with `access`. No endpoints are no error here.
  [[nodiscard]] static engine::Result<EtcdSettings> create(const engine::Uuid& pair,
                                                           std::span<const std::string> endpoints,
                                                           const WitnessAccess& access);
};

/// What came of asking etcd for nothing in particular.
struct EtcdProbe {
  bool answers = false;  ///< a linearizable read, now
  bool refused = false;  ///< some endpoint took the connection, and what it did is not what etcd does when all is well
  std::string problem;   ///< a sentence for a person; empty when it answers
  /// etcd's id of the cluster that answered. Clusters that were made with the same settings have the same; 0: none did.
  std::uint64_t cluster = 0;
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

  void probe(engine::Callback<EtcdProbe> done);
  /// Why the last request failed, a sentence for a person; empty when it did not.
  [[nodiscard]] const std::string& last_problem() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep::replication
