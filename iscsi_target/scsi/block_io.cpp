// Commands that move blocks, and those about the cache. Bits of byte 1: DPO 10h (ignored), FUA 08h, BYTCHK 06h.
#include <algorithm>
#include <cstring>

#include "iscsi_target/scsi/handlers.hpp"
#include "iscsi_target/scsi/task.hpp"

namespace lockstep::iscsi_target::handlers {
namespace {

constexpr std::uint8_t kFua = 0x08;
constexpr std::uint8_t kByteCheck = 0x06;

/// Of what is left, as much as the buffer takes.
engine::Extent next_piece(Task& task) {
  const engine::Extent now{task.left.offset, std::min<std::uint64_t>(task.left.length, task.buffer.size())};
  task.left = {now.end(), task.left.length - now.length};
  return now;
}

/// VERIFY with BYTCHK zero: the blocks must be readable.
void verify_readable(Task& task) {
  if (task.left.empty()) return finish(task);
  if (!may_go_on(task)) return;
  const engine::Extent now = next_piece(task);
  submit(task, engine::DiskOpcode::read, now, task.buffer.span().first(now.length), verify_readable);
}

/// VERIFY with BYTCHK 11b: one block stands for all.
void verify_alike(Task& task) {
  if (task.left.empty()) return finish(task);
  if (!may_go_on(task)) return;
  task.verified = task.extent().length - task.left.length;
  const engine::Extent now = next_piece(task);
  submit(task, engine::DiskOpcode::verify, now, task.buffer.span().first(now.length), verify_alike);
}

void repeat_first_block(Task& task) {
  const auto all = task.buffer.span();
  const std::size_t block = task.unit().block_size();
  for (std::size_t filled = block; filled < all.size();) {
    const std::size_t part = std::min(filled, all.size() - filled);
    std::memcpy(all.data() + filled, all.data(), part);
    filled += part;
  }
}

void compare_with_disk(Task& task) {
  submit(task, engine::DiskOpcode::verify, task.extent(), task.buffer.span(), finish_good);
}

}  // namespace

void read(Task& task) {
  const engine::Extent extent = task.extent();
  task.command.wanted_in = extent.length;
  // Only what the initiator takes is read: the residual count tells it the rest.
  const std::uint64_t block_mask = task.unit().block_size() - 1;
  const std::uint64_t taken = (std::uint64_t{task.command.expected_in} + block_mask) & ~block_mask;
  const std::uint64_t length = std::min(extent.length, taken);
  if (length == 0) [[unlikely]]
    return finish(task);
  if (!take_buffer(task, length)) return;
  task.request.fua = task.cdb(1) & kFua && task.entry->cdb_length > 6;
  submit(task, engine::DiskOpcode::read, {extent.offset, length}, task.buffer.span(),
         [](Task& t) { finish_with_buffer(t, t.buffer.size()); });
}

void write(Task& task) {
  const engine::Extent extent = task.extent();
  if (!expect_data_out(task, extent.length)) return;
  if (extent.length == 0) return finish(task);
  task.request.fua = task.cdb(1) & kFua && task.entry->cdb_length > 6;
  fetch(task, extent.length,
        [](Task& t) { submit(t, engine::DiskOpcode::write, t.extent(), t.buffer.span(), finish_good); });
}

/// Writes to the medium, then reads back and compares, whatever BYTCHK says; with BYTCHK zero only the reading counts
/// (SBC-4 5.44): what is different then was written by somebody else since.
void write_and_verify(Task& task) {
  const engine::Extent extent = task.extent();
  if (!expect_data_out(task, extent.length)) return;
  if (extent.length == 0) return finish(task);
  task.request.fua = true;
  fetch(task, extent.length, [](Task& t) {
    submit(t, engine::DiskOpcode::write, t.extent(), t.buffer.span(), [](Task& written) {
      if (!may_go_on(written)) return;
      written.request.fua = false;
      written.ignores_miscompare = (written.cdb(1) & kByteCheck) == 0;
      compare_with_disk(written);
    });
  });
}

void verify(Task& task) {
  const std::uint8_t check = (task.cdb(1) & kByteCheck) >> 1;
  const engine::Extent extent = task.extent();
  if (check == 2) return fail_cdb(task, 1, 2);
  const std::uint64_t data_out = check == 0 || extent.length == 0 ? 0
                                 : check == 1                     ? extent.length
                                                                  : task.unit().block_size();
  if (check != 0 && !expect_data_out(task, data_out)) return;
  if (extent.length == 0) return finish(task);
  task.left = extent;
  if (!take_buffer(task, check == 1 ? extent.length : std::min<std::uint64_t>(extent.length, kPiece))) return;
  if (check == 0) return verify_readable(task);
  pull(task, data_out, [](Task& t) {
    if ((t.cdb(1) & kByteCheck) != kByteCheck) return compare_with_disk(t);
    repeat_first_block(t);
    verify_alike(t);
  });
}

/// There is no read cache to fetch into; GOOD says just that (SBC-4 5.13), CONDITION MET would say that it fits.
void prefetch(Task& task) { finish(task); }

/// Flushes everything, whatever the extent. IMMED may be answered late as well as early, and late says the truth.
void synchronize_cache(Task& task) { submit(task, engine::DiskOpcode::flush, {}, {}, finish_good); }

}  // namespace lockstep::iscsi_target::handlers
