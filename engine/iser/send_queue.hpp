#pragma once
// PDUs on their way out as RDMA sends: each is put together in a slot of registered memory, or in the post itself where
// it is short, and is done when its completion is seen. Data that does not fit in there leaves from where it lies, if
// that is registered.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <boost/circular_buffer.hpp>

#include "engine/iscsi/pdu_sender.hpp"
#include "engine/iser/figures.hpp"
#include "engine/iser/format.hpp"
#include "engine/iser/shape.hpp"

namespace lockstep::iser {

class SendQueue final : public iscsi::PduSender {
 public:
  SendQueue(iscsi::OutPduPool& pool, Figures& figures, const Shape& shape)
      : PduSender(pool), figures_(figures), shape_(shape) {}

  /// Before the first post. `memory` has the shape's bytes for sends, in an arena.
  void start(rdma::QueuePair& pair, std::span<std::byte> memory);

  // PduSender
  void push(iscsi::OutPdu& pdu) override;
  void push_ahead(iscsi::OutPdu& pdu) override;

  /// Something is longer than any answer may be: nothing is sent from there on.
  [[nodiscard]] bool overrun() const { return overrun_; }
  /// Posts what there is room for.
  void post();
  /// Everything was posted, and is done.
  [[nodiscard]] bool idle() const { return first_ == nullptr && posted_.empty(); }
  /// Whether one more read or write may be posted, so that sends have room left.
  [[nodiscard]] bool has_room() const { return work() < shape_.work / 2; }
  /// The same for what goes ahead of all others: a request with two windows.
  [[nodiscard]] bool has_room_ahead() const { return work() + 2 < shape_.work - shape_.windows; }
  void read(std::span<std::byte> into, const rdma::Remote& from, std::uint64_t id);
  void read_over() { --reads_; }
  /// Memory that the peer may read, or write to, from the next PDU on. The peer's answer shuts it, or hide().
  [[nodiscard]] rdma::Remote expose(std::span<std::byte> memory, rdma::Access access);
  /// There always is room for that.
  void hide(std::uint32_t key, std::uint64_t id);
  void hide_over() { --reads_; }
  /// Is over when a PDU is done that was pushed afterwards.
  void write(std::span<const std::byte> from, const rdma::Remote& to);
  /// A send was completed, and all before it. The bytes that they had.
  std::size_t completed(std::uint64_t id);
  /// Nothing reads any memory any more.
  void drop();

 private:
  static constexpr std::uint16_t kNoSlot = 0xFFFF, kLongSlot = 0xFFFE;
  static constexpr std::size_t kMostInline = 256;  // bytes
  struct Posted {
    std::uint64_t id = 0;
    iscsi::OutPdu* pdu = nullptr;
    std::size_t writes = 0;  // posted before it
    std::uint32_t bytes = 0;
    std::uint16_t slot = kNoSlot;
  };

  [[nodiscard]] std::size_t work() const { return posted_.size() + writes_ + reads_; }
  [[nodiscard]] bool post(iscsi::OutPdu& pdu);
  [[nodiscard]] bool stays_in_place(const iscsi::OutPdu& pdu, std::size_t bytes) const;
  [[nodiscard]] std::uint16_t take_slot(std::size_t bytes);
  static void put_together(iscsi::OutPdu& pdu, bool in_place, std::span<std::byte> place);
  [[nodiscard]] std::span<std::byte> slot_memory(std::uint16_t slot) const;
  void end(const Posted& posted, bool sent);

  Figures& figures_;
  Shape shape_;
  rdma::QueuePair* pair_ = nullptr;
  std::span<std::byte> memory_;
  std::vector<std::uint16_t> free_slots_;
  bool long_is_free_ = true;
  bool overrun_ = false;
  iscsi::OutPdu* first_ = nullptr;
  iscsi::OutPdu* last_ = nullptr;
  boost::circular_buffer<Posted> posted_;
  std::size_t writes_ = 0;      // posted and not known to be over
  std::size_t new_writes_ = 0;  // of those, with no send after them yet
  std::size_t reads_ = 0;       // and memory that is being hidden: what has a completion of its own
  std::uint64_t last_id_ = 0;
};

}  // namespace lockstep::iser
