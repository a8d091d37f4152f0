#pragma once
// One volume's way out to the partner: whether it may be used, what every request on it says, and the numbers of the
// volume's writes, whose watermark every request carries.
//
// Requires: the partner outlives it. Callers: every part that asks the partner for something; membership alone says
// that the way is ready, or is not any more.
#include "replication/core/local_store.hpp"
#include "replication/core/messages.hpp"
#include "replication/core/partner.hpp"
#include "replication/core/sequences.hpp"

namespace lockstep::replication {

class Outbound {
 public:
  Outbound(Partner& partner, const LocalStore& store, engine::TimePoint now)
      : sequences(numbers_begin_at(now)), partner_(partner), store_(store) {}

  bool ready = false;  ///< states were exchanged on this way out: the old one's work there is over
  unsigned owed = 0;   ///< answers of the partner's that no operation stands for
  Sequences sequences;

  /// A request about this volume, with epoch and watermark filled in.
  [[nodiscard]] Message message(MessageType type) const;
  /// Orders may be sent by reference, and forwards be answered early.
  [[nodiscard]] bool refers() const { return partner_.link_version() >= kOrdersByReference; }
  /// Of an order or a forward. Durability is this node's word, where the write cache is off already: the other may not
  /// have heard of it yet.
  [[nodiscard]] std::uint16_t flags_of(const Op& op) const;
  template <class Done>
  void send(const Message& message, std::span<const std::byte> out, std::span<std::byte> in, Done done) {
    partner_.send(message, out, in, std::move(done));
  }

 private:
  Partner& partner_;
  const LocalStore& store_;
};

}  // namespace lockstep::replication
