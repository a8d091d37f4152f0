#include "iscsi_target/scsi/copy_job.hpp"

#include <algorithm>
#include <optional>

#include "iscsi_target/scsi/task.hpp"

namespace lockstep::iscsi_target {

using engine::DiskOpcode;
using engine::Errc;
using scsi::SenseKey;

namespace {

/// Where a segment starts on a unit, in bytes; nothing when it does not lie on it whole, in blocks.
std::optional<std::uint64_t> place(const LogicalUnit& unit, std::uint64_t lba, std::uint16_t offset,
                                   std::uint64_t bytes) {
  const std::uint64_t end = unit.addressable();
  if (lba > end) return std::nullopt;
  const std::uint64_t at = (lba << unit.block_shift()) + offset;
  const std::uint64_t size = end << unit.block_shift();
  if (at > size || bytes > size - at) return std::nullopt;
  return at;
}

}  // namespace

CopyJob::CopyJob(Task& task) : task_(task), device_(task.device) {}

CopyJob::~CopyJob() {
  if (!is_held_) return;
  for (const CopySegment& each : segments) {
    for (UnitUse* use : {each.from, each.to}) {
      if (!use) continue;
      --use->in_flight;
      device_.finished(use);
    }
  }
}

void CopyJob::run(std::unique_ptr<CopyJob> job) {
  for (const CopySegment& each : job->segments) {
    for (UnitUse* use : {each.from, each.to}) {
      if (use) ++use->in_flight;
    }
  }
  job->is_held_ = true;
  job.release()->begin_segment();
}

bool CopyJob::check_segment(scsi::Sense& sense) {
  const CopySegment& s = segments[segment_];
  sense = {.key = SenseKey::copy_aborted, .additional = scsi::asc::kCopyTargetDeviceNotReachable};
  if (!s.from || !s.to) return false;
  sense.additional = scsi::asc::kNoAdditionalSenseInformation;
  const auto from = place(*s.from->unit, s.from_lba, s.from_offset, s.bytes);
  const auto to = place(*s.to->unit, s.to_lba, s.to_offset, s.bytes);
  if (!from || !to) return false;
  from_ = *from;
  to_ = *to;
  sense.additional = scsi::asc::kCopySegmentGranularityViolation;
  for (const auto& [use, at] : {std::pair{s.from, from_}, std::pair{s.to, to_}}) {
    if (at % use->unit->block_size() != 0 || s.bytes % use->unit->block_size() != 0) return false;
  }
  if (!s.to->unit->write_protected()) return true;
  sense = {.key = SenseKey::data_protect, .additional = scsi::asc::kWriteProtected};
  return false;
}

void CopyJob::begin_segment() {
  if (segment_ == segments.size()) return end(nullptr);
  scsi::Sense sense;
  if (!check_segment(sense)) return end(&sense);
  if (!buffer_ && task_.buffer.resize(kPiece)) buffer_ = std::move(task_.buffer);  // the list was read
  if (!buffer_) buffer_ = task_.device.buffers().allocate(kPiece);
  if (!buffer_) {
    const std::unique_ptr<CopyJob> over(this);
    return fail_out_of_buffers(task_);
  }
  done_ = 0;
  read_piece();
}

void CopyJob::read_piece() {
  const CopySegment& s = segments[segment_];
  if (done_ == s.bytes) {
    ++segment_;
    return begin_segment();
  }
  piece_ = std::min<std::uint64_t>(kPiece, s.bytes - done_);
  submit(*s.from, DiskOpcode::read, from_ + done_);
}

void CopyJob::write_piece() { submit(*segments[segment_].to, DiskOpcode::write, to_ + done_); }

void CopyJob::submit(UnitUse& use, DiskOpcode opcode, std::uint64_t at) {
  // The initiator may have gone on through the other node, and written there what would be overwritten here.
  if (is_given_up(task_)) return abort(scsi::asc::kNoAdditionalSenseInformation);
  engine::IoCallback heard = [this, &use, opcode, at](std::error_code error) {
    error ? abort(scsi::asc::kNoAdditionalSenseInformation) : submit(use, opcode, at);
  };
  if (!task_.command.await_host(heard)) return;
  engine::DiskRequest& request = task_.request;
  request.opcode = opcode;
  request.extent = {at, piece_};
  request.data = buffer_.span().first(piece_);
  request.nexus = task_.nexus.nexus->id;
  request.port = &task_.nexus.key;
  request.access = opcode == DiskOpcode::read ? scsi::AccessClass::read : scsi::AccessClass::write;
  request.came_since = task_.command.came_since();
  request.command_came = task_.command.came_at;
  request.status.clear();
  request.owner = this;
  request.done = on_done;
  send(task_, use.unit->disk());
}

void CopyJob::on_done(engine::DiskRequest& request) {
  auto& job = *static_cast<CopyJob*>(request.owner);
  job.task_.disk = nullptr;
  job.take_result();
}

void CopyJob::take_result() {
  const engine::DiskRequest& request = task_.request;
  if (request.status) {
    if (request.status == Errc::not_serving) return not_served();
    if (request.status == Errc::no_space) {  // as of any write: hosts look for it to make space and try again
      const scsi::Sense full{.key = SenseKey::data_protect,
                             .additional = scsi::asc::kSpaceAllocationFailedWriteProtect};
      return end(&full);
    }
    return abort(scsi::asc::kThirdPartyDeviceFailure);
  }
  if (request.opcode == DiskOpcode::read) return write_piece();
  done_ += piece_;
  total_ += piece_;
  read_piece();
}

/// 04h/0Ch sends the initiator to the other path of the volume that it addressed: only when that is what fails.
void CopyJob::not_served() {
  const CopySegment& s = segments[segment_];
  const UnitUse* const asked = task_.request.opcode == DiskOpcode::read ? s.from : s.to;
  if (asked != task_.use) return abort(scsi::asc::kCopyTargetDeviceNotReachable);
  const std::unique_ptr<CopyJob> over(this);
  fail_not_accessible(task_, engine::AccessState::unavailable);
}

void CopyJob::abort(scsi::AdditionalSense additional) {
  const scsi::Sense sense{.key = SenseKey::copy_aborted, .additional = additional};
  end(&sense);
}

void CopyJob::end(const scsi::Sense* why) {
  const std::unique_ptr<CopyJob> over(this);
  auto& copies = task_.nexus.copies;
  std::erase_if(copies, [&](const CopyResult& c) { return c.list_id == list_id && c.use == task_.use; });
  if (keeps_result) {
    if (copies.size() == NexusState::kMaxCopies) copies.pop_front();
    copies.push_back({list_id, task_.use, why != nullptr, static_cast<std::uint16_t>(segment_), total_});
  }
  buffer_.reset();
  if (why && is_given_up(task_)) return finish(task_, scsi::Status::task_aborted);
  if (why) return fail(task_, *why);
  finish(task_);
}

}  // namespace lockstep::iscsi_target
