#pragma once
// Space on thin stores: where it is known to be there, so that no member writes what another has no room for.
//
// Before a member writes what may take new space, it is set aside on every member; who has none refuses the write for
// all. What is known of that is one bit a region, for this node's store and, at the node that orders, for the
// partner's: in memory, since this process began. A bit is set when the region was found taken or was set aside, and
// forgotten where something is given back. A bit that is missing costs a question; none is set that must not be.
//
// Callers: the parts that write to a store or have it written; membership, with each tick.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "replication/core/local_store.hpp"
#include "replication/core/messages.hpp"

namespace lockstep::replication {

/// One bit a region; those never set are clear. Ranges are [from, to).
class RegionBits {
 public:
  void set(std::uint64_t from, std::uint64_t to);
  void clear(std::uint64_t from, std::uint64_t to);
  void clear() { words_.clear(); }
  [[nodiscard]] bool all(std::uint64_t from, std::uint64_t to) const;
  /// The first at or behind `from` that is clear.
  [[nodiscard]] std::uint64_t first_clear(std::uint64_t from) const;

 private:
  std::vector<std::uint64_t> words_;
};

class Space {
 public:
  /// While there is none, it is asked for again this often.
  static constexpr engine::Duration kAskAgain = LocalStore::kAskForSpaceAgain;

  Space(const engine::Clock& clock, const LocalStore& store, const std::function<void()>& changed)
      : clock_(clock), store_(store), changed_(changed) {}

  /// Such an operation may take space that was not taken before. None does on a volume that has all its space.
  [[nodiscard]] bool takes(engine::DiskOpcode opcode, bool may_unmap) const;
  [[nodiscard]] bool frees(engine::DiskOpcode opcode, bool may_unmap) const;

  /// A write there finds its space in this node's store, or need not ask.
  [[nodiscard]] bool is_here(engine::Extent extent) const;
  /// `extent` (known to be here) and what is known behind it without a gap: what the partner is told.
  [[nodiscard]] engine::Extent known_from(engine::Extent extent) const;
  /// … in the partner's, as it said.
  [[nodiscard]] bool is_there(engine::Extent extent) const;

  /// Sets space aside in this node's store for the regions of `extent`. no_space: there is none, nothing changed.
  void reserve(engine::Extent extent, engine::IoCallback done);
  /// The same, and at once where it is known to be there.
  void ensure(engine::Extent extent, engine::IoCallback done);

  /// What is learned of the space of regions counts only if nothing was given back since the question: the moment of
  /// the question, for note_there(). 0: something is being given back.
  [[nodiscard]] std::uint64_t moment() const { return freeing_ ? 0 : freed_ + 1; }
  /// The regions of `extent`: what the partner is asked for.
  [[nodiscard]] engine::Extent around(engine::Extent extent) const;
  /// The partner's answer to a question of `moment`: all of `extent` has its space there.
  void note_there(engine::Extent extent, std::uint64_t moment);
  void note_partner_full() { partner_full_ = true; }
  /// It had none when it was last asked: ask it first, so that nothing is set aside here in vain.
  [[nodiscard]] bool partner_was_full() const { return partner_full_; }

  /// Something there is being given back, on both members; each begin has its end.
  void begin_freeing(engine::Extent extent);
  void end_freeing() { --freeing_, ++freed_; }

  /// The partner may be another process by now, or this node no longer the one that orders.
  void forget_partner() { there_.clear(), partner_full_ = false; }
  /// A new epoch: perhaps of another size.
  void begin_epoch();

  /// Asks again while there was none.
  void tick();
  [[nodiscard]] bool idle() const { return !asking_again_; }
  /// This node's store had no space when it was last asked.
  [[nodiscard]] bool lacking() const { return lacking_.has_value(); }

 private:
  struct Question;
  void set_aside(std::unique_ptr<Question> question);
  void answer(std::unique_ptr<Question> question, std::error_code error);
  void note_inside(RegionBits& bits, engine::Extent extent) const;
  [[nodiscard]] bool has_all(const RegionBits& bits, engine::Extent extent) const;

  const engine::Clock& clock_;
  const LocalStore& store_;
  const std::function<void()>& changed_;
  RegionBits here_, there_;
  std::uint64_t size_ = 0;  ///< of the volume, to which the bits belong
  std::uint64_t freed_ = 0;
  unsigned freeing_ = 0;
  bool partner_full_ = false;
  std::optional<engine::Extent> lacking_;  ///< one region that found no space
  engine::TimePoint asked_;
  bool asking_again_ = false;
};

}  // namespace lockstep::replication
