#include "iscsi_target/scsi/test_buffers.hpp"

#include <cassert>

#include "engine/base/copy_bytes.hpp"
#include "iscsi_target/scsi/published.hpp"

namespace lockstep::iscsi_target {

void TestBuffers::write_data(std::size_t offset, std::span<const std::byte> bytes) {
  assert(offset <= kSize && bytes.size() <= kSize - offset);
  const Turn turn(busy_);
  engine::copy_bytes(bytes, std::span(data_).subspan(offset));
}

void TestBuffers::read_data(std::size_t offset, std::span<std::byte> into) const {
  assert(offset <= kSize && into.size() <= kSize - offset);
  const Turn turn(busy_);
  engine::copy_bytes(std::span(data_).subspan(offset, into.size()), into);
}

void TestBuffers::write_echo(std::uint64_t nexus, std::span<const std::byte> bytes) {
  assert(bytes.size() <= kSize);
  const Turn turn(busy_);
  engine::copy_bytes(bytes, echo_);
  echo_size_ = bytes.size();
  echo_nexus_ = nexus;
}

std::optional<std::size_t> TestBuffers::read_echo(std::uint64_t nexus, std::span<std::byte> into) const {
  assert(into.size() >= kSize);
  const Turn turn(busy_);
  if (echo_nexus_ != nexus) return {};
  engine::copy_bytes(std::span(echo_).first(echo_size_), into);
  return echo_size_;
}

}  // namespace lockstep::iscsi_target
