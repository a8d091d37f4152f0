// EXTENDED COPY (LID1) and what is received of it (SPC-4 6.4, 6.19): between volumes that the nexus may reach, named
// by their identification descriptors. The list is checked whole before the first block moves.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "iscsi_target/scsi/copy_job.hpp"
#include "iscsi_target/scsi/handlers.hpp"
#include "iscsi_target/scsi/reply.hpp"
#include "iscsi_target/scsi/task.hpp"
#include "iscsi_target/scsi/third_party_copy.hpp"
#include "iscsi_target/scsi/unit_name.hpp"

namespace lockstep::iscsi_target::handlers {
namespace {

using engine::load_be;
using scsi::SenseKey;

constexpr std::size_t kHeader = 16;
constexpr std::size_t kTarget = 32;
constexpr std::size_t kMaxTargets = 8;
constexpr std::size_t kMaxSegments = 8;
constexpr std::size_t kMaxDescriptors = 512;         // bytes of both lists
constexpr std::uint32_t kMaxSegment = 0xFFFF * 512;  // bytes, or the whole blocks in it
constexpr std::uint8_t kMaxConcurrent = 64;
constexpr std::uint8_t kIdentification = 0xE4;
constexpr std::uint8_t kBlockToBlock = 0x02;
constexpr std::uint8_t kBlockToBlockWithOffset = 0x0A;
constexpr std::uint8_t kDestinationCount = 0x02;  // DC, of a segment's byte 1
constexpr std::uint8_t kDiscardResults = 0x10;    // LIST ID USAGE 10b, of the header's byte 1
constexpr std::uint8_t kListIdUsage = 0x18;

/// Bytes of the longest segment on the unit.
std::uint32_t max_segment(const LogicalUnit& unit) { return kMaxSegment & ~(unit.block_size() - 1); }
/// Of a segment, as a power of two.
std::uint8_t granularity(const LogicalUnit& unit) { return static_cast<std::uint8_t>(unit.block_shift()); }

std::uint8_t byte(const std::byte* at) { return std::to_integer<std::uint8_t>(*at); }

void refuse(Task& task, scsi::AdditionalSense additional) {
  fail(task, {.key = SenseKey::illegal_request, .additional = additional});
}

/// The unit of an identification descriptor, among those that the nexus sees; null when there is none.
UnitUse* find_target(const Task& task, const std::byte* descriptor) {
  const std::size_t length = byte(descriptor + 7);
  if (length > 20) return nullptr;
  const auto name = std::span(descriptor + 8, length);
  constexpr std::uint8_t kNaa = 0x03, kT10 = 0x01;
  const std::uint8_t type = byte(descriptor + 5) & 0x0F;
  for (const NexusUnit& each : task.nexus.units) {
    if (!each.use) continue;
    const LogicalUnit& unit = *each.use->unit;
    if (type == kNaa && std::ranges::equal(name, naa_of(unit.volume()))) return each.use;
    const std::string t10 = LogicalUnit::kVendor + serial_of(unit);
    if (type == kT10 && std::ranges::equal(name, std::as_bytes(std::span(t10)))) return each.use;
  }
  return nullptr;
}

class CopyList {
 public:
  CopyList(Task& task, CopyJob& job)
      : task_(task),
        job_(job),
        list_(task.buffer.span().first(task.length)),
        targets_(load_be<std::uint16_t>(&list_[2])),
        segments_(load_be<std::uint32_t>(&list_[8])) {}

  /// False: the task has been failed.
  bool read() {
    if (load_be<std::uint32_t>(&list_[12]) != 0) return fail_parameter(task_, 12), false;  // inline data
    if (targets_ + segments_ > list_.size() - kHeader || targets_ + segments_ > kMaxDescriptors) {
      return refuse(task_, scsi::asc::kParameterListLengthError), false;
    }
    return read_targets() && read_segments();
  }

 private:
  bool read_targets() {
    if (targets_ % kTarget != 0) return fail_parameter(task_, 2), false;
    if (targets_ / kTarget > kMaxTargets) return refuse(task_, scsi::asc::kTooManyTargetDescriptors), false;
    for (std::size_t at = kHeader; at < kHeader + targets_; at += kTarget) {
      if (byte(&list_[at]) != kIdentification) {
        return refuse(task_, scsi::asc::kUnsupportedTargetDescriptorType), false;
      }
      units_.push_back(find_target(task_, &list_[at]));
    }
    return true;
  }

  bool read_segments() {
    const std::size_t end = kHeader + targets_ + segments_;
    for (std::size_t at = kHeader + targets_; at < end;) {
      if (job_.segments.size() == kMaxSegments) return refuse(task_, scsi::asc::kTooManySegmentDescriptors), false;
      const std::uint8_t type = byte(&list_[at]);
      const std::size_t size = type == kBlockToBlock ? 28 : type == kBlockToBlockWithOffset ? 32 : 0;
      if (size == 0) return refuse(task_, scsi::asc::kUnsupportedSegmentDescriptorType), false;
      if (end - at < size) return refuse(task_, scsi::asc::kParameterListLengthError), false;
      if (load_be<std::uint16_t>(&list_[at + 2]) != size - 4) return fail_at(at + 2), false;
      if (!read_segment(at, type)) return false;
      at += size;
    }
    return true;
  }

  bool read_segment(std::size_t at, std::uint8_t type) {
    const std::size_t from = load_be<std::uint16_t>(&list_[at + 4]), to = load_be<std::uint16_t>(&list_[at + 6]);
    CopySegment segment;
    segment.from = from < units_.size() ? units_[from] : nullptr;
    segment.to = to < units_.size() ? units_[to] : nullptr;
    if (segment.from && segment.to) {
      set_extents(segment, &list_[at], type);
    }
    job_.segments.push_back(segment);
    return true;
  }

  static void set_extents(CopySegment& segment, const std::byte* at, std::uint8_t type) {
    const LogicalUnit &from = *segment.from->unit, &to = *segment.to->unit;
    const bool by_destination = byte(at + 1) & kDestinationCount;
    segment.from_lba = load_be<std::uint64_t>(at + 12);
    segment.to_lba = load_be<std::uint64_t>(at + 20);
    if (type == kBlockToBlock) {
      segment.bytes = std::uint64_t{load_be<std::uint16_t>(at + 10)} << (by_destination ? to : from).block_shift();
    } else {
      segment.bytes = load_be<std::uint32_t>(at + 8);
      segment.from_offset = load_be<std::uint16_t>(at + 28);
      segment.to_offset = load_be<std::uint16_t>(at + 30);
    }
  }

  void fail_at(std::size_t at) { fail_parameter(task_, static_cast<std::uint16_t>(at)); }

  Task& task_;
  CopyJob& job_;
  std::span<const std::byte> list_;
  const std::size_t targets_, segments_;
  std::vector<UnitUse*> units_;
};

void start_copy(Task& task) {
  if (task.length < kHeader) return refuse(task, scsi::asc::kParameterListLengthError);
  auto job = std::make_unique<CopyJob>(task);
  const std::uint8_t options = byte(&task.buffer.span()[1]);
  job->list_id = byte(&task.buffer.span()[0]);
  job->keeps_result = (options & kListIdUsage) != kDiscardResults && (options & kListIdUsage) != kListIdUsage;
  if (!CopyList(task, *job).read()) return;
  CopyJob::run(std::move(job));
}

}  // namespace

void extended_copy(Task& task) {
  if (task.length > kHeader + 2 * kMaxDescriptors) return refuse(task, scsi::asc::kParameterListLengthError);
  if (!expect_data_out(task, task.length)) return;
  if (task.length == 0) return finish(task);
  fetch(task, task.length, start_copy);
}

void receive_copy_status(Task& task) {
  auto& copies = task.nexus.copies;
  const auto found =
      std::ranges::find_if(copies, [&](const CopyResult& c) { return c.list_id == task.cdb(2) && c.use == task.use; });
  if (found == copies.end()) return fail_cdb(task, 2);
  Reply reply;
  reply.be32(8);
  reply.u8(found->failed ? 0x02 : 0x01);
  reply.be16(found->segments);
  reply.u8(1);  // the count is in KiB
  reply.be32(static_cast<std::uint32_t>(found->bytes >> 10));
  copies.erase(found);
  finish_with_data(task, reply.done(), task.length);
}

void receive_copy_operating_parameters(Task& task) {
  Reply reply;
  reply.be32(44 + 3 - 4);
  reply.u8(0x01);  // SNLID: copies without a list identifier
  reply.zeros(3);
  reply.be16(kMaxTargets);
  reply.be16(kMaxSegments);
  reply.be32(kMaxDescriptors);
  reply.be32(max_segment(task.unit()));
  reply.be32(0);  // inline data
  reply.be32(0);  // held data
  reply.be32(0);  // of streams
  reply.be16(0);
  reply.be16(kMaxConcurrent);
  reply.u8(kMaxConcurrent);
  for (int i = 0; i < 3; ++i) reply.u8(granularity(task.unit()));  // of segments, inline data, held data
  reply.zeros(3);
  reply.u8(3);
  reply.u8(kBlockToBlock);
  reply.u8(kBlockToBlockWithOffset);
  reply.u8(kIdentification);
  finish_with_data(task, reply.done(), task.length);
}

}  // namespace lockstep::iscsi_target::handlers

namespace lockstep::iscsi_target {
namespace {

/// A descriptor whose values are a list with its length ahead, filled up to a multiple of four bytes.
void list_descriptor(Reply& reply, std::uint16_t type, std::span<const std::uint8_t> list) {
  const std::size_t used = 1 + list.size(), room = (used + 3) / 4 * 4;
  reply.be16(type);
  reply.be16(static_cast<std::uint16_t>(room));
  reply.u8(static_cast<std::uint8_t>(list.size()));
  reply.bytes(std::as_bytes(list));
  reply.zeros(room - used);
}

}  // namespace

void third_party_copy_descriptors(Reply& reply, const LogicalUnit& unit) {
  using namespace handlers;
  // Each operation code with the number of its service actions and these.
  constexpr std::array<std::uint8_t, 7> kCommands{0x83, 1, 0x00, 0x84, 2, 0x00, 0x03};
  constexpr std::array<std::uint8_t, 3> kDescriptors{kBlockToBlock, kBlockToBlockWithOffset, kIdentification};
  list_descriptor(reply, 0x0001, kCommands);
  reply.be16(0x0004);  // parameter data
  reply.be16(0x001C);
  reply.zeros(4);
  reply.be16(kMaxTargets);
  reply.be16(kMaxSegments);
  reply.be32(kMaxDescriptors);
  reply.be32(0);  // inline data
  reply.zeros(12);
  list_descriptor(reply, 0x0008, kDescriptors);
  reply.be16(0x000C);  // CSCD descriptor IDs beside those of the list: none
  reply.be16(4);
  reply.zeros(4);
  reply.be16(0x8001);  // general copy operations
  reply.be16(0x0020);
  reply.be32(kMaxConcurrent);
  reply.be32(kMaxConcurrent);
  reply.be32(max_segment(unit));
  reply.u8(granularity(unit));
  reply.u8(0);  // inline data
  reply.zeros(18);
}

}  // namespace lockstep::iscsi_target
