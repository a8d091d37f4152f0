// Commands that name blocks without moving as many: COMPARE AND WRITE, WRITE SAME, UNMAP. A large range goes to the
// disk in pieces, one after the other: what a host may read, and who may take over, waits for each request that is
// under way.
#include <algorithm>
#include <cstring>

#include "engine/base/byte_order.hpp"
#include "iscsi_target/scsi/handlers.hpp"
#include "iscsi_target/scsi/task.hpp"

namespace lockstep::iscsi_target::handlers {
namespace {

using engine::load_be;

constexpr std::uint8_t kUnmapBit = 0x08;    // of WRITE SAME's byte 1
constexpr std::uint8_t kNoDataOut = 0x01;   // NDOB
constexpr std::uint8_t kCompareFua = 0x08;  // of COMPARE AND WRITE's byte 1

constexpr std::uint64_t kOrPiece = LogicalUnit::kMaxCompare;

constexpr std::size_t kUnmapHeader = 8;
constexpr std::size_t kUnmapDescriptor = 16;

void read_for_or(Task& task);
void write_or(Task& task);

bool all_zero(std::span<const std::byte> bytes) {
  return bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

engine::Extent next_range_piece(Task& task) {
  const std::uint64_t to_boundary = LogicalUnit::kRangePiece - task.left.offset % LogicalUnit::kRangePiece;
  const engine::Extent piece{task.left.offset, std::min(task.left.length, to_boundary)};
  task.left = {piece.end(), task.left.length - piece.length};
  return piece;
}

void write_zeroes_next(Task& task) {
  if (task.left.empty()) return finish(task);
  if (!may_go_on(task, write_zeroes_next)) return;
  const bool unmaps = task.cdb(1) & kUnmapBit;
  task.request.may_unmap = unmaps;
  const auto opcode = unmaps ? engine::DiskOpcode::unmap : engine::DiskOpcode::write_zeroes;
  submit(task, opcode, next_range_piece(task), {}, write_zeroes_next);
}

void write_zeroes(Task& task) {
  task.left = task.extent();
  write_zeroes_next(task);
}

void repeat_block_next(Task& task) {
  if (task.left.empty()) return finish(task);
  if (!may_go_on(task, repeat_block_next)) return;
  submit(task, engine::DiskOpcode::write_same, next_range_piece(task), task.buffer.span(), repeat_block_next);
}

/// Zeros are never stored as data. With UNMAP the block's contents do not count: so do LIO and tgt, and libiscsi's
/// suite wants it, though SBC-3 would have other contents written.
void write_pulled_block(Task& task) {
  if ((task.cdb(1) & kUnmapBit) || all_zero(task.buffer.span())) return write_zeroes(task);
  task.left = task.extent();
  repeat_block_next(task);
}

struct UnmapRange {
  std::uint64_t lba = 0;
  std::uint32_t blocks = 0;
};

UnmapRange unmap_range(const Task& task, std::uint32_t i) {
  const std::byte* at = task.buffer.data() + kUnmapHeader + std::size_t{i} * kUnmapDescriptor;
  return {load_be<std::uint64_t>(at), load_be<std::uint32_t>(at + 8)};
}

/// Ranges that follow one another are one: initiators cut what they give back into pieces.
engine::Extent next_unmapped(Task& task) {
  engine::Extent whole;
  const unsigned shift = task.unit().block_shift();
  while (task.cursor < task.count) {
    const UnmapRange next = unmap_range(task, task.cursor);
    const engine::Extent extent{next.lba << shift, std::uint64_t{next.blocks} << shift};
    if (!whole.empty() && !extent.empty() && extent.offset != whole.end()) break;
    if (whole.empty()) whole.offset = extent.offset;
    whole.length += extent.length;
    ++task.cursor;
  }
  return whole;
}

void unmap_next(Task& task) {
  if (task.left.empty()) task.left = next_unmapped(task);
  if (task.left.empty()) return finish(task);
  if (!may_go_on(task, unmap_next)) return;
  task.request.may_unmap = true;
  submit(task, engine::DiskOpcode::unmap, next_range_piece(task), {}, unmap_next);
}

/// Everything is checked before anything is unmapped.
void check_unmap_list(Task& task) {
  const std::byte* list = task.buffer.data();
  const std::size_t descriptors = load_be<std::uint16_t>(list + 2);
  if (descriptors > task.length - kUnmapHeader) {
    return fail(task, {.key = scsi::SenseKey::illegal_request, .additional = scsi::asc::kParameterListLengthError});
  }
  task.count = static_cast<std::uint32_t>(descriptors / kUnmapDescriptor);  // SBC-3 5.28.2: a cut one is ignored
  if (task.count > LogicalUnit::kMaxUnmapDescriptors) return fail_parameter(task, 2);
  const std::uint64_t end = task.unit().addressable();
  for (std::uint32_t i = 0; i < task.count; ++i) {
    const UnmapRange range = unmap_range(task, i);
    const auto at = static_cast<std::uint16_t>(kUnmapHeader + i * kUnmapDescriptor);
    if (range.lba > end || range.blocks > end - range.lba) {
      return fail(task, {.key = scsi::SenseKey::illegal_request,
                         .additional = scsi::asc::kLogicalBlockAddressOutOfRange,
                         .field = scsi::FieldPointer{.in_cdb = false, .byte = at}});
    }
  }
  unmap_next(task);
}

/// ORWRITE goes in pieces that the disk can compare and write at once, each in one step; up to that size it is one step
/// in all. The buffer: what to set, then what the disk has of the piece, then what it shall have. task.count: bytes
/// done.
engine::Extent or_piece(const Task& task) {
  const engine::Extent all = task.extent();
  return {all.offset + task.count, std::min<std::uint64_t>(kOrPiece, all.length - task.count)};
}

void read_for_or(Task& task) {
  const engine::Extent piece = or_piece(task);
  if (piece.length == 0) return finish(task);
  if (!may_go_on(task, read_for_or)) return;
  const std::size_t all = task.extent().length;
  submit(task, engine::DiskOpcode::read, piece, task.buffer.span().subspan(all, piece.length), write_or);
}

/// In between somebody else may have written; then it is tried again.
void write_or(Task& task) {
  if (!may_go_on(task, write_or)) return;
  const engine::Extent piece = or_piece(task);
  const std::byte* set = task.buffer.data() + task.count;
  const auto both = task.buffer.span().subspan(task.extent().length, 2 * piece.length);
  for (std::size_t i = 0; i < piece.length; ++i) both[piece.length + i] = set[i] | both[i];
  task.ignores_miscompare = true;
  submit(task, engine::DiskOpcode::compare_and_write, piece, both, [](Task& t) {
    constexpr std::uint32_t kTries = 100;
    if (t.request.status) {
      if (++t.cursor == kTries) return finish(t, scsi::Status::busy);
    } else {
      t.count += static_cast<std::uint32_t>(or_piece(t).length);
    }
    read_for_or(t);
  });
}

}  // namespace

void compare_and_write(Task& task) {
  const engine::Extent extent = task.extent();
  // Data for no blocks: more than 255 were meant, and their number does not fit its field.
  if (extent.length == 0 && task.command.expected_out != 0) return fail_cdb(task, task.entry->blocks.offset);
  if (!expect_data_out(task, 2 * extent.length)) return;
  if (extent.length == 0) return finish(task);
  task.request.fua = task.cdb(1) & kCompareFua;
  fetch(task, 2 * extent.length,
        [](Task& t) { submit(t, engine::DiskOpcode::compare_and_write, t.extent(), t.buffer.span(), finish_good); });
}

void or_write(Task& task) {
  const engine::Extent extent = task.extent();
  if (!expect_data_out(task, extent.length)) return;
  if (extent.length == 0) return finish(task);
  if (!take_buffer(task, extent.length + 2 * std::min(extent.length, kOrPiece))) return;
  task.request.fua = task.cdb(1) & kCompareFua;
  pull(task, extent.length, read_for_or);
}

void write_atomic(Task& task) {
  const std::uint32_t aligned = task.unit().atomic_blocks();
  if (load_be<std::uint16_t>(&task.command.cdb[10]) != 0) return fail_cdb(task, 10);
  if (task.lba % aligned != 0) return fail_cdb(task, 2);
  if (task.blocks % aligned != 0) return fail_cdb(task, 12);
  write(task);
}

void write_same(Task& task) {
  const bool no_data = task.entry->cdb_length == 16 && (task.cdb(1) & kNoDataOut);
  const std::size_t block = no_data ? 0 : task.unit().block_size();
  if (!expect_data_out(task, block)) return;
  if (no_data) return write_zeroes(task);
  fetch(task, block, write_pulled_block);
}

void unmap(Task& task) {
  if (!expect_data_out(task, task.length)) return;
  if (task.length == 0) return finish(task);
  if (task.length < kUnmapHeader) {
    return fail(task, {.key = scsi::SenseKey::illegal_request, .additional = scsi::asc::kParameterListLengthError});
  }
  fetch(task, task.length, check_unmap_list);
}

}  // namespace lockstep::iscsi_target::handlers
