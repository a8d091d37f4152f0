#pragma once
// PDUs on their way out as RDMA sends: each is put together in a slot of registered memory, or in the post itself where
// it is short, and is done when its completion is seen. Data that does not fit in there leaves from where it lies, if
// that is registered. Of a protected connection it is encrypted on its way there, to a buffer where it does not fit.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <boost/circular_buffer.hpp>

#include "engine/iscsi/pdu_sender.hpp"
#include "engine/iser/figures.hpp"
#include "engine/iser/format.hpp"
#include "engine/iser/protection.hpp"
#include "engine/iser/shape.hpp"
#include "engine/runtime/buffer_pool.hpp"

namespace lockstep::iser {

class SendQueue final : public iscsi::PduSender {
 public:
  /// `protection`: of a connection that is protected; it outlives this. `buffers` are for what is encrypted, then.
  SendQueue(iscsi::OutPduPool& pool, Figures& figures, const Shape& shape, engine::BufferPool& buffers,
            Protection* protection)
      : PduSender(pool), figures_(figures), shape_(shape), buffers_(buffers), protection_(protection) {}

  /// Before the first post. `memory` has the shape's bytes for sends, in an arena.
  void start(rdma::QueuePair& pair, std::span<std::byte> memory);
  /// A message of the handshake, at most Shape::kLong bytes. False: the one before has not left yet.
  [[nodiscard]] bool post_bytes(std::span<const std::byte> bytes);

  // PduSender
  void push(iscsi::OutPdu& pdu) override;
  void push_ahead(iscsi::OutPdu& pdu) override;

  /// Something is longer than any answer may be: nothing is sent from there on.
  [[nodiscard]] bool overrun() const { return overrun_; }
  /// Posts what there is room for.
  void post();
  /// What is next had no buffer to be encrypted to.
  [[nodiscard]] bool starved() const { return starved_; }
  /// Something can't be posted before the completion of what was.
  [[nodiscard]] bool is_full() const { return first_ != nullptr || !has_room(); }
  /// What was posted is done.
  [[nodiscard]] bool is_silent() const { return posted_.empty(); }
  /// Everything was posted, and is done.
  [[nodiscard]] bool idle() const { return first_ == nullptr && posted_.empty(); }
  /// Whether one more read or write may be posted, so that sends have room left.
  [[nodiscard]] bool has_room() const { return work() < shape_.work / 2; }
  /// The same for what goes ahead of all others: a request with two windows.
  [[nodiscard]] bool has_room_ahead() const { return work() + 2 < shape_.work - shape_.windows; }
  void read(std::span<std::byte> into, const rdma::Remote& from, std::uint64_t id);
  void read_over();
  /// Memory that the peer may read, or write to, from the next PDU on. The peer's answer shuts it, or hide().
  [[nodiscard]] rdma::Remote expose(std::span<std::byte> memory, rdma::Access access);
  /// There always is room for that.
  void hide(std::uint32_t key, std::uint64_t id);
  void hide_over() { read_over(); }
  /// Is over when a PDU is done that was pushed afterwards.
  void write(std::span<const std::byte> from, const rdma::Remote& to);
  /// A send was completed, and all before it. The bytes that they had, with those that were written before them.
  std::size_t completed(std::uint64_t id);
  /// How often all was done that had been posted the time before. A message is taken whole or not at all: who takes
  /// short ones all the time is to be known from who takes none.
  [[nodiscard]] std::uint64_t rounds() const { return rounds_; }
  /// Nothing reads any memory any more. Once, after start().
  void drop();

 private:
  static constexpr std::uint16_t kNoSlot = 0xFFFF, kLongSlot = 0xFFFE;
  static constexpr std::size_t kMostInline = 256;  // bytes
  struct Posted {
    std::uint64_t id = 0;
    iscsi::OutPdu* pdu = nullptr;  // null: of the handshake
    std::size_t writes = 0;        // posted before it
    std::size_t written = 0;       // by these, bytes
    std::uint32_t bytes = 0;
    std::uint16_t slot = kNoSlot;
    engine::Buffer data;  // encrypted, where it does not fit into the slot
  };

  [[nodiscard]] std::size_t work() const { return posted_.size() + writes_ + reads_; }
  /// After each change of work().
  void count_work();
  [[nodiscard]] bool post(iscsi::OutPdu& pdu);
  void seal(iscsi::OutPdu& pdu, std::span<std::byte> together, std::span<std::byte> beside);
  void send(Posted posted, std::span<const std::span<const std::byte>> pieces);
  [[nodiscard]] bool stays_in_place(const iscsi::OutPdu& pdu, std::size_t bytes) const;
  [[nodiscard]] std::uint16_t take_slot(std::size_t bytes);
  static void put_together(iscsi::OutPdu& pdu, bool in_place, std::span<std::byte> place);
  [[nodiscard]] std::span<std::byte> slot_memory(std::uint16_t slot) const;
  void end(Posted posted, bool sent);

  Figures& figures_;
  Shape shape_;
  engine::BufferPool& buffers_;
  Protection* protection_;
  rdma::QueuePair* pair_ = nullptr;
  std::span<std::byte> memory_;
  std::vector<std::uint16_t> free_slots_;
  bool long_is_free_ = true;
  bool overrun_ = false;
  bool starved_ = false;
  iscsi::OutPdu* first_ = nullptr;
  iscsi::OutPdu* last_ = nullptr;
  boost::circular_buffer<Posted> posted_;
  std::size_t writes_ = 0;       // posted and not known to be over
  std::size_t new_writes_ = 0;   // of those, with no send after them yet
  std::size_t new_written_ = 0;  // by these, bytes
  std::size_t reads_ = 0;        // and memory that is being hidden: what has a completion of its own
  std::size_t counted_ = 0;      // of work(), in the figures
  std::uint64_t last_id_ = 0;
  std::uint64_t rounds_ = 0, round_ = 0;  // the last id of the one that goes on
};

}  // namespace lockstep::iser
