#pragma once
// The witness: one honest compare-and-swap register a volume, at the end of wires that delay, lose and cut. A request
// may be carried out long after its sender gave it up, but not by another process of the witness: the connection is
// gone.
#include <array>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "replication/core/arbiter.hpp"
#include "tests/simulation/scheduler.hpp"

namespace lockstep::simulation {

class SimWitness;

/// One node's view of the witness.
class WitnessClient final : public replication::Witness {
 public:
  WitnessClient(Scheduler& scheduler, Trace& trace, SimRandom random, Owner owner, SimWitness& server)
      : scheduler_(scheduler), trace_(trace), random_(random), owner_(owner), server_(&server) {}

  void read(const engine::Uuid& volume, engine::Callback<engine::IoResult<replication::WitnessView>> done) override;
  void swap(const engine::Uuid& volume, const replication::WitnessView& seen, const replication::WitnessRecord& record,
            engine::Callback<engine::IoResult<replication::SwapOutcome>> done) override;
  void remove(const engine::Uuid& volume, engine::Callback<std::error_code> done) override;

  void set_reachable(bool reachable) { reachable_ = reachable; }
  [[nodiscard]] bool reachable() const { return reachable_; }
  /// Another witness from now on, or none; what is on its way to the old one may be carried out there, unheard.
  void use(SimWitness* server) { uses_ += std::exchange(server_, server) != server; }
  /// How often that was.
  [[nodiscard]] const std::uint64_t& uses() const { return uses_; }
  /// The process died: calls in flight may still be carried out, nobody is told.
  void clear();

 private:
  enum class Kind : std::uint8_t { read, swap, remove };
  struct Call {
    bool live = false;
    bool executed = false;
    bool answered = false;
    std::uint32_t generation = 1;
    SimWitness* server = nullptr;
    unsigned restarts = 0;  ///< of the witness, before this was sent
    Kind kind{};
    engine::Uuid volume;
    std::int64_t expected = 0;
    replication::WitnessRecord record;
    replication::SwapOutcome outcome;
    engine::Callback<engine::IoResult<replication::WitnessView>> read_done;
    engine::Callback<engine::IoResult<replication::SwapOutcome>> swap_done;
    engine::Callback<std::error_code> remove_done;
  };
  Call& begin(Kind kind, const engine::Uuid& volume);
  void launch(Call& call);
  static void on_server(void* self, std::uint64_t argument);
  static void on_client(void* self, std::uint64_t argument);
  static void on_timeout(void* self, std::uint64_t argument);
  static void on_bury(void* self, std::uint64_t argument);
  [[nodiscard]] Call* find(std::uint64_t argument);
  void finish(Call& call, bool answered);

  Scheduler& scheduler_;
  Trace& trace_;
  SimRandom random_;
  Owner owner_;
  SimWitness* server_;
  std::uint64_t uses_ = 0;
  bool reachable_ = true;
  std::vector<std::unique_ptr<Call>> calls_;
  std::vector<std::uint32_t> free_;
};

class SimWitness {
 public:
  [[nodiscard]] replication::WitnessView view(const engine::Uuid& volume) const;
  replication::SwapOutcome swap(const engine::Uuid& volume, std::int64_t expected,
                                const replication::WitnessRecord& record);
  void remove(const engine::Uuid& volume) { revision_ += static_cast<std::int64_t>(records_.erase(volume)); }

  /// Its processes so far: what was sent to one is never carried out by the next.
  [[nodiscard]] unsigned restarts() const { return restarts_; }
  /// A node was told of the record as it stands.
  void note_seen(const engine::Uuid& volume, Owner by, const replication::WitnessView& told);
  /// Both know of every record: what is taken back is missed by both.
  [[nodiscard]] bool all_seen() const;

  // What may be done to it behind everybody's back.
  struct Snapshot;
  [[nodiscard]] Snapshot snapshot() const;
  /// Set back in time: cluster, revision and records as they were then.
  void restore(const Snapshot& then);
  /// Another witness, without any record, in the place of this one.
  void empty();
  /// The same, and with the same cluster id: what etcd makes of an empty disk and the same settings.
  void lose_disk();
  // What somebody may do who can write to it, and has what the nodes wrote before, but not their key.
  /// An earlier record, or rubbish, in the place of the last.
  void overwrite();
  /// The key is removed, and all that the nodes wrote up to some moment is written again, one after the other.
  void make_anew(SimRandom& random);

 private:
  struct Kept {
    replication::WitnessRecord record;
    std::int64_t mod_revision = 0;
    bool seen_by[2] = {false, false};
    std::int64_t made = 0;  ///< the revision at which the key was made
    bool tampered = false;
    std::vector<replication::WitnessRecord> written;  ///< by the nodes, since then
  };
  static constexpr std::int64_t kFirstRevision = 1;  ///< as etcd's
  std::map<engine::Uuid, Kept> records_;
  std::uint64_t cluster_ = 0x8e9e05c52164694d;
  std::int64_t revision_ = kFirstRevision;
  unsigned restarts_ = 0;
  bool forgot_unseen_ = false;  ///< something that one of the nodes never saw is gone
};

struct SimWitness::Snapshot {
  std::map<engine::Uuid, Kept> records;
  std::uint64_t cluster = 0;
  std::int64_t revision = 0;
};

}  // namespace lockstep::simulation
