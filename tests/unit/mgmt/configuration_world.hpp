#pragma once
// Two nodes' managements in one thread, with everything that may go wrong between them: messages and answers that are
// lost or come late, partitions of one way or both, a node that ends at any durable step, databases that are set back,
// a witness that can't be reached, is emptied or set back, and users who ask either node at any time, also while it or
// its partner waits for an answer. All of it follows from one seed.
#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "mgmt/control/configuration_change.hpp"
#include "mgmt/control/configuration_witness.hpp"
#include "mgmt/control/secrets.hpp"

namespace lockstep::test {

using namespace mgmt;
using engine::MemberSet;
using engine::NodeSide;

/// What a program that was written wrong would do: planted to see that the promises would be seen broken.
enum class Defect {
  none,
  believes_any_witness,        ///< does not look whether the witness is the one it knows
  believes_an_old_database,    ///< does not look whether it was set back
  overrules_the_partner,       ///< goes on although the witness let the partner go on
  forgets_what_was_tentative,  ///< goes on from its own head only
  goes_on_without_asking,      ///< no arbiter
  takes_over_what_follows,     ///< whatever revision of its own the partner's epoch began at
  cannot_follow,               ///< does not take over what was changed without it
  deletes_without_looking,     ///< a volume of which this node is not the only member
  removes_before_adoption,     ///< a copy on a node that does not know yet that the volume is deleted
  makes_it_for_both,           ///< a volume that is made alone, as if the other node had a copy, too
  decides_together_at_work,    ///< begins to decide together while work of its own needs more changes
  forgets_what_is_owed,        ///< a deleted volume of which the other node has a copy
  merges_after_a_force,        ///< of two lines the one with the higher number is taken over
};

struct Crash {
  NodeSide side;
};

/// What a node's disk holds.
struct ConfigurationDisk {
  RevisionId head;
  ConfigurationEpoch epoch;
  Configuration configuration;
  std::optional<RevisionStore::Tentative> tentative;
  ConfigurationKnowledge known;
  [[nodiscard]] std::set<std::string> tokens() const {
    std::set<std::string> names;
    for (const auto& token : configuration.tokens) names.insert(token.name);
    return names;
  }
};

class ConfigurationWorld {
 public:
  struct Plan {
    bool witness = true;    ///< else: node A is preferred
    bool set_back = false;  ///< databases may be set back, and witnesses emptied and set back
    bool volumes = false;   ///< they are made, written, grown and deleted
    bool force = false;     ///< operators force a node, and at the end give a line up where the two have parted
    Defect defect = Defect::none;
  };
  ConfigurationWorld(std::uint64_t seed, Plan plan);
  ~ConfigurationWorld();
  ConfigurationWorld(const ConfigurationWorld&) = delete;
  ConfigurationWorld& operator=(const ConfigurationWorld&) = delete;
  void run(int steps);
  /// Ends all trouble, lets both take turns, and gives what promise was broken; empty: none.
  [[nodiscard]] std::string verdict();

  struct Marks {
    int alone = 0, together = 0, unknown = 0, refused = 0, crashes = 0, late = 0, joined = 0, set_back = 0,
        conflicts = 0, mended = 0, tentative_taken = 0, forced = 0, given_up = 0, volumes_alone = 0, deleted_alone = 0,
        copies_owed = 0, removals_owed = 0, grown_alone = 0;
  } marks;

 private:
  class Store;
  class Surroundings;
  class Wire;
  /// A job that makes or deletes a volume, as VolumeJobs has it; it is kept with the node's disk.
  struct VolumeJob {
    engine::Uuid volume;
    bool removes = false;
    bool alone = false;
    int step = 0;
    std::chrono::steady_clock::time_point since{};
    bool operator==(const VolumeJob&) const = default;
  };
  /// What the hosts know of a volume, and who has it.
  struct Truth {
    MemberSet members = MemberSet::both();
    int written = 0;         ///< acknowledged writes
    bool made = false;       ///< its user was told so
    bool deleted = false;    ///< its user was told so
    bool to_delete = false;  ///< its user asked for it
    std::int64_t size = 1;   ///< acknowledged
  };
  struct Machine {
    NodeSide side = NodeSide::a;
    ConfigurationDisk disk;
    std::vector<ConfigurationDisk> backups;
    std::unique_ptr<Store> store;
    std::unique_ptr<Surroundings> surroundings;
    std::unique_ptr<Revisions> revisions;
    std::unique_ptr<ConfigurationWitness> arbiter;
    std::unique_ptr<Wire> partner;
    bool up = true;
    bool sees_witness = true;
    bool busy = false;  ///< a change is under way
    std::vector<VolumeJob> jobs;
    std::map<engine::Uuid, int> files;  ///< its copies of volumes: how many writes each holds
    int frames = 0;                     ///< of its own work on the stack
  };
  struct WitnessState {
    std::optional<replication::WitnessRecord> record;
    std::int64_t mod_revision = 0, revision = 1, writes = 0;
    std::uint64_t life = 1;  ///< another one each time the record is made anew
  };

  static constexpr auto kAtWorkAlone = std::chrono::seconds(30);
  static constexpr int kBlank = -1;  ///< of a file: a copy that holds nothing yet

  bool chance(int in_a_thousand) { return std::uniform_int_distribution<int>(0, 999)(random_) < in_a_thousand; }
  std::size_t pick(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }
  Machine& at(NodeSide side) { return machines_[static_cast<std::size_t>(side)]; }
  void start(Machine& m);
  void work(Machine& m, const std::function<void()>& what);
  void alive(const Machine& m) const;
  void durably(Machine& m, const std::function<void()>& effect);
  void step();
  void meanwhile();
  void ask_for_a_change(Machine& m, bool passed_on = false);
  void turn(Machine& m);
  void set_back(Machine& m);
  void break_something();
  // configuration_world_volumes.cpp
  Outcome<RevisionId> change(Machine& m, const ConfigurationEdits& edits, Agreement agreement);
  void ask_for_a_volume(Machine& m, bool passed_on = false);
  void begin_making(Machine& m);
  void begin_deleting(Machine& m, const engine::Uuid& id);
  void grow(Machine& m, const engine::Uuid& id);
  void run_job(Machine& m);
  [[nodiscard]] bool take_step(Machine& m, VolumeJob& job);
  void take_up_what_is_owed(Machine& m);
  void data_plane();
  void write();
  [[nodiscard]] bool destroy(Machine& m, const engine::Uuid& id);
  [[nodiscard]] bool there(Machine& other, const std::function<void()>& effect);
  [[nodiscard]] bool has_in_service(const Machine& m, const engine::Uuid& id) const;
  [[nodiscard]] static bool has_data(const Machine& m, const engine::Uuid& id);
  [[nodiscard]] bool is_lone(const Machine& m, const engine::Uuid& id);
  [[nodiscard]] bool linked() const;
  void force(Machine& m);
  void give_one_line_up();
  [[nodiscard]] std::string check_volumes();
  [[nodiscard]] std::string check_volume(const engine::Uuid& id, const Truth& truth);
  [[nodiscard]] replication::WitnessView view() const;
  void set_witness_back();
  bool swap(const replication::WitnessView& seen, const replication::WitnessRecord& record);
  [[nodiscard]] std::string check(bool at_the_end);

  std::mt19937_64 random_;
  Plan plan_;
  std::array<Machine, 2> machines_;
  std::array<bool, 2> way_{true, true};  ///< from A to B, from B to A
  WitnessState witness_;
  std::vector<WitnessState> old_witnesses_;
  std::vector<std::function<void()>> late_;
  std::chrono::steady_clock::time_point now_{};
  int depth_ = 0;
  int changes_ = 0;
  bool quiet_ = false;
  bool witness_set_back_ = false;
  bool excused_ = false;            ///< the two may part, as something was lost that nobody could know of
  std::set<std::string> promised_;  ///< answered with success
  std::set<std::string> denied_;    ///< answered with "not made"
  std::map<engine::Uuid, Truth> truths_;
  std::map<engine::Uuid, int> kept_aside_;  ///< on the node whose line was given up: volumes of that line alone
  NodeSide gave_up_ = NodeSide::a;
  std::string broken_;  ///< the first promise of a volume's that was broken
};

}  // namespace lockstep::test
