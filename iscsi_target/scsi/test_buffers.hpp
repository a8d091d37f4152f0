#pragma once
// The memory of a logical unit that WRITE BUFFER fills and READ BUFFER gives back, for tests of the way there (SPC-4
// 6.18, 6.49). It has nothing to do with the medium. Two buffers a unit and node, however many nexuses there are: one
// is everybody's, the echo buffer belongs to the nexus that wrote it last. Used on any thread.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace lockstep::iscsi_target {

class TestBuffers {
 public:
  static constexpr std::size_t kSize = 4096;  ///< bytes, of each; an echo buffer may not be larger

  /// [offset, offset + size) lies within the buffer.
  void write_data(std::size_t offset, std::span<const std::byte> bytes);
  void read_data(std::size_t offset, std::span<std::byte> into) const;

  /// At most kSize bytes. `nexus` is its identifier, which no other has in this process.
  void write_echo(std::uint64_t nexus, std::span<const std::byte> bytes);
  /// How many bytes `nexus` wrote, and the bytes, to the front of `into` (kSize). Nothing when another wrote last.
  [[nodiscard]] std::optional<std::size_t> read_echo(std::uint64_t nexus, std::span<std::byte> into) const;

 private:
  mutable std::atomic_flag busy_;
  std::array<std::byte, kSize> data_{};
  std::array<std::byte, kSize> echo_{};
  std::size_t echo_size_ = 0;
  std::uint64_t echo_nexus_ = 0;
};

}  // namespace lockstep::iscsi_target
