#pragma once
// The receives of a connection. Each takes one message: its headers in a slot, its data at the beginning of a pool
// buffer, which whoever wants the data takes with it. As many are posted as the peer was promised commands, and some
// for what it may send unasked, so that no message ever finds none. They grow with use, and shrink when memory is
// short.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/iser/format.hpp"
#include "engine/iser/message_memory.hpp"
#include "engine/iser/shape.hpp"

namespace lockstep::iser {

class Receives {
 public:
  static constexpr std::size_t kData = MessageMemory::kData;

  /// `address`: whose share it is in; empty: in none (message_memory.hpp).
  Receives(MessageMemory& memory, const Shape& shape, std::string address)
      : shape_(shape), account_(memory, shape.memory(), std::move(address)) {}
  ~Receives();
  Receives(const Receives&) = delete;
  Receives& operator=(const Receives&) = delete;

  /// Room for a stranger's, and the connection's slots. Empty: there is none.
  [[nodiscard]] engine::Buffer reserve();
  /// `memory` has the shape's bytes for receives, of those slots.
  void start(rdma::QueuePair& pair, std::span<std::byte> memory);
  /// A session has begun, with `at_once` receives if memory is not short. Else there is no room for its first.
  [[nodiscard]] MessageMemory::Room open_session(std::uint32_t at_once);

  /// A message came in `slot`, which is its holder's until post() or put_away().
  void came(std::uint32_t slot);
  [[nodiscard]] std::span<std::byte> headers(std::uint32_t slot) const;
  [[nodiscard]] std::span<std::byte> data(std::uint32_t slot) const { return data_[slot].span(); }
  /// The data's buffer, which counts until give_back().
  [[nodiscard]] engine::Buffer take(std::uint32_t slot) { return std::move(data_[slot]); }
  void give_back();
  /// The same after the connection's end.
  void forget_one() { account_.give_back(); }
  /// Its holder has done with it. Without memory it waits.
  void post(std::uint32_t slot);
  /// The same of a command, which used up a place in the window: it is posted again unless memory is short, or its
  /// address has more than its share. With memory there is another one, up to the most.
  void post_after_command(std::uint32_t slot);
  /// True while some wait for memory.
  [[nodiscard]] bool starved() const { return !starved_.empty(); }
  void post_starved();

  [[nodiscard]] std::uint32_t posted() const { return posted_; }
  /// Of those that are posted, how many are for what comes unasked. Before a session stands one is for what was asked,
  /// and one is being answered.
  [[nodiscard]] std::uint32_t for_unasked() const {
    return in_session_ ? Shape::kUnasked : MessageMemory::kStrangersFloor - 2;
  }

 private:
  [[nodiscard]] bool try_post(std::uint32_t slot);
  void have(std::uint32_t messages);
  void put_away(std::uint32_t slot);
  void grow();

  Shape shape_;
  MessageMemory::Account account_;
  rdma::QueuePair* pair_ = nullptr;
  std::span<std::byte> memory_;
  std::vector<engine::Buffer> data_;  // by slot; as many as there are
  std::vector<std::uint32_t> starved_, unused_;
  std::uint32_t posted_ = 0;
  bool in_session_ = false;
};

}  // namespace lockstep::iser
