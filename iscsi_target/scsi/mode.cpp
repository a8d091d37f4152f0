// MODE SENSE and MODE SELECT (SPC-4 6.9 to 6.12, 7.5): header, block descriptor, pages.
#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "engine/base/byte_order.hpp"
#include "iscsi_target/scsi/handlers.hpp"
#include "iscsi_target/scsi/mode_pages.hpp"
#include "iscsi_target/scsi/reply.hpp"
#include "iscsi_target/scsi/task.hpp"

namespace lockstep::iscsi_target {
namespace {

using engine::load_be;

constexpr std::uint8_t kWriteProtected = 0x80;  // device-specific parameter (SBC-3 6.4.1)
constexpr std::uint8_t kDpoFua = 0x10;
constexpr std::uint8_t kNoBlockDescriptor = 0x08;  // DBD, of byte 1
constexpr std::uint8_t kLongLbaAccepted = 0x10;    // LLBAA, of MODE SENSE(10)'s byte 1
constexpr std::uint8_t kPageFormat = 0x10;         // PF, of MODE SELECT's byte 1

void block_descriptor(Reply& reply, const LogicalUnit& unit, bool long_lba) {
  if (long_lba) {
    reply.be64(unit.blocks());
    reply.be32(0);
  } else {
    constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
    reply.be32(static_cast<std::uint32_t>(std::min(unit.blocks(), kMax)));
  }
  reply.be32(unit.block_size());  // in the short form its top byte is reserved, and zero
}

/// False: there is no such page or subpage; `wrong` is the CDB byte that says so.
bool mode_pages(Reply& reply, const LogicalUnit& unit, std::uint8_t code, std::uint8_t subpage, PageControl control,
                std::uint16_t& wrong) {
  const bool all = code == kAllModePages;
  if (all && subpage != 0 && subpage != kAllSubpages) return wrong = 3, false;
  bool known = false, given = false;
  for (const PageId each : kModePages) {
    if (!all && each.code != code) continue;
    known = true;
    if (subpage != each.subpage && subpage != kAllSubpages) continue;
    const auto image = mode_page(each, control, unit.mode(), page_facts(unit));
    if (!image) continue;
    reply.bytes(std::as_bytes(image->span()));
    given = true;
  }
  wrong = known ? 3 : 2;
  return given;
}

void mode_sense(Task& task, bool ten) {
  const LogicalUnit& unit = task.unit();
  const auto control = static_cast<PageControl>(task.cdb(2) >> 6);
  if (control == PageControl::saved) {
    return fail(task, {.key = scsi::SenseKey::illegal_request, .additional = scsi::asc::kSavingParametersNotSupported});
  }
  const bool long_lba = ten && (task.cdb(1) & kLongLbaAccepted);
  const std::size_t descriptor = task.cdb(1) & kNoBlockDescriptor ? 0 : long_lba ? 16 : 8;
  const auto device = static_cast<std::uint8_t>(kDpoFua | (unit.write_protected() ? kWriteProtected : 0));

  Reply reply;
  if (ten) {
    reply.be16(0);
    reply.u8(0);
    reply.u8(device);
    reply.u8(descriptor == 16 ? 0x01 : 0x00);
    reply.u8(0);
    reply.be16(static_cast<std::uint16_t>(descriptor));
  } else {
    reply.be16(0);
    reply.u8(device);
    reply.u8(static_cast<std::uint8_t>(descriptor));
  }
  if (descriptor != 0) block_descriptor(reply, unit, long_lba);
  std::uint16_t wrong = 0;
  if (!mode_pages(reply, unit, task.cdb(2) & 0x3F, task.cdb(3), control, wrong)) return fail_cdb(task, wrong);
  if (ten) {
    reply.set_be16(0, static_cast<std::uint16_t>(reply.size() - 2));
  } else {
    reply.set_u8(0, static_cast<std::uint8_t>(reply.size() - 1));
  }
  finish_with_data(task, reply.done(), task.length);
}

void fail_list_length(Task& task) {
  fail(task, {.key = scsi::SenseKey::illegal_request, .additional = scsi::asc::kParameterListLengthError});
}

/// The list that MODE SELECT brought, taken apart. Each function fails the task and returns false on what is wrong.
class ModeList {
 public:
  ModeList(Task& task, bool ten) : task_(task), ten_(ten), list_(task.buffer.span().first(task.length)) {}

  bool read_header() {
    const std::size_t header = ten_ ? 8 : 4;
    if (list_.size() < header) return fail_list_length(task_), false;
    descriptor_ = ten_ ? load_be<std::uint16_t>(&list_[6]) : std::to_integer<std::size_t>(list_[3]);
    long_lba_ = ten_ && (list_[4] & std::byte{1}) != std::byte{0};
    at_ = header;
    return true;
  }

  /// The capacity and the block size are as they are; a descriptor may only repeat them, or leave them open with zero.
  bool check_block_descriptor() {
    if (descriptor_ == 0) return true;
    const std::size_t size = long_lba_ ? 16 : 8;
    if (descriptor_ != size) return fail_parameter(task_, ten_ ? 6 : 3), false;
    if (list_.size() - at_ < size) return fail_list_length(task_), false;
    const std::uint64_t blocks = long_lba_ ? load_be<std::uint64_t>(&list_[at_]) : load_be<std::uint32_t>(&list_[at_]);
    const std::uint64_t unspecified = long_lba_ ? ~std::uint64_t{0} : 0xFFFFFFFF;
    const std::uint32_t block_size = load_be<std::uint32_t>(&list_[at_ + size - 4]) & (long_lba_ ? ~0u : 0x00FFFFFF);
    if (blocks != 0 && blocks != unspecified && blocks != task_.unit().blocks()) return fail_at(at_), false;
    if (block_size != 0 && block_size != task_.unit().block_size()) return fail_at(at_ + size - 4), false;
    at_ += size;
    return true;
  }

  bool read_pages() {
    while (at_ < list_.size()) {
      if (!read_page()) return false;
    }
    return true;
  }

  [[nodiscard]] ModeState state() const { return state_; }
  /// What the list does not name: the state may have changed there before the list is in force.
  [[nodiscard]] ModeState kept() const { return kept_; }

 private:
  void fail_at(std::size_t byte, std::int8_t bit = 7) { fail_parameter(task_, static_cast<std::uint16_t>(byte), bit); }

  bool read_page() {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(list_.data()) + at_;
    const std::size_t left = list_.size() - at_;
    if (left < 2) return fail_list_length(task_), false;
    const bool has_subpage = bytes[0] & kSubpageFormat;
    // PS is reserved here, and many initiators send back what they read.
    const PageId id{static_cast<std::uint8_t>(bytes[0] & 0x3F), has_subpage ? bytes[1] : std::uint8_t{0}};
    const PageFacts facts = page_facts(task_.unit());
    const auto now = mode_page(id, PageControl::current, state_, facts);
    if (!now || (has_subpage && id.subpage == 0)) return fail_at(at_, 5), false;
    if (left < now->header) return fail_list_length(task_), false;
    const std::size_t length = has_subpage ? 2 : 1;  // where the header says how long the page is
    if (!std::equal(bytes + length, bytes + now->header, &now->bytes[length])) return fail_at(at_ + length), false;
    if (left < now->size) return fail_list_length(task_), false;
    const auto changeable = mode_page(id, PageControl::changeable, state_, facts);
    for (std::size_t i = now->header; i < now->size; ++i) {
      const auto wrong = static_cast<std::uint8_t>((bytes[i] ^ now->bytes[i]) & ~changeable->bytes[i]);
      if (wrong != 0) return fail_at(at_ + i, static_cast<std::int8_t>(std::bit_width(wrong) - 1)), false;
    }
    state_ = with_page(id, {bytes, now->size}, state_);
    kept_ = ModeState{}.keeping(beside(id), kept_);
    at_ += now->size;
    return true;
  }

  Task& task_;
  const bool ten_;
  std::span<const std::byte> list_;
  std::size_t at_ = 0;
  std::size_t descriptor_ = 0;
  bool long_lba_ = false;
  ModeState state_ = task_.unit().mode();
  ModeState kept_{.descriptor_sense = true, .software_write_protect = true, .threshold_off = true};
};

/// The whole list is checked before anything changes.
void apply_mode_list(Task& task) {
  ModeList list(task, task.entry->cdb_length == 10);
  if (!list.read_header() || !list.check_block_descriptor() || !list.read_pages()) return;
  scsi::LuRequest request = task.unit().request(scsi::LuRequestKind::mode_select, task.nexus.key);
  request.mode = list.state();
  request.kept = list.kept();
  change_state(task, request);
}

void mode_select(Task& task) {
  if (!expect_data_out(task, task.length)) return;
  if (!(task.cdb(1) & kPageFormat)) return fail_cdb(task, 1, 4);
  if (task.length == 0) return finish(task);
  fetch(task, task.length, apply_mode_list);
}

}  // namespace

void handlers::mode_sense_6(Task& task) { mode_sense(task, false); }
void handlers::mode_sense_10(Task& task) { mode_sense(task, true); }
void handlers::mode_select_6(Task& task) { mode_select(task); }
void handlers::mode_select_10(Task& task) { mode_select(task); }

}  // namespace lockstep::iscsi_target
