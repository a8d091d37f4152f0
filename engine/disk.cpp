#include "engine/disk.hpp"

#include "engine/base/byte_order.hpp"

namespace lockstep::engine {

RunBytes encode(const Run& run) {
  RunBytes bytes{};
  store_be<std::uint64_t>(bytes.data(), run.length);
  bytes[8] = std::byte{run.hole};
  return bytes;
}

Run decode_run(std::span<const std::byte> bytes) {
  if (bytes.size() != kRunSize || bytes[8] > std::byte{1}) return {};
  return {load_be<std::uint64_t>(bytes.data()), bytes[8] == std::byte{1}};
}

}  // namespace lockstep::engine
