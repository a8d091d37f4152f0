#pragma once
// A hypervisor with a path to each node: keeps several operations going, and does what multipath does when a path
// fails: tries the other. A write that is tried again carries the same stamp and counts as one operation, which is how
// it looks to whoever issued it; the nodes must see to it that what an ended session left behind has no effect later.
#include <functional>
#include <memory>
#include <vector>

#include "engine/disk.hpp"
#include "engine/scsi/lu_state.hpp"
#include "tests/simulation/history.hpp"
#include "tests/simulation/host.hpp"

namespace lockstep::simulation {

class World;

class Initiator {
 public:
  Initiator(World& world, unsigned number, SimRandom random);
  ~Initiator();

  void start();
  /// The process with all its sessions is gone.
  void host_ended(Host& host, bool silent);
  /// The node closed every session.
  void host_fenced(Host& host);
  /// Which of the node's threads has its session with it.
  [[nodiscard]] unsigned thread_at(const Host& host) const;
  [[nodiscard]] bool idle() const;
  /// Since when its longest operation waits for its end; now, when none does.
  [[nodiscard]] Nanos waits_since() const;
  /// Its writes that a member has in sync.
  void list_submitted(unsigned volume, std::vector<Value>& values) const;

 private:
  static constexpr std::uint32_t kMostBlocks = 16;
  enum class Kind : std::uint8_t {
    read,
    write,
    write_zeroes,
    unmap,
    write_same,
    compare_and_write,
    flush,
    change,
    look
  };
  struct Attempt;

  /// With one node. Commands belong to the session that they were sent in.
  struct Session {
    std::uint64_t number = 1;
    bool up = true;  ///< commands may be sent; otherwise it was ended by this host, and the next one is not there
    bool node_knows = true;  ///< that it ended
  };
  /// A try before the present one.
  struct Earlier {
    Value value = 0;
    bool until_done = false;  ///< may take effect until its node has done with it, whatever was acknowledged meanwhile
  };
  /// One of the operations that are kept outstanding.
  struct Lane {
    bool busy = false;
    std::uint64_t serial = 0;  ///< of the operation; attempts of earlier ones are strays
    Kind kind{};
    unsigned volume = 0;
    std::uint64_t first = 0;
    std::uint32_t count = 0;
    bool fua = false;
    Value value = 0;          ///< of the present try
    bool until_done = false;  ///< as in Earlier, of the present try
    std::vector<Earlier> earlier;
    std::vector<Value> expected;
    Moment read_start = 0;
    unsigned tries = 0;
    Host* path = nullptr;
    Host* banned = nullptr;  ///< may still carry out an earlier try
    Attempt* attempt = nullptr;
    Host* awaits = nullptr;  ///< the answer to an abort or a logout, before it tries again
    Nanos since = 0;
  };
  struct Attempt {
    Initiator* owner = nullptr;
    engine::DiskRequest request;
    std::byte* memory = nullptr;
    std::uint32_t index = 0;
    std::uint32_t generation = 1;
    bool live = false;
    bool submitted = false;       ///< to its node, by the session's thread,
    bool waits = false;           ///< there, for memory or for its data
    bool at_work = false;         ///< … and to its volume's disk
    unsigned away = 0;            ///< between two threads: the command itself, and its cancelling
    bool session_closed = false;  ///< by the node, or with it
    bool given_up = false;        ///< by the initiator
    Host* host = nullptr;
    unsigned lane = 0;
    unsigned volume = 0;  ///< its own: a lane goes on to other operations when it gives one up
    std::uint64_t serial = 0;
    std::uint64_t floor = 0;  ///< of the unit's state when it was sent
    Moment write_start = 0;
    std::uint64_t session = 0;
    Nanos sent = 0;
    Value value = 0;
    bool resets = false;              ///< the unit
    std::vector<Value> before_reset;  ///< writes that the members had when this came
    bool cancelled = false;           ///< at the node
    bool aborting = false;            ///< the lane awaits the answer to its abort
  };

  [[nodiscard]] static scsi::AccessClass access_of(Kind kind);
  [[nodiscard]] scsi::LuRequest choose_change(const scsi::NexusKey& nexus);
  void judge(const Attempt& attempt, const Lane& lane);

  static void on_next(void* self, std::uint64_t lane);
  static void on_try(void* self, std::uint64_t lane_and_serial);
  static void on_arrive(void* self, std::uint64_t attempt);
  static void on_answer(void* self, std::uint64_t attempt);
  static void on_timeout(void* self, std::uint64_t attempt);
  static void on_done(engine::DiskRequest& request);
  // initiator_hops.cpp
  [[nodiscard]] bool hops(const Attempt& attempt) const;
  void bring(Attempt& attempt);
  void start(Attempt& attempt);
  void bring_cancel(Attempt& attempt);
  static void cancel_there(Attempt& attempt);
  void bring_back(const Attempt& attempt);
  void came_back(Attempt& attempt);

  static void on_overdue(void* self, std::uint64_t lane_and_serial);
  // initiator_sessions.cpp
  void come_in(Attempt& attempt);
  void go_to_disk(Attempt& attempt);
  static void on_ready(void* self, std::uint64_t attempt);
  static void on_abort(void* self, std::uint64_t attempt);
  static void on_abort_late(void* self, std::uint64_t attempt);
  static void on_session_end(void* self, std::uint64_t side_and_session);
  static void on_logout_late(void* self, std::uint64_t side_and_session);
  static void on_login(void* self, std::uint64_t side_and_session);
  static void on_quick_end(void* self, std::uint64_t side_and_session);
  void lose_patience(Attempt& attempt);
  void abort(Attempt& attempt);
  void cancel(Attempt& attempt);
  void logout(Host& host);
  enum class Notice : std::uint8_t { at_once, within_a_lease, late };
  void drop(Host& host, Notice notice);
  void quick_end_may_follow(Host& host);
  void end_session(Host& host, const std::function<void(Attempt&)>& each);
  void session_ended(Host& host);
  void look_whether_over(Host& host);
  void ended_at_node(Attempt& attempt);
  void sessions_gone(Host& host, Nanos notice);
  void release_waiting(Host& host, Nanos notice);
  void try_elsewhere(unsigned lane, Nanos delay);
  [[nodiscard]] Session& session(const Host& host) { return sessions_[static_cast<std::size_t>(host.side())]; }
  [[nodiscard]] std::uint64_t session_key(const Host& host) {
    return session(host).number << 1 | static_cast<std::uint64_t>(host.side());
  }
  [[nodiscard]] Host* with_session(std::uint64_t key);
  [[nodiscard]] Owner owner_at(const Host& host) const { return owner_of(host.side(), thread_at(host)); }
  [[nodiscard]] bool holds_back_late_effects(const Attempt& attempt) const;

  void next(unsigned lane);
  void choose(Lane& lane);
  void begin_write(Lane& lane);
  void choose_extent(Lane& lane);
  void choose_expected(Lane& lane);
  void attempt(unsigned lane);
  void prepare(Attempt& attempt, const Lane& lane);
  void answered(Attempt& attempt);
  void conclude(Lane& lane, Attempt& attempt);
  void acknowledge(Lane& lane);
  void demand_a_good_one(const Lane& lane, std::error_code status);
  void conclude_read(Lane& lane, Attempt& attempt);
  void conclude_compare(Lane& lane, Attempt& attempt, bool hit);
  void retry(unsigned lane, Nanos delay);
  void finish(unsigned lane);
  void close_attempts(Host& host, Nanos notice);
  [[nodiscard]] Host* choose_path(Lane& lane);
  [[nodiscard]] Attempt* find(std::uint64_t key);
  [[nodiscard]] Attempt& take_attempt();
  void release(Attempt& attempt);
  [[nodiscard]] static std::uint64_t key(const Attempt& a) { return (std::uint64_t{a.generation} << 32) | a.index; }
  static constexpr unsigned kMostTries = 40;
  static constexpr Nanos kPathDelay = 2 * kMillisecond;
  [[nodiscard]] std::uint64_t lane_key(unsigned lane) const { return (lanes_[lane].serial << 8) | lane; }

  World& world_;
  unsigned number_;
  SimRandom random_;
  SimRandom waits_;     ///< which commands wait in their sessions
  unsigned favourite_;  ///< the node whose path it prefers; 2: either
  std::vector<Lane> lanes_;
  std::vector<std::unique_ptr<Attempt>> attempts_;
  std::vector<std::uint32_t> free_;
  std::uint64_t serial_ = 0;
  scsi::NexusKey nexuses_[2];  ///< through each node
  Session sessions_[2];        ///< with each node
  std::uint8_t reserved_type_ = 1;
};

}  // namespace lockstep::simulation
