#include "iscsi_target/scsi/test_buffers.hpp"

#include <algorithm>
#include <cassert>

#include "iscsi_target/scsi/published.hpp"

namespace lockstep::iscsi_target {

void TestBuffers::write_data(std::size_t offset, std::span<const std::byte> bytes) {
  assert(offset <= kSize && bytes.size() <= kSize - offset);
  const Turn turn(busy_);
  std::ranges::copy(bytes, data_.begin() + static_cast<std::ptrdiff_t>(offset));
}

void TestBuffers::read_data(std::size_t offset, std::span<std::byte> into) const {
  assert(offset <= kSize && into.size() <= kSize - offset);
  const Turn turn(busy_);
  std::ranges::copy(std::span(data_).subspan(offset, into.size()), into.begin());
}

void TestBuffers::write_echo(std::uint64_t nexus, std::span<const std::byte> bytes) {
  assert(bytes.size() <= kSize);
  const Turn turn(busy_);
  std::ranges::copy(bytes, echo_.begin());
  echo_size_ = bytes.size();
  echo_nexus_ = nexus;
}

std::optional<std::size_t> TestBuffers::read_echo(std::uint64_t nexus, std::span<std::byte> into) const {
  assert(into.size() >= kSize);
  const Turn turn(busy_);
  if (echo_nexus_ != nexus) return {};
  std::ranges::copy(std::span(echo_).first(echo_size_), into.begin());
  return echo_size_;
}

}  // namespace lockstep::iscsi_target
