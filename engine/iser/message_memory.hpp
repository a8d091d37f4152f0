#pragma once
// The memory of a reactor's connections for messages: a pool of its own, so that it is nobody else's when it runs
// short, and an account of it. Each connection has a floor that is kept for it from its beginning to its end; what is
// beyond all floors is for those that are busy. A connection that nobody has let in yet has a small floor, and all of
// these have a quarter of the memory at most: strangers can't take what sessions live by.
//
// Nor can one address take what the others live by. Let F be what is free of a part once something is granted: of the
// quarter for strangers; of the other three, for sessions. An address has at most 2 F of it; but its first stranger,
// and its first session's floor, it gets while there is memory at all. So one address fills two thirds of a part, the
// next one two thirds of what is left, and where all are greedy they share alike.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "engine/runtime/buffer_pool.hpp"

namespace lockstep::iser {

class MessageMemory {
  struct Host {
    std::size_t strangers = 0, sessions = 0;  // bytes
    std::size_t connections = 0;
  };

 public:
  static constexpr std::size_t kData = 8192;           ///< bytes of one message's data
  static constexpr std::uint32_t kStrangersFloor = 4;  ///< messages, before the session stands

  /// For one more.
  enum class Room : std::uint8_t {
    there,
    taken,       ///< by others
    over_share,  ///< its address would have more than its share
  };

  /// One connection's part.
  class Account {
   public:
    /// `slots`: bytes of the connection's headers and of what it sends. `address`: the host's; empty: there are no
    /// shares, it may have whatever is there.
    Account(MessageMemory& memory, std::size_t slots, std::string address)
        : memory_(memory), slots_(engine::BufferPool::block_size(slots)), address_(std::move(address)) {}
    ~Account() { close(); }
    Account(const Account&) = delete;
    Account& operator=(const Account&) = delete;

    /// Its slots and a stranger's floor. Else nothing was taken.
    [[nodiscard]] Room open();
    /// A session has its floor and is no stranger. Else nothing has changed.
    [[nodiscard]] Room raise_floor(std::uint32_t messages);
    [[nodiscard]] engine::Buffer take_slots() { return memory_.pool_.allocate(slots_); }
    /// Empty: it has its floor, and nothing is left beyond the floors.
    [[nodiscard]] engine::Buffer take();
    /// A buffer that take() gave is in the pool again, or will be.
    void give_back();
    void close();
    /// It may have one more message beyond its floor, for good.
    [[nodiscard]] bool may_grow() const;
    /// It is to give back what it has beyond its floor: memory is short, or its address has more than its share.
    [[nodiscard]] bool is_to_shrink() const;
    [[nodiscard]] bool is_below_floor() const { return used_ < floor_; }

   private:
    [[nodiscard]] std::size_t as_stranger() const { return slots_ + kStrangersFloor * kData; }
    void add(std::size_t bytes);
    void subtract(std::size_t bytes);

    MessageMemory& memory_;
    std::size_t slots_;
    std::string address_;
    Host* host_ = nullptr;  // while it is open and there are shares
    std::uint32_t floor_ = 0, used_ = 0;
    bool open_ = false, stranger_ = true;
  };

  explicit MessageMemory(engine::BufferPool& pool) : pool_(pool), limit_(pool.capacity()) {}

  /// Of a connection from `address` that stands and has a stranger's floor: for a session of `messages` at first.
  [[nodiscard]] Room room_for_session(const std::string& address, std::size_t slots, std::uint32_t messages) const;
  /// Three quarters are taken, be it by promise: connections give back what they have beyond their floor.
  [[nodiscard]] bool is_short() const { return committed_ > limit_ / 4 * 3; }
  [[nodiscard]] std::size_t committed() const { return committed_; }  ///< bytes, of floors and beyond them
  [[nodiscard]] std::size_t limit() const { return limit_; }
  /// Lowers it.
  void set_limit(std::size_t bytes) { limit_ = bytes; }

 private:
  [[nodiscard]] const Host* host_of(const std::string& address) const;
  [[nodiscard]] bool has(std::size_t bytes) const { return committed_ + bytes <= limit_; }
  [[nodiscard]] Room room_for_stranger(const Host* host, std::size_t bytes) const;
  [[nodiscard]] bool is_within_share(const Host& host, std::size_t bytes) const;

  engine::BufferPool& pool_;
  std::size_t limit_;
  std::size_t committed_ = 0;
  std::size_t strangers_ = 0;          // of that, bytes
  std::map<std::string, Host> hosts_;  // that have a connection, by address
};

}  // namespace lockstep::iser
