#pragma once
// The memory of a reactor's connections for messages: a pool of its own, so that it is nobody else's when it runs
// short, and an account of it. Each connection has a floor that is kept for it from its beginning to its end; what is
// beyond all floors is for those that are busy. A connection that nobody has let in yet has a small floor, and all of
// these have a quarter of the memory at most: strangers can't take what sessions live by.
#include <cstddef>
#include <cstdint>

#include "engine/runtime/buffer_pool.hpp"

namespace lockstep::iser {

class MessageMemory {
 public:
  static constexpr std::size_t kData = 8192;           ///< bytes of one message's data
  static constexpr std::uint32_t kStrangersFloor = 4;  ///< messages, before the session stands

  /// One connection's part.
  class Account {
   public:
    /// `slots`: bytes of the connection's headers and of what it sends.
    Account(MessageMemory& memory, std::size_t slots)
        : memory_(memory), slots_(engine::BufferPool::block_size(slots)) {}
    ~Account() { close(); }
    Account(const Account&) = delete;
    Account& operator=(const Account&) = delete;

    /// Its slots and a stranger's floor. False: there is no room for one more.
    [[nodiscard]] bool open();
    /// A session has its floor and is no stranger. False: there is no room for that.
    [[nodiscard]] bool raise_floor(std::uint32_t messages);
    [[nodiscard]] engine::Buffer take_slots() { return memory_.pool_.allocate(slots_); }
    /// Empty: it has its floor, and nothing is left beyond the floors.
    [[nodiscard]] engine::Buffer take();
    /// A buffer that take() gave is in the pool again, or will be.
    void give_back();
    void close();
    [[nodiscard]] bool is_beyond_floor() const { return used_ > floor_; }
    [[nodiscard]] bool is_below_floor() const { return used_ < floor_; }

   private:
    [[nodiscard]] std::size_t as_stranger() const { return slots_ + kStrangersFloor * kData; }

    MessageMemory& memory_;
    std::size_t slots_;
    std::uint32_t floor_ = 0, used_ = 0;
    bool open_ = false, stranger_ = true;
  };

  explicit MessageMemory(engine::BufferPool& pool) : pool_(pool), limit_(pool.capacity()) {}

  /// Three quarters are taken, be it by promise: connections give back what they have beyond their floor.
  [[nodiscard]] bool is_short() const { return committed_ > limit_ / 4 * 3; }
  [[nodiscard]] std::size_t committed() const { return committed_; }  ///< bytes, of floors and beyond them
  [[nodiscard]] std::size_t limit() const { return limit_; }
  /// Lowers it.
  void set_limit(std::size_t bytes) { limit_ = bytes; }

 private:
  [[nodiscard]] bool commit(std::size_t bytes);

  engine::BufferPool& pool_;
  std::size_t limit_;
  std::size_t committed_ = 0;
  std::size_t strangers_ = 0;  // of that, bytes
};

}  // namespace lockstep::iser
