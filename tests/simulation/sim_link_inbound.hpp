#pragma once
// A request at the receiver of a simulated link; for sim_link.cpp and sim_link_rdma.cpp alone.
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/simulation/sim_link.hpp"

namespace lockstep::simulation {

/// A request at the receiver. Its memory is poisoned once it is answered.
class SimLink::Inbound final : public replication::InboundRequest {
  static constexpr std::byte kPoison{0xdd};

 public:
  explicit Inbound(SimLink& link) : link_(link) {}
  ~Inbound() override { std::free(memory_); }
  [[nodiscard]] std::span<const std::byte> header() const override { return {header_.data(), header_bytes_}; }
  [[nodiscard]] std::span<std::byte> payload() const override { return {memory_, payload_bytes_}; }
  [[nodiscard]] std::size_t max_answer_payload() const override { return answer_room_; }
  void answer(std::span<const std::byte> header, std::span<const std::byte> payload, engine::Callback<> sent) override {
    link_.answer(*this, header, payload, std::move(sent));
  }
  void answer_early(std::span<const std::byte> header) override { link_.answer_early(*this, header); }

  void take(const Packet& packet) {
    if (packet.payload.size() > capacity_) {
      std::free(memory_);
      capacity_ = (packet.payload.size() + 4095) / 4096 * 4096;
      memory_ = static_cast<std::byte*>(std::aligned_alloc(4096, capacity_));
    }
    counts_ = !packet.goes_ahead;
    payload_bytes_ = packet.payload.size();
    if (payload_bytes_ != 0) std::memcpy(memory_, packet.payload.data(), payload_bytes_);
    header_bytes_ = packet.header_bytes;
    std::memcpy(header_.data(), packet.header.data(), header_bytes_);
    answer_room_ = packet.answer_room;
    slot_ = packet.slot;
    tagged_ = packet.tagged;
    seal_ = static_cast<std::uint32_t>(packet.hash);
    generation_ = packet.generation;
    session_ = packet.session;
    live_ = true;
    answered_ = false;
  }
  void poison() {
    live_ = false;
    if (payload_bytes_ != 0) std::memset(memory_, static_cast<int>(kPoison), payload_bytes_);
    std::memset(header_.data(), static_cast<int>(kPoison), header_.size());
  }

  SimLink& link_;
  std::byte* memory_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t payload_bytes_ = 0;
  std::size_t header_bytes_ = 0;
  std::array<std::byte, replication::kMaxLinkHeader> header_{};
  std::size_t answer_room_ = 0;
  std::uint32_t slot_ = 0;
  iser::Tagged tagged_;
  std::uint32_t seal_ = 0;
  std::uint32_t generation_ = 0;
  std::uint64_t session_ = 0;
  bool counts_ = false;  ///< in the receiver's window
  bool live_ = false;
  bool answered_ = false;  ///< early
};

}  // namespace lockstep::simulation
