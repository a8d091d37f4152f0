#pragma once
// The node: makes what is served equal to the desired state, and carries out what management asks. Lives on the home
// worker's reactor; what it is asked is done one after the other.
#include <atomic>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "iscsi_target/server/server.hpp"
#include "mgmt/data_plane/access.hpp"
#include "mgmt/data_plane/desired_state.hpp"
#include "mgmt/data_plane/events.hpp"
#include "mgmt/data_plane/fabric_watch.hpp"
#include "mgmt/data_plane/left_record_files.hpp"
#include "mgmt/data_plane/pair.hpp"
#include "mgmt/data_plane/repeated_events.hpp"
#include "mgmt/data_plane/status.hpp"
#include "mgmt/data_plane/volume.hpp"
#include "mgmt/data_plane/worker.hpp"

namespace lockstep::data_plane {

struct Problem {
  std::string object;   ///< "volume vm1", "portal 10.0.0.1:3260"
  std::string message;  ///< a sentence for a person
};

struct ApplyOutcome {
  std::uint64_t revision = 0;
  std::vector<Problem> problems;
};

/// Something else than this in tests only.
struct NodeOptions {
  ReplicaOpener open_replica = data_plane::open_replica;
  /// This machine's clock may stand still: reads wait for the partner's word (replication::NodeSettings).
  bool confirms_reads = false;
  bool kernel_tls = true;                              ///< engine::TlsIdentitySettings
  std::string fence_socket{};                          ///< of lockstep-fence
  std::vector<std::string> findings{};                 ///< sentences on this machine and its settings, for health
  rdma::Fabric* rdma = nullptr;                        ///< null: there is none,
  std::string why_no_rdma = "RDMA is not used here.";  ///< … and this is why
  FabricWatchOptions fabric{};
  std::uint64_t link_buffers = std::uint64_t{64} << 20;  ///< bytes for the partner's data, of each shard
  /// This process was set back with its machine's memory, and must not go on: best never to return. Any thread.
  std::function<void(const std::string&)> set_back = [](const std::string&) {};
  /// Told by the destructor what it waits for next, in a few words.
  std::function<void(const char*)> waits_for = [](const char*) {};
  /// How long everything else waits for the disks of volumes that are detached: by then their replicas have failed.
  engine::Duration detach_patience = 2 * replication::NodeSettings{}.store_deadline;
  /// The same for a disk on which a replica is attached, made, lengthened or deleted.
  engine::Duration disk_patience = replication::NodeSettings{}.store_deadline;
};

class Node final : public PairUser {
 public:
  static constexpr engine::Duration kLinger = std::chrono::seconds(8);  ///< of closed stores, on a busy machine
  // Both together stay below the daemon's patience with a stop.
  static constexpr auto kRetireGrace = std::chrono::milliseconds(1000);  ///< for initiators to log out
  static constexpr auto kPortalGrace = std::chrono::seconds(3);          ///< the same, where the portal alone is closed
  static constexpr engine::Duration kLeavePatience = std::chrono::milliseconds(3000);
  /// Initiators whose sessions were closed, or that come before this node knows what it serves, are let in when it does
  /// or when this is over: some give up for good over what they are told in between.
  static constexpr std::chrono::milliseconds kDecisionPatience{4000};        ///< ESXi waits 5 s for a login
  static constexpr engine::Duration kLookAtSpace = std::chrono::seconds(5);  ///< how often, under thin volumes
  /// How often, while the partner has yet to say that it follows a volume that is alone here, or a state is passing.
  static constexpr engine::Duration kLookAgain = std::chrono::milliseconds(100);
  /// A volume that is not served for a shorter time is no event: hosts take it for a slow disk.
  static constexpr engine::Duration kPassing = std::chrono::seconds(1);
  static constexpr std::size_t kMaxQueued = 64;  ///< requests that wait for their turn; more are refused
  static constexpr std::size_t kMaxWaiting = 8;  ///< requests that wait for one replica's disk; the last ones
  /// For each disk, after another one has not answered in the same apply().
  static constexpr engine::Duration kNextPatience = std::chrono::seconds(1);
  /// At most, with a disk that did answer, later than it was waited for: it is waited for longer the next time.
  static constexpr engine::Duration kLongestPatience = std::chrono::minutes(2);

  /// Before any reactor runs. All outlive the node.
  Node(Workers& workers, engine::Random& random, engine::Uuid process, const std::string& state_folder,
       EventSink& events, NodeOptions options = {});
  /// After the reactors have stopped.
  ~Node();

  void apply(DesiredState state, engine::Callback<engine::Result<ApplyOutcome>> done);
  void create(ReplicaCreate request, engine::Callback<engine::Result<void>> done);
  /// Room for a larger volume, in use; what is served stays as it is.
  void grow(const ReplicaGrow& request, engine::Callback<engine::Result<void>> done);
  void remove(ReplicaDelete request, engine::Callback<engine::Result<void>> done);
  void leave(const engine::Uuid& volume, engine::Callback<engine::Result<void>> done);
  void force_solo(const engine::Uuid& volume, bool accept_inconsistent, engine::Callback<engine::Result<void>> done);
  void give_up(const engine::Uuid& volume, engine::Callback<engine::Result<void>> done);
  void report(engine::Callback<NodeReport> done);
  /// Tries those at which this node does not listen yet. Gives the ones that can't be listened at.
  [[nodiscard]] std::vector<Problem> try_to_listen(const std::vector<SocketAddress>& addresses);
  /// `done` gets nothing, or what keeps the two nodes from talking by that way.
  void try_link(const LinkTry& way, engine::Callback<const std::string&> done);
  void measure_path(const LinkTest& which, engine::Callback<engine::Result<replication::PathMeasured>> done);
  struct PairWitness {
    replication::Witness& witness;
    engine::Uuid pair;
    bool lost = false;  ///< it was asked a moment ago, and did not answer
  };
  /// The witness with these addresses, comma separated; nothing where another one is in use, or none.
  [[nodiscard]] std::optional<PairWitness> witness_at(const std::string& addresses);
  /// Looks whether the partner could be powered off.
  void look_at_fence(engine::Callback<const FenceWord&> done);
  /// Leaves by agreement, flushes, ends every session. Once; nothing else is asked afterwards.
  void shutdown(engine::Callback<> done);
  /// After shutdown(): some store has not returned what it was given, so that nothing may be taken apart.
  [[nodiscard]] bool is_owed() const { return !leaving_.empty() || !disk_work_.empty() || (pair_ && !closed_); }

 private:
  void on_volume_changed() override;
  void close_sessions(engine::Callback<> closed) override;
  void on_set_back(const std::string& why) override { options_.set_back(why); }
  using Volumes = std::map<engine::Uuid, std::unique_ptr<Volume>>;
  struct Apply;
  using ApplyPtr = std::shared_ptr<Apply>;

  // node_apply.cpp, in this order
  void set_up_pair(const ApplyPtr& apply);
  [[nodiscard]] bool is_cut_short(const ApplyPtr& apply);
  void make_pair(const ApplyPtr& apply, engine::Callback<> then);
  void name_witness(const ApplyPtr& apply, engine::Callback<> then);
  void use_arbiter(Apply& apply);
  void name_partner(const ApplyPtr& apply, engine::Callback<> then);
  void wish_arbiter(replication::ArbiterWish wish, engine::Callback<> then);
  void detach_changed(const ApplyPtr& apply);
  void tell_of_leaving(Apply& apply);
  void attach_missing(const ApplyPtr& apply);
  void begin_attach(const ApplyPtr& apply, const VolumeSpec& spec);
  void use_spec(Volume& volume, const VolumeSpec& spec);
  void set_write_cache(const VolumeSpec& spec);
  void use_mirrored(const ApplyPtr& apply, const VolumeSpec& spec);
  void attach_mirrored(const ApplyPtr& apply, const VolumeSpec& spec);
  void attach_unmirrored(const ApplyPtr& apply, const VolumeSpec& spec);
  template <class Opened>
  void close_late(const VolumeSpec& spec, Worker& worker, Opened opened);
  [[nodiscard]] bool may_linger(const engine::Error& error);
  void try_again(const ApplyPtr& apply);
  void grow_attached(const ApplyPtr& apply, const VolumeSpec& spec);
  void attach_opened(const ApplyPtr& apply, const VolumeSpec& spec, const std::shared_ptr<MirroredReplica>& opened);
  [[nodiscard]] engine::Result<std::unique_ptr<Volume>> attach_to(PairShard& shard, const VolumeSpec& spec,
                                                                  OpenedReplica replica, replication::ArbiterWish wish);
  [[nodiscard]] std::unique_ptr<HopDisk> hop_disk(engine::Disk& disk, std::size_t home) const;
  // node_grow.cpp
  using Grown = engine::Callback<engine::Result<void>>;
  void make_room(const engine::Uuid& volume, std::uint64_t size, Grown done);
  void lengthen(const engine::Uuid& volume, std::uint64_t size, std::uint64_t metadata_bytes, Grown done);
  void take_longer_files(const engine::Uuid& volume, std::uint64_t size, Grown done);
  void serve(const VolumeSpec& spec, std::unique_ptr<Volume> volume);
  void start_pair(engine::Callback<> then);
  void finish_apply(const ApplyPtr& apply);
  void show(const ApplyPtr& apply);
  // node_addresses.cpp
  [[nodiscard]] std::vector<Problem> set_portals(const std::vector<SocketAddress>& portals);

  // node_units.cpp
  struct Absent {
    VolumeSpec spec;
    std::shared_ptr<iscsi_target::LogicalUnit> unit;  ///< stands in for the volume's
  };
  void note_size(const Volume& volume);
  [[nodiscard]] Absent stand_in(const VolumeSpec& spec);
  [[nodiscard]] std::vector<std::shared_ptr<iscsi_target::LogicalUnit>> find_absent();
  void publish_map(engine::Callback<> adopted);
  // node_detach.cpp
  void detach(std::vector<engine::Uuid> volumes, engine::Callback<> done);
  void let_go(const std::shared_ptr<Volume>& volume);
  void close_stores(const std::shared_ptr<Volume>& volume);
  void await_detached();
  [[nodiscard]] static std::string still_owed(const Volume& volume);
  // node_disk_work.cpp
  /// Of a replica: two copies of a volume may lie on different disks.
  struct Place {
    engine::Uuid volume;
    std::string data;
    auto operator<=>(const Place&) const = default;
  };
  static Place place_of(const VolumeSpec& spec) { return {spec.id, spec.data}; }
  using Reply = std::shared_ptr<engine::Callback<engine::Result<void>>>;
  [[nodiscard]] static engine::Callback<> answer_silence(const Reply& reply, const std::string& path);
  void begin_disk_work(const Place& place, engine::Duration patience, engine::Callback<> go_on);
  [[nodiscard]] bool is_waited_for(const Place& place) const;
  [[nodiscard]] bool has_answered(const Place& place);
  engine::Callback<> end_disk_work(const Place& place);
  [[nodiscard]] bool await_disk(const Place& place, engine::Callback<> again, engine::Callback<> give_up);
  [[nodiscard]] bool has_replica_work() const;
  void end_replica_work();
  [[nodiscard]] static std::string silence(const std::string& path);
  using FilesDone = engine::Callback<engine::Result<void>>;
  void work_on_files(std::function<engine::Result<void>()> work, FilesDone done);
  void look_first(const Place& place, const std::string& metadata, engine::Callback<> then);
  [[nodiscard]] FileWorker file_worker();
  [[nodiscard]] FileWorker file_worker_for(engine::Reactor& other);

  [[nodiscard]] iscsi_target::UnitSettings unit_settings(const VolumeSpec& spec) const;
  void put_target();

  void take_session(const iscsi_target::SessionEvent& event);
  void tell_session(Event event);
  void plan_counted_sessions();

  // node_space.cpp
  struct SpaceSeen;
  void look_at_space();
  void take_space(const SpaceSeen& seen);
  void tell_low_space(Volume& volume);

  // node_replicas.cpp
  using Removed = engine::Result<std::optional<engine::ArbiterSettings>>;
  void end_removal(const ReplicaDelete& request, const Removed& outcome, const Reply& reply);
  [[nodiscard]] bool needs_present_key(const ReplicaCreate& request) const;
  [[nodiscard]] engine::Result<void> give_key(ReplicaCreate& request) const;
  void leave_pair(engine::Callback<> then);
  // node_status.cpp
  using ShardReports = std::vector<ShardReport>;
  void look_at_shards(engine::Callback<ShardReports> done);
  void look_for_changes(engine::Callback<> done = {});
  bool take_look(const ShardReports& shards);
  void take_status(Volume& volume, const replication::VolumeStatus& status, bool connected);
  [[nodiscard]] NodeReport report_of(const ShardReports& shards);
  void add_rdma(NodeReport report, engine::Callback<NodeReport> done);
  void report_arbiter(NodeReport& report);
  void report_shards(NodeReport& report, const ShardReports& shards);
  void report_unmirrored(NodeReport& report) const;
  void report_volume(NodeReport& report, VolumeReport& entry) const;
  void look_again();
  void tell_volume(Volume& volume, const replication::VolumeStatus& status);
  void tell_state(Volume& volume, const replication::VolumeStatus& status);
  void queue(std::function<void(engine::Callback<>)> work, engine::Callback<> refused);
  void next_in_queue();
  [[nodiscard]] engine::Result<Volume*> mirrored_volume(const engine::Uuid& volume);
  [[nodiscard]] engine::Reactor& home() { return workers_.front()->reactor; }

  Workers& workers_;
  engine::Random& random_;
  engine::Uuid process_;
  NodeKeyFile keys_;
  LeftRecordFiles left_records_;
  EventSink& events_;
  RepeatedEvents strangers_{8};  ///< refused logins and discovery sessions
  RepeatedEvents sessions_{1024};
  bool counts_sessions_ = false;  ///< a timer runs for what was counted
  iscsi_target::TargetRegistry registry_;
  iscsi_target::TargetServer server_;
  std::optional<DesiredState> state_;
  std::vector<std::string> listening_;
  std::unique_ptr<Pair> pair_;
  FenceSlot fence_trials_;  ///< of a pair that is not made yet, too
  SettingsSpec pair_settings_;
  std::size_t shards_used_ = 0;
  replication::ArbiterWish arbiter_wish_ = replication::ArbiterWish::none;  ///< for every mirrored volume
  Volumes volumes_;
  std::map<engine::Uuid, Absent> absent_;              ///< wanted, and not attached
  std::map<engine::Uuid, std::uint64_t> shown_sizes_;  ///< theirs, in bytes, as hosts see them
  /// In no map any more. Nothing of theirs is freed before their stores have returned everything.
  std::map<engine::Uuid, std::shared_ptr<Volume>> leaving_;
  std::vector<engine::Uuid> awaited_;  ///< of those, whose end somebody waits for
  engine::Callback<> detached_;
  engine::TimerId detach_timer_{};
  std::shared_ptr<const Access> access_;
  std::size_t next_home_ = 0;
  engine::TimePoint started_;
  engine::TimePoint stores_closed_;      ///< the last time that any was, here or by a process before
  std::list<std::thread> file_workers_;  ///< make, lengthen and remove files, one for each volume at most
  std::thread looker_;                   ///< asks file systems what is left
  FabricWatch fabric_;
  std::atomic<bool> look_planned_ = false;
  std::uint64_t closings_ = 0;  ///< how often all sessions were closed
  bool looks_again_ = false;
  bool looks_at_space_ = false;
  bool stopping_ = false;
  /// A replica is being attached, made, lengthened or removed: some of its stores may be open.
  struct Waiting {
    engine::Callback<> again, give_up;
  };
  struct DiskWork {
    engine::TimePoint since{};
    engine::TimerId timer{};
    engine::Callback<> go_on;     ///< null when all has gone on without it
    std::deque<Waiting> after{};  ///< requests that wait for its end
  };
  std::map<Place, DiskWork> disk_work_;
  std::map<Place, engine::Duration> late_;  ///< what took that long to be opened when it was attached last
  engine::Callback<> after_replica_work_;   ///< the end of a shutdown that waits for those that are waited for
  bool closed_ = false;  ///< the pair was left, or not, and its volumes' stores have returned everything
  NodeOptions options_;

  std::deque<std::function<void(engine::Callback<>)>> queue_;
  bool busy_ = false;
};

}  // namespace lockstep::data_plane
