#include "replication/core/read_repair.hpp"

#include <algorithm>

#include "engine/base/copy_bytes.hpp"
#include "replication/core/marks.hpp"

namespace lockstep::replication {

void ReadRepair::start(engine::Extent extent, std::span<const std::byte> bytes) {
  if (!extent_.empty() || !may_go_on()) return;
  const engine::Extent whole = store_.whole_blocks(extent);
  if (whole.empty()) return;
  block_ = {whole.offset, std::max(store_.info.block_size, store_.info.physical_block_size)};
  bytes_ = buffers_.allocate(whole.length);
  request_bytes_ = buffers_.allocate(2 * block_.length);
  if (!bytes_ || !request_bytes_) return end();
  engine::copy_bytes(bytes.subspan(whole.offset - extent.offset, whole.length), bytes_.span());
  extent_ = whole;
  probe();
}

/// Anybody else's bytes are in order, or nobody's: as a target this store is brought up to date as a whole.
bool ReadRepair::may_go_on() const {
  return standing_.in_sync() && !standing_.is_sequencer() && !standing_.gated && !store_.failed;
}

/// Takes no lock: what it reads does not matter, but whether it can be read.
void ReadRepair::probe() {
  store_.data.read(block_.offset, old_and_new().first(block_.length),
                   counted(store_.owed, [this](std::error_code error) {
                     store_.note_returned();
                     if (!may_go_on()) return end();
                     error ? swap() : next();
                   }));
}

void ReadRepair::swap() {
  const auto bytes = std::as_const(bytes_).span().subspan(block_.offset - extent_.offset, block_.length);
  engine::copy_bytes(bytes, old_and_new().first(block_.length));
  engine::copy_bytes(bytes, old_and_new().subspan(block_.length));
  request_ = {};
  request_.opcode = engine::DiskOpcode::compare_and_write;
  request_.extent = block_;
  request_.data = old_and_new();
  request_.owner = this;
  request_.done = &ReadRepair::on_swapped;
  front_.submit(request_);
}

void ReadRepair::on_swapped(engine::DiskRequest& request) {
  auto& self = *static_cast<ReadRepair*>(request.owner);
  // A host has written there since: that is as good.
  const bool written_over = request.status == make_error_code(engine::Errc::miscompare);
  if (!request.status) {
    mark<"read.rewritten_on_the_other_member">();
    ++self.store_.read_errors.rewritten;
  }
  (request.status && !written_over) || !self.may_go_on() ? self.end() : self.next();
}

void ReadRepair::next() {
  block_.offset += block_.length;
  block_.offset < extent_.end() ? probe() : end();
}

void ReadRepair::end() {
  extent_ = {};
  bytes_.reset();
  request_bytes_.reset();
}

}  // namespace lockstep::replication
