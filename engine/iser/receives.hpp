#pragma once
// The receives of a connection. Each takes one message: its headers in a slot, its data at the beginning of a pool
// buffer, which whoever wants the data takes with it. As many are posted as the peer was promised commands, and some
// for what it may send unasked, so that no message ever finds none. They grow with use: an idle connection holds few.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/iser/format.hpp"
#include "engine/runtime/buffer_pool.hpp"

namespace lockstep::iser {

/// What the connections of a reactor may hold of its pool for messages, be they posted, or handed on and not given
/// back. Beyond it windows narrow, and new connections are refused: so that commands never lack the memory that they
/// wait for while they hold some of this.
struct ReceiveBudget {
  std::size_t limit = 0;  ///< bytes
  std::size_t used = 0;
};

class Receives {
 public:
  static constexpr std::size_t kData = 8192;     ///< bytes of data that come with a PDU
  static constexpr std::uint32_t kUnasked = 10;  ///< immediate commands, and what stands outside the window
  static constexpr std::uint32_t kFirst = 4 + kUnasked;
  static constexpr std::uint32_t kMost = 126 + kUnasked;
  static constexpr std::size_t kSlot = 128;  ///< bytes
  static constexpr std::size_t kMemory = kSlot * kMost;

  Receives(engine::BufferPool& pool, ReceiveBudget& budget) : pool_(pool), budget_(budget) {}
  ~Receives();
  Receives(const Receives&) = delete;
  Receives& operator=(const Receives&) = delete;

  /// Before the first post. `memory` has kMemory bytes of an arena. False: there is no memory for what has to be there.
  [[nodiscard]] bool start(std::span<std::byte> memory);
  void post_all(rdma::QueuePair& pair);

  /// A message came in `slot`, which is its holder's until post().
  void came(std::uint32_t slot);
  [[nodiscard]] std::span<std::byte> headers(std::uint32_t slot) const;
  [[nodiscard]] std::span<std::byte> data(std::uint32_t slot) const { return data_[slot].span(); }
  /// The data's buffer, which counts until give_back().
  [[nodiscard]] engine::Buffer take(std::uint32_t slot) { return std::move(data_[slot]); }
  void give_back() { budget_.used -= kData; }
  /// Its holder has done with it. Without memory it waits for post_starved().
  void post(std::uint32_t slot);
  /// True while some wait for memory.
  [[nodiscard]] bool starved() const { return !starved_.empty(); }
  void post_starved();
  /// One more, up to the most.
  void grow();

  [[nodiscard]] std::uint32_t posted() const { return posted_; }

 private:
  [[nodiscard]] bool try_post(std::uint32_t slot);
  [[nodiscard]] engine::Buffer allocate();

  engine::BufferPool& pool_;
  ReceiveBudget& budget_;
  rdma::QueuePair* pair_ = nullptr;
  std::span<std::byte> memory_;
  std::vector<engine::Buffer> data_;  // by slot; as many as there are
  std::vector<std::uint32_t> starved_;
  std::uint32_t posted_ = 0;
};

}  // namespace lockstep::iser
