#pragma once
// The witness kept in etcd: a key a volume, read linearizably, changed by compare-and-swap on its mod_revision.
// What is asked goes by etcd_calls.hpp: over connections that are kept, with time limits that follow the line, and sent
// again where no answer came. The very same swap may so be sent more than once; etcd carries it out at most once, for
// the first changes the revision. One that was sent and got no clear answer has an unknown outcome, and so has one that
// was carried out by an etcd that was set back since it was read, or by one of another cluster. Reads that are
// asked in one turn of the reactor are one request, and so are swaps: of those all are carried out, or, where one of
// the records is another one by now, none, and then each is sent alone.
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/runtime/reactor.hpp"
#include "replication/arbiter/http_endpoint.hpp"
#include "replication/arbiter/line_estimate.hpp"
#include "replication/arbiter/witness_access.hpp"
#include "replication/arbiter/witness_value.hpp"
#include "replication/core/arbiter.hpp"

namespace lockstep::replication {

class TlsClient;

struct EtcdSettings {
  engine::Uuid pair;
  engine::NodeSide side = engine::NodeSide::a;  ///< this node
  WitnessSeal seal{};                           ///< of its records
  std::vector<HttpEndpoint> endpoints;          ///< at least one
  std::shared_ptr<TlsClient> tls;               ///< there when an endpoint's `tls` is
  std::string user;                             ///< empty: etcd asks for none
  std::string password;
  /// How long a request goes on at least while nothing is known of the line: one that comes first over a slow line
  /// needs four round trips.
  engine::Duration patience{0};

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
  EtcdWitness(engine::Reactor& reactor, EtcdSettings settings);
  ~EtcdWitness() override;

  void read(const engine::Uuid& volume, engine::Callback<engine::IoResult<WitnessView>> done) override;
  void swap(const engine::Uuid& volume, const WitnessView& seen, const WitnessRecord& record,
            engine::Callback<engine::IoResult<SwapOutcome>> done) override;
  void remove(const engine::Uuid& volume, engine::Callback<std::error_code> done) override;

  /// `patience`: how long it goes on at least.
  void probe(engine::Callback<EtcdProbe> done, engine::Duration patience = {});
  /// The same, and whether it would take a write. Nothing is written, but etcd's members agree on that: now and then.
  void try_write(engine::Callback<EtcdProbe> done, engine::Duration patience = {});
  /// Whether etcd answers one who has no password; nullopt: nobody answered. Nothing is written.
  void ask_as_nobody(engine::Callback<std::optional<bool>> done);
  /// Now and then: keeps connections open for the next request.
  void tend();
  /// The other side ended a connection on which nothing was asked: perhaps it is gone.
  void when_ended(std::function<void()> ended);
  /// Why the last request failed, a sentence for a person; empty when it did not.
  [[nodiscard]] const std::string& last_problem() const;
  /// What the line takes to the endpoint that answered last, and when that was.
  [[nodiscard]] const LineEstimate& line() const;
  [[nodiscard]] engine::TimePoint answered_at() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep::replication
