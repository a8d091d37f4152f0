#include "engine/seams/random.hpp"

#include "engine/base/byte_order.hpp"

namespace lockstep::engine {

Uuid Random::uuid() {
  Uuid id;
  store_be<std::uint64_t>(id.bytes.data(), next());
  store_be<std::uint64_t>(id.bytes.data() + 8, next());
  id.bytes[6] = static_cast<std::uint8_t>((id.bytes[6] & 0x0F) | 0x40);  // version 4, RFC 9562 5.4
  id.bytes[8] = static_cast<std::uint8_t>((id.bytes[8] & 0x3F) | 0x80);  // variant 10
  return id;
}

}  // namespace lockstep::engine
