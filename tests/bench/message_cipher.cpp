// What encrypting a message of the link over RDMA costs: sealed into other memory, opened where it lies, beside a copy
// of the same bytes.
#include "engine/encryption/message_cipher.hpp"

#include <array>
#include <chrono>
#include <cstring>
#include <vector>

#include <fmt/format.h>

namespace {

using lockstep::engine::MessageCipher;
using Clock = std::chrono::steady_clock;

constexpr std::array<std::size_t, 6> kSizes{116, 512, 4096 + 320, 8192 + 320, 65'536, 1 << 20};
constexpr auto kEach = std::chrono::milliseconds(300);

/// Nanoseconds of one call.
template <class Work>
double time_of(Work work) {
  std::uint64_t calls = 0;
  const auto begun = Clock::now();
  auto now = begun;
  for (; now - begun < kEach; now = Clock::now()) {
    for (int i = 0; i < 16; ++i) work();
    calls += 16;
  }
  return std::chrono::duration<double, std::nano>(now - begun).count() / static_cast<double>(calls);
}

void measure(std::size_t size) {
  const MessageCipher::Secret secret;
  auto seals = *MessageCipher::make(MessageCipher::Direction::seals, secret, 1 << 15);
  auto opens = *MessageCipher::make(MessageCipher::Direction::opens, secret, 1 << 15);
  std::vector<std::byte> plain(size, std::byte{7}), sealed(size);
  MessageCipher::Tag tag;
  std::uint64_t number = 0;
  const double copy = time_of([&] { std::memcpy(sealed.data(), plain.data(), size); });
  const double seal = time_of([&] { seals.seal(++number, std::array{MessageCipher::Piece{plain, sealed}}, tag); });
  // What it is opened to is not what was sealed from the second time on, which takes as long.
  const double open = time_of([&] { (void)opens.open(number, std::array{MessageCipher::Piece{sealed, sealed}}, tag); });
  const auto rate = [size](double nanoseconds) { return static_cast<double>(size) / nanoseconds; };
  fmt::print("| {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} |\n", size, copy / 1000, seal / 1000, open / 1000,
             rate(seal), rate(open));
}

}  // namespace

int main() {
  fmt::print(
      "| bytes | copied, us | sealed, us | opened, us | GB/s sealed | GB/s opened |\n| --- | --- | --- | --- | --- | "
      "--- |\n");
  for (const std::size_t size : kSizes) measure(size);
}
