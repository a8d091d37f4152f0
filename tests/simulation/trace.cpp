#include "tests/simulation/trace.hpp"

#include <bit>
#include <cstring>

namespace lockstep::simulation {

std::uint64_t hash_bytes(std::span<const std::byte> bytes) {
  std::uint64_t a = 0x9e3779b97f4a7c15u ^ bytes.size();
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    a = std::rotl(a ^ word, 23) * 0xd6e8feb86659fd93u;
  }
  for (; i < bytes.size(); ++i) a = (a ^ static_cast<std::uint64_t>(bytes[i])) * 0x100000001b3u;
  return a ^ (a >> 32);
}

void Trace::mix(std::uint64_t value) { hash_ = (std::rotl(hash_, 5) ^ value) * 0x9fb21c651e98df25u; }

void Trace::add(char node, std::string_view what, std::initializer_list<Field> fields) {
  ++events_;
  mix(now_ ^ (static_cast<std::uint64_t>(node) << 56));
  mix(hash_bytes(std::as_bytes(std::span(what.data(), what.size()))));
  for (const Field& f : fields) mix(f.value);
  if (out_ == nullptr) return;
  std::fprintf(out_, "%12.6f %c %-22.*s", static_cast<double>(now_) / 1e9, node, static_cast<int>(what.size()),
               what.data());
  for (const Field& f : fields) {
    if (std::strcmp(f.name, "hash") == 0) {
      std::fprintf(out_, " hash=%08llx", static_cast<unsigned long long>(f.value & 0xffffffffu));
    } else {
      std::fprintf(out_, " %s=%llu", f.name, static_cast<unsigned long long>(f.value));
    }
  }
  std::fputc('\n', out_);
}

void Trace::note(char node, const std::string& text) {
  if (out_ == nullptr) return;
  std::fprintf(out_, "%12.6f %c   %s\n", static_cast<double>(now_) / 1e9, node, text.c_str());
}

}  // namespace lockstep::simulation
