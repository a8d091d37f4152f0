#pragma once
// An EXTENDED COPY at work: segment after segment, piece after piece, read from one volume and written to the other.
// Every piece is ordered by the disks like any read and write, and stopped by reservations like one.
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/disk.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "engine/scsi/sense.hpp"
#include "iscsi_target/scsi/target_device.hpp"

namespace lockstep::iscsi_target {

struct Task;

struct CopySegment {
  UnitUse* from = nullptr;  ///< null: the nexus reaches no such volume
  UnitUse* to = nullptr;
  std::uint64_t from_lba = 0, to_lba = 0;
  std::uint64_t bytes = 0;
  std::uint16_t from_offset = 0, to_offset = 0;  ///< bytes beyond the LBAs
};

class CopyJob {
 public:
  explicit CopyJob(Task& task);
  ~CopyJob();
  /// The volumes stay until it is over; it ends the task.
  static void run(std::unique_ptr<CopyJob> job);

  std::uint8_t list_id = 0;
  bool keeps_result = true;
  std::vector<CopySegment> segments;

 private:
  void begin_segment();
  void read_piece();
  void write_piece();
  static void on_done(engine::DiskRequest& request);
  void take_result();
  void not_served();
  void submit(UnitUse& use, engine::DiskOpcode opcode, std::uint64_t at);
  [[nodiscard]] bool check_segment(scsi::Sense& sense);
  void end(const scsi::Sense* why);
  void abort(scsi::AdditionalSense additional);

  Task& task_;
  TargetDevice& device_;
  engine::Buffer buffer_;
  std::size_t segment_ = 0;
  std::uint64_t from_ = 0, to_ = 0;  ///< bytes, of the segment's start
  std::uint64_t done_ = 0;           ///< bytes of the segment
  std::uint64_t total_ = 0;
  std::size_t piece_ = 0;
  bool is_held_ = false;
};

}  // namespace lockstep::iscsi_target
