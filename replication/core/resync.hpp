#pragma once
// Makes two replicas equal: the union of both dirty maps, region by region, from the node that orders to the other.
//
// Two uses. Solo: the partner is a target, kept up to date with every write from the start, and joins when nothing is
// unequal any more. In sync, after both restarted: both serve, and a dirty region is made equal before its first use.
// What is unequal is known in memory only; on disk the bits of both maps stay until the regions are equal and flushed.
//
// What this node's store can't read (resync_unreadable.cpp) is the partner's in sync: no host has seen either's bytes
// of an unequal region since both restarted, and each has all that was acknowledged or shown before. A block that
// neither can read is lost: hosts are told a medium error until it is written. Alone, the region waits for a write, or
// for its store to read it after all, while the others go on.
//
// Requires: start() on the node that orders. Callers: the sequencer, for regions before their first use; PhaseRunner
// and membership, which begin and stop it.
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "replication/core/completions.hpp"
#include "replication/core/link_budget.hpp"
#include "replication/core/local_store.hpp"
#include "replication/core/messages.hpp"
#include "replication/core/outbound.hpp"
#include "replication/core/partner.hpp"
#include "replication/core/regions.hpp"
#include "replication/core/resync_governor.hpp"
#include "replication/core/space.hpp"
#include "replication/core/standing.hpp"
#include "replication/core/volume_status.hpp"

namespace lockstep::replication {

/// What a resync tells upwards.
class ResyncUser {
 public:
  virtual ~ResyncUser() = default;
  virtual void on_equal(Op& op) = 0;      ///< its regions are: it goes on (sequencer)
  virtual void on_target_equal() = 0;     ///< nothing differs any more: the target may join
  virtual void on_partner_refused() = 0;  ///< a copy: look at its state
};

class Resync {
 public:
  static constexpr std::size_t kMaxCopies = 16;        ///< regions under way
  static constexpr std::uint64_t kMapWords = 8192;     ///< words of a map asked for at once
  static constexpr std::size_t kMostUnreadable = 256;  ///< regions set aside; a store with more of them is broken
  /// A region that is set aside is tried again after that, then after twice as long each time: a disk may take seconds
  /// for a bad sector, and writes to its region wait.
  static constexpr engine::Duration kReadAgain = std::chrono::seconds(5);
  static constexpr engine::Duration kReadAgainAtLast = std::chrono::seconds(160);
  static constexpr engine::Duration kAskAgain = std::chrono::seconds(1);  ///< a partner that refused to read

  Resync(const NodeSettings& settings, engine::Clock& clock, engine::BufferPool& buffers, const Standing& standing,
         LocalStore& store, Outbound& outbound, Completions& completions, Regions& regions, Space& space,
         const std::function<void()>& changed, ResyncUser& user, Partner& partner)
      : settings_(settings),
        clock_(clock),
        buffers_(buffers),
        standing_(standing),
        store_(store),
        outbound_(outbound),
        completions_(completions),
        regions_(regions),
        space_(space),
        changed_(changed),
        user_(user),
        share_(partner.copies(), [this] { go_on(); }),
        pace_(partner.resyncs()) {}
  ~Resync();

  /// Begins as the source of the partner as it is connected now. `solo`: it is a target, and joins at the end.
  void start(bool solo);
  /// The union of the maps could not be had, the target was lost, or the role changed: forget everything.
  void stop();
  void cover_volume();  ///< it may have grown: what was added differs nowhere
  /// The way out is usable again (in sync): copies go on.
  void go_on();
  void tick();

  [[nodiscard]] bool active() const { return active_; }
  /// Another one after each stop(): what was begun in an earlier one counts no more.
  [[nodiscard]] std::uint64_t run() const { return run_; }
  [[nodiscard]] bool idle() const { return copies_.empty(); }
  /// Writes in a solo epoch go to the target too.
  [[nodiscard]] bool mirroring() const { return active_ && solo_; }
  /// The union is known and marked here, or there is nothing to know.
  [[nodiscard]] bool knows_unequal() const { return (!active_ || known_) && marking_ == 0; }
  [[nodiscard]] bool is_unequal(std::uint64_t region) const;
  /// Regions that are known to be.
  [[nodiscard]] std::uint64_t unequal() const { return unequal_; }
  [[nodiscard]] bool all_equal() const { return active_ && known_ && unequal_ == 0 && copies_.empty(); }

  /// Some region of `extent` must be made equal before it is used (in sync), or is still being written.
  [[nodiscard]] bool must_equalize(engine::Extent extent) const;
  /// Takes `op` (which stays in the sequencer's list) until its regions are equal, then tells its user.
  void equalize(Op& op);
  void forget(Op& op);
  /// A write failed here after the target had it: copy again.
  void note_unequal(engine::Extent extent);
  /// A write is on all members: what could not be read there is whole.
  void note_written(engine::Extent extent) {
    if (!unreadable_.empty()) mend_written(extent);
  }
  /// In sync: neither store can read some block of `extent`.
  [[nodiscard]] bool is_lost(engine::Extent extent) const;
  /// What keeps some region from being made equal, and what to do; a sentence for a person. Empty: nothing.
  [[nodiscard]] std::string why_unreadable() const;
  /// The store has something that a copy writes there.
  [[nodiscard]] bool writes_here() const;

  [[nodiscard]] ResyncProgress progress() const;
  /// A region that the store has been reading since before `limit`.
  [[nodiscard]] bool has_older_than(engine::TimePoint limit) const;
  /// The partner was sent something before `limit` by a resync that was called off since, and has not answered: its
  /// region stays locked until then.
  [[nodiscard]] bool stuck_on_link(engine::TimePoint limit) const;

 private:
  struct Copy;
  /// A region that could not be made equal, since this node's store can't read it.
  struct Unreadable {
    engine::Duration wait{};           ///< the last time
    engine::TimePoint again;           ///< when it is tried again
    bool examined = false;             ///< in sync: all but `lost` is equal, and may be used
    bool unwritable = false;           ///< alone: the store reads `lost`, and can't rewrite what a failed write left
    std::vector<engine::Extent> lost;  ///< blocks that nobody could read
  };
  void ask_map();
  void on_map(std::uint64_t run, const engine::IoResult<Message>& result);
  void unite();
  void mark_union();
  void pump();
  [[nodiscard]] std::optional<std::uint64_t> wanted_region();
  /// Whatever differs is being copied, or waits to be tried again.
  [[nodiscard]] bool nothing_to_begin();
  [[nodiscard]] std::optional<std::uint64_t> next_in_walk();
  void begin(std::uint64_t region);
  static void on_granted(engine::RangeLock::Node& node);
  void read(Copy& copy);
  [[nodiscard]] bool must_write_back(const Copy& copy) const;
  void write_back(Copy& copy);
  void put_on_link(Copy& copy);
  void on_not_rewritten(Copy& copy, std::error_code error);
  void send(Copy& copy);
  void on_copied(Copy& copy, const engine::IoResult<Message>& result);
  void end(Copy& copy, bool equal);
  // resync_unreadable.cpp
  void on_unreadable(Copy& copy);
  void fetch_part(Copy& copy);
  void on_part_fetched(Copy& copy, const engine::IoResult<Message>& result);
  void read_part(Copy& copy);
  void next_part(Copy& copy);
  void on_all_parts(Copy& copy);
  void next_run(Copy& copy);
  static void lose_part(Copy& copy, engine::Extent part);
  void lose_whole_blocks(Copy& copy);
  void mark_and_write_back(Copy& copy);
  void set_aside(Copy& copy, bool examined);
  void mend_written(engine::Extent extent);
  void tell_unreadable();
  [[nodiscard]] bool waits(std::uint64_t region) const;
  [[nodiscard]] bool is_examined(std::uint64_t region) const;
  void wake();
  void finish_if_equal();
  void set(std::uint64_t region, bool unequal);
  [[nodiscard]] std::optional<std::uint64_t> next_unequal(std::uint64_t region, std::uint64_t end) const;
  [[nodiscard]] bool is_being_copied(std::uint64_t region);
  [[nodiscard]] bool may_spend(std::uint64_t bytes, bool wanted);
  void look_again_in(engine::Duration delay);
  void set_active(bool active);

  const NodeSettings& settings_;
  engine::Clock& clock_;
  engine::BufferPool& buffers_;
  const Standing& standing_;
  LocalStore& store_;
  Outbound& outbound_;
  Completions& completions_;
  Regions& regions_;
  Space& space_;
  const std::function<void()>& changed_;
  ResyncUser& user_;
  bool active_ = false, solo_ = false, known_ = false, told_ = false, told_unreadable_ = false;
  std::uint64_t run_ = 0;
  std::vector<std::uint64_t> words_;
  std::uint64_t unequal_ = 0, total_ = 0, cursor_ = 0;
  std::uint64_t map_at_ = 0;
  engine::Buffer map_;
  bool map_asked_ = false;
  LinkShare share_;       ///< a region has its part before it is locked and read
  unsigned marking_ = 0;  ///< unions that are on their way into this node's map
  std::vector<Copy*> copies_;
  std::map<std::uint64_t, Unreadable> unreadable_;  ///< by region
  std::vector<Op*> waiting_;
  ResyncGovernor governor_;
  RateLimit limit_;   ///< by the governor's rate
  ResyncPace& pace_;  ///< of all volumes
  engine::TimerId timer_ = engine::TimerId::none;
  engine::TimePoint began_, pause_until_;
};

}  // namespace lockstep::replication
