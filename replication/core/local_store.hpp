#pragma once
// This replica's own half of the volume: its data, its metadata, the locks on its ranges, and whether the store can be
// relied on. A failure is told to the user of the store (membership), never repaired here.
//
// Requires: the data and the metadata outlive every callback. Callers: the parts that read or write this node's store;
// what failed, and since when, is put right again by membership alone.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/disk.hpp"
#include "engine/locks/range_lock.hpp"
#include "engine/metadata/metadata_area.hpp"
#include "engine/seams/store.hpp"
#include "replication/core/indeterminate_extents.hpp"
#include "replication/core/standing.hpp"

namespace lockstep::replication {

/// What the store tells upwards.
class StoreUser {
 public:
  virtual ~StoreUser() = default;
  virtual void on_store_failed() = 0;  ///< for the first time: this replica has to leave
  virtual void on_metadata_failed(const std::string& why) = 0;
};

/// `done`, counted in `owed` until it runs.
template <class Done>
[[nodiscard]] auto counted(unsigned& owed, Done done) {
  ++owed;
  return [&owed, done = std::move(done)](const auto& outcome) mutable {
    --owed;
    done(outcome);
  };
}

/// Since the volume was attached here.
struct ReadErrors {
  std::uint64_t met = 0;        ///< reads that this node's store failed
  std::uint64_t rewritten = 0;  ///< ranges that it could not read and has again, with the partner's bytes
  bool operator==(const ReadErrors&) const = default;
};

struct LocalStore {
  /// While there is no space, it is asked for again this often (space.hpp).
  static constexpr engine::Duration kAskForSpaceAgain = std::chrono::seconds(10);

  LocalStore(StoreUser& user, const Standing& standing, const engine::Clock& clock, engine::DiskInfo info_in,
             engine::Store& data_in, std::unique_ptr<engine::MetadataArea> meta_in);
  ~LocalStore();

  engine::DiskInfo info;
  engine::Store& data;
  std::unique_ptr<engine::MetadataArea> meta;
  /// What is known of the partner and of the witness, durable or on its way there.
  engine::Knowledge known;
  engine::RangeLock locks;
  IndeterminateExtents indeterminate;
  /// From there on the two copies may hold different noise, under keys of their own; nothing: they do nowhere.
  std::optional<std::uint64_t> noise_from;
  /// The write cache was on at some time since this volume was attached: the stores may hold what was not flushed.
  bool was_cached = false;

  bool failed = false;
  bool may_return = false;  ///< it failed by its deadline or for want of space, and by nothing else since
  engine::TimePoint failed_at;
  engine::TimePoint returned_at;  ///< when the store last completed anything
  bool flush_failed = false;      ///< and what it lost no later flush brings back: the dirty bits stay, also alone
  std::string reason;             ///< of the failure, a sentence for a person
  ReadErrors read_errors;
  unsigned owed = 0;  ///< callbacks that no operation stands for

  [[nodiscard]] std::uint32_t region_size() const { return meta->identity().region_size; }
  [[nodiscard]] std::uint64_t volume_size() const { return meta->epoch().size; }
  /// The size that this replica's stores have room for: the volume's, or more while it grows.
  [[nodiscard]] std::uint64_t room() const { return meta->identity().size; }
  /// Of the volume; the dirty map may have more.
  [[nodiscard]] std::uint64_t region_count() const { return (volume_size() + region_size() - 1) / region_size(); }
  [[nodiscard]] engine::Extent region_extent(std::uint64_t region) const;
  /// The physical blocks that lie wholly in `extent`; none: an empty extent. A disk that is to write a part of one
  /// reads the rest first, and fails where it can't.
  [[nodiscard]] engine::Extent whole_blocks(engine::Extent extent) const;
  /// Those that it has a part of, as far as they are in `bounds`.
  [[nodiscard]] engine::Extent blocks_around(engine::Extent extent, engine::Extent bounds) const;
  [[nodiscard]] engine::Durability durability(bool fua) const {
    return fua || !info.write_cache ? engine::Durability::durable : engine::Durability::cached;
  }
  /// A new key makes noise of everything, which is written over from the start on.
  void note_new_key() { noise_from = 0; }
  /// Of a write that all members have; and of any that this store has, where another node orders.
  void note_written(engine::Extent extent);
  /// The copies are equal where no bit is set, and where one is they may hold different noise.
  [[nodiscard]] bool may_be_noise(std::uint64_t region) const {
    return noise_from && region_extent(region).end() > *noise_from;
  }
  /// The store completed something: it does not hang.
  void note_returned() { returned_at = clock_.now(); }
  /// The store can't be relied on any more: this replica leaves. For want of space it comes back by itself. Alone there
  /// is nobody to hand over to: each operation tells its own error.
  void fail(const std::string& why, std::error_code error = {});
  void fail_flush(std::error_code error);
  /// Alone: a store that refuses writes since a sync failed takes them again where nothing that was acknowledged was
  /// ever cached. Else a host could be told that what is lost was flushed.
  void go_on_alone();
  void fail_metadata(const std::string& why) { user_.on_metadata_failed(why); }
  /// Makes `known` durable; a failure is the metadata's. `done` runs only when it went well.
  void keep_knowledge(engine::Callback<> done = [] {});
  /// For a person; what to do.
  [[nodiscard]] std::string lack_of_space() const;
  [[nodiscard]] std::string why_it_refuses() const;

 private:
  StoreUser& user_;
  const Standing& standing_;
  const engine::Clock& clock_;
  bool told_refusal_ = false;
};

}  // namespace lockstep::replication
