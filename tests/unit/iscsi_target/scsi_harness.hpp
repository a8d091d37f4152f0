#pragma once
// A logical unit on a disk in memory, and a transport that keeps what it is given: SCSI commands without a network.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/base/byte_order.hpp"
#include "engine/disk.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "engine/scsi/command.hpp"
#include "engine/scsi/lu_holder.hpp"
#include "engine/scsi/sense.hpp"
#include "iscsi_target/scsi/lun_map.hpp"
#include "iscsi_target/scsi/target_device.hpp"
#include "tests/unit/iser/event_clock.hpp"

namespace lockstep::iscsi_target::test {

using Bytes = std::vector<std::uint8_t>;

/// A disk that does everything at once, or when told to; and fails when told to.
class RamDisk final : public engine::Disk {
 public:
  explicit RamDisk(engine::DiskInfo info) : info_(std::move(info)), bytes_(info_.size) {}

  [[nodiscard]] const engine::DiskInfo& info() const override { return info_; }
  [[nodiscard]] engine::AccessState access_state() const override { return access; }
  void submit(engine::DiskRequest& request) override {
    const std::lock_guard one_at_a_time(mutex_);  // what a hop to the disk's reactor does elsewhere
    log.push_back({request.opcode, request.extent, request.fua, request.came_since, request.command_came});
    if (deferred) return held_.push_back(&request);
    carry_out(request);
  }
  /// What is held has not begun: it is over at once. What `cannot_cancel` has begun, and ends as it does.
  void cancel(engine::DiskRequest& request) override {
    cancelled.push_back(request.opcode);
    const auto at = std::ranges::find(held_, &request);
    ASSERT_NE(at, held_.end()) << "not with the disk";
    if (cannot_cancel) return;
    held_.erase(at);
    request.status = cancel_with;
    request.done(request);
  }
  void release_one() {
    auto* request = held_.front();
    held_.pop_front();
    carry_out(*request);
  }
  [[nodiscard]] std::size_t held() const { return held_.size(); }

  struct Seen {
    engine::DiskOpcode opcode;
    engine::Extent extent;
    bool fua;
    engine::TimePoint came_since{};
    engine::TimePoint command_came{};
  };
  std::vector<Seen> log;
  engine::AccessState access = engine::AccessState::active_optimized;
  std::error_code fail_with;         ///< the next operation
  engine::Callback<> before_answer;  ///< the next operation has taken effect, and its submitter has not heard of it
  bool deferred = false;
  bool only_notes = false;  ///< all is well, and nothing is done
  bool cannot_cancel = false;
  std::error_code cancel_with = engine::Errc::aborted;
  std::vector<engine::DiskOpcode> cancelled;
  std::vector<std::byte>& bytes() { return bytes_; }
  scsi::LuStateHolder unit_state;
  void set_state_listener(std::shared_ptr<scsi::LuStateListener> listener) override {
    unit_state.listen(std::move(listener));
  }

 private:
  void carry_out(engine::DiskRequest& request) {
    request.status = std::exchange(fail_with, {});
    if (!request.status && !only_notes) request.status = operate(request);
    if (before_answer) std::exchange(before_answer, nullptr)();
    request.done(request);
  }

  std::error_code change_state(engine::DiskRequest& r) {
    auto outcome = unit_state.step(r);
    if (!outcome) return outcome.error().code;
    const auto given = scsi::LuStateHolder::answer(r, outcome->answer);
    if (outcome->changed) unit_state.install(std::move(*outcome));
    return given;
  }

  std::error_code operate(engine::DiskRequest& r) {
    if (const auto error = unit_state.check(r)) return error;
    if (r.opcode == engine::DiskOpcode::find_run) return find_run(r);
    if (!r.extent.fits(info_.size)) return engine::Errc::out_of_range;
    std::byte* at = bytes_.data() + r.extent.offset;
    switch (r.opcode) {
      case engine::DiskOpcode::read:
        std::memcpy(r.data.data(), at, r.extent.length);
        break;
      case engine::DiskOpcode::write:
        std::memcpy(at, r.data.data(), r.extent.length);
        break;
      case engine::DiskOpcode::unmap:
      case engine::DiskOpcode::write_zeroes:
        std::memset(at, 0, r.extent.length);
        break;
      case engine::DiskOpcode::renew_key:
        std::memset(at, 0xEE, r.extent.length);  // what was there makes no sense any more
        break;
      case engine::DiskOpcode::write_same:
        for (std::uint64_t i = 0; i < r.extent.length; i += r.data.size()) {
          std::memcpy(at + i, r.data.data(), r.data.size());
        }
        break;
      case engine::DiskOpcode::flush:
      case engine::DiskOpcode::check_access:
        break;
      case engine::DiskOpcode::change_state:
        return change_state(r);
      case engine::DiskOpcode::read_state:
        return unit_state.read(r);
      case engine::DiskOpcode::verify:
        return compare(r, at);
      case engine::DiskOpcode::find_run:
        break;
      case engine::DiskOpcode::compare_and_write:
        if (const auto error = compare(r, at)) return error;
        std::memcpy(at, r.data.data() + r.extent.length, r.extent.length);
        break;
    }
    return {};
  }

  /// A unit that was made larger than the disk: one hole.
  std::error_code find_run(engine::DiskRequest& r) const {
    const bool within = r.extent.fits(info_.size);
    std::ranges::copy(engine::encode(within ? run_of(r.extent) : engine::Run{r.extent.length, true}), r.data.begin());
    r.transferred = engine::kRunSize;
    return {};
  }

  /// Blocks of zeros are holes.
  engine::Run run_of(engine::Extent extent) const {
    const auto is_hole = [&](std::uint64_t at) {
      const auto* block = bytes_.data() + at;
      return std::all_of(block, block + info_.block_size, [](std::byte b) { return b == std::byte{0}; });
    };
    engine::Run run{0, is_hole(extent.offset)};
    while (run.length < extent.length && is_hole(extent.offset + run.length) == run.hole) {
      run.length += info_.block_size;
    }
    return run;
  }

  static std::error_code compare(engine::DiskRequest& r, const std::byte* at) {
    const auto differs = std::mismatch(at, at + r.extent.length, r.data.data()).first - at;
    r.miscompare_offset = static_cast<std::uint64_t>(differs);
    return static_cast<std::uint64_t>(differs) == r.extent.length ? std::error_code{} : engine::Errc::miscompare;
  }

  engine::DiskInfo info_;
  std::recursive_mutex mutex_;
  std::vector<std::byte> bytes_;
  std::deque<engine::DiskRequest*> held_;
};

/// One command and what came of it.
class FakeCommand final : public scsi::Command {
 public:
  Bytes data_out;
  Bytes data_in;
  int completions = 0;
  bool is_aborted = false;
  bool is_given_up = false;
  bool defers_pull = false;
  bool is_host_silent = false;
  engine::TimePoint age;
  std::error_code pull_error;

  void pull(std::span<std::byte> into, engine::IoCallback done) override {
    EXPECT_LE(into.size(), expected_out);
    const std::size_t there = std::min(into.size(), data_out.size());
    if (there != 0) std::memcpy(into.data(), data_out.data(), there);
    if (defers_pull) {
      pulled_ = std::move(done);
    } else {
      done(pull_error);
    }
  }
  void release_pull() { std::exchange(pulled_, nullptr)(pull_error); }
  void complete(std::span<const std::byte> in, engine::Buffer buffer) override {
    ++completions;
    EXPECT_LE(in.size(), expected_in);
    if (!buffer) {
      EXPECT_LE(in.size(), 4096u);
    }
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(in.data());
    data_in.assign(bytes, bytes + in.size());
  }
  [[nodiscard]] bool aborted() const override { return is_aborted; }
  [[nodiscard]] engine::TimePoint came_since() const override { return age; }
  [[nodiscard]] bool await_host(engine::IoCallback& done) override {
    if (is_host_silent) heard_ = std::move(done);
    return !is_host_silent;
  }
  [[nodiscard]] bool awaits_host() const { return static_cast<bool>(heard_); }
  void host_heard(std::error_code error = {}) {
    is_host_silent = false;
    std::exchange(heard_, nullptr)(error);
  }

  [[nodiscard]] scsi::Sense sense_data() const {
    return scsi::parse_sense(std::span(sense).first(sense_length)).value_or(scsi::Sense{});
  }
  [[nodiscard]] std::int64_t residual_in() const {
    return static_cast<std::int64_t>(expected_in) - static_cast<std::int64_t>(wanted_in);
  }
  [[nodiscard]] std::uint16_t be16(std::size_t at) const { return engine::load_be<std::uint16_t>(&data_in.at(at)); }
  [[nodiscard]] std::uint32_t be32(std::size_t at) const { return engine::load_be<std::uint32_t>(&data_in.at(at)); }
  [[nodiscard]] std::uint64_t be64(std::size_t at) const { return engine::load_be<std::uint64_t>(&data_in.at(at)); }

 private:
  engine::IoCallback pulled_, heard_;
};

struct Expect {
  scsi::SenseKey key;
  scsi::AdditionalSense additional;
};

inline void expect_sense(const FakeCommand& c, scsi::SenseKey key, scsi::AdditionalSense additional) {
  EXPECT_EQ(c.completions, 1);
  EXPECT_EQ(c.status, scsi::Status::check_condition);
  EXPECT_EQ(c.sense_data().key, key);
  EXPECT_EQ(c.sense_data().additional.code, additional.code);
  EXPECT_EQ(c.sense_data().additional.qualifier, additional.qualifier);
}
inline void expect_field(const FakeCommand& c, scsi::AdditionalSense additional, scsi::FieldPointer field) {
  expect_sense(c, scsi::SenseKey::illegal_request, additional);
  ASSERT_TRUE(c.sense_data().field.has_value());
  EXPECT_EQ(c.sense_data().field->in_cdb, field.in_cdb);
  EXPECT_EQ(c.sense_data().field->byte, field.byte);
  EXPECT_EQ(c.sense_data().field->bit, field.bit);
}
inline void expect_good(const FakeCommand& c) {
  EXPECT_EQ(c.completions, 1);
  EXPECT_EQ(c.status, scsi::Status::good)
      << "sense " << int(c.sense_data().key) << '/' << std::hex << int(c.sense_data().additional.code) << '/'
      << int(c.sense_data().additional.qualifier);
}

inline engine::Uuid uuid(std::uint8_t last) {
  engine::Uuid id;
  for (std::size_t i = 0; i < 16; ++i) id.bytes[i] = static_cast<std::uint8_t>(0x10 * i + i);
  id.bytes[15] = last;
  return id;
}

inline engine::DiskInfo disk_info(std::uint8_t number = 1) {
  engine::DiskInfo info;
  info.id = uuid(number);
  info.name = "vm" + std::to_string(number);
  info.serial = "SERIAL" + std::to_string(number);
  info.size = std::uint64_t{1} << 20;
  return info;
}

/// Of a unit that knows every command there is.
inline engine::DiskInfo encrypted_disk_info() {
  engine::DiskInfo info = disk_info();
  info.encrypted = true;
  return info;
}

class HideFrom final : public AccessView {
 public:
  HideFrom(engine::Uuid volume, std::string initiator) : volume_(volume), initiator_(std::move(initiator)) {}
  [[nodiscard]] bool may_access(const engine::Uuid& volume, std::string_view initiator) const override {
    return volume != volume_ || initiator != initiator_;
  }

 private:
  engine::Uuid volume_;
  std::string initiator_;
};

/// A device with one unit at LUN 0 and one nexus that has been told of its power on.
class ScsiTest : public ::testing::Test {
 protected:
  explicit ScsiTest(engine::DiskInfo info = disk_info())
      : pool(std::size_t{32} << 20),
        disk(std::move(info)),
        unit(std::make_shared<LogicalUnit>(disk, UnitSettings{.target_name = "iqn.2026-11.io.lockstep:pair1"})),
        device(pool, clock) {
    adopt({{0, unit}});
    open(nexus, 1, "iqn.1994-05.com.example:one");
  }
  ~ScsiTest() override {
    for (auto* open_nexus : open_) device.on_nexus_closed(*open_nexus);
  }

  void adopt(std::vector<LunEntry> entries, std::shared_ptr<const AccessView> access = {}) {
    device.adopt(*LunMap::make(std::move(entries), std::move(access)), {});
  }
  /// Opens a nexus and takes its power-on attention away from LUN 0.
  void open(scsi::Nexus& n, std::uint64_t id, std::string name, bool told = true) {
    n.id = id;
    n.initiator_name = std::move(name);
    device.on_nexus_opened(n);
    open_.push_back(&n);
    if (told) run({0x00}, n);
  }
  void close(scsi::Nexus& n) {
    device.on_nexus_closed(n);
    std::erase(open_, &n);
  }

  /// What the disk holds.
  Bytes stored(std::uint64_t lba, std::uint64_t blocks) {
    const auto* at = reinterpret_cast<const std::uint8_t*>(disk.bytes().data()) + lba * 512;
    return {at, at + blocks * 512};
  }

  std::unique_ptr<FakeCommand> make(Bytes cdb, std::uint32_t expected_in = 0, Bytes data_out = {}) {
    auto c = std::make_unique<FakeCommand>();
    std::ranges::copy(cdb, c->cdb.begin());
    c->expected_in = expected_in;
    c->expected_out = static_cast<std::uint32_t>(data_out.size());
    c->data_out = std::move(data_out);
    c->nexus = &nexus;
    return c;
  }
  std::unique_ptr<FakeCommand> run(std::unique_ptr<FakeCommand> c) {
    device.execute(*c);
    return c;
  }
  std::unique_ptr<FakeCommand> run(Bytes cdb, scsi::Nexus& n, std::uint32_t expected_in = 0) {
    auto c = make(std::move(cdb), expected_in);
    c->nexus = &n;
    return run(std::move(c));
  }
  std::unique_ptr<FakeCommand> in(Bytes cdb, std::uint32_t expected_in = 4096) {
    return run(make(std::move(cdb), expected_in));
  }
  std::unique_ptr<FakeCommand> out(Bytes cdb, Bytes data) { return run(make(std::move(cdb), 0, std::move(data))); }

  [[nodiscard]] std::uint64_t capacity() const { return unit->blocks(); }
  void set_mode(ModeState mode) {
    scsi::LuOutcome outcome{.next = disk.unit_state.state()};
    outcome.next.mode = mode;
    disk.unit_state.install(std::move(outcome));
  }

  engine::BufferPool pool;
  lockstep::test::EventClock clock;
  RamDisk disk;
  std::shared_ptr<LogicalUnit> unit;
  TargetDevice device;
  scsi::Nexus nexus;

 private:
  std::vector<scsi::Nexus*> open_;
};

inline Bytes cdb10(std::uint8_t opcode, std::uint32_t lba, std::uint16_t blocks, std::uint8_t flags = 0) {
  Bytes c(10);
  c[0] = opcode, c[1] = flags;
  engine::store_be<std::uint32_t>(&c[2], lba);
  engine::store_be<std::uint16_t>(&c[7], blocks);
  return c;
}
inline Bytes cdb12(std::uint8_t opcode, std::uint32_t lba, std::uint32_t blocks, std::uint8_t flags = 0) {
  Bytes c(12);
  c[0] = opcode, c[1] = flags;
  engine::store_be<std::uint32_t>(&c[2], lba);
  engine::store_be<std::uint32_t>(&c[6], blocks);
  return c;
}
inline Bytes cdb16(std::uint8_t opcode, std::uint64_t lba, std::uint32_t blocks, std::uint8_t flags = 0) {
  Bytes c(16);
  c[0] = opcode, c[1] = flags;
  engine::store_be<std::uint64_t>(&c[2], lba);
  engine::store_be<std::uint32_t>(&c[10], blocks);
  return c;
}
inline Bytes pattern(std::size_t size, unsigned seed = 1) {
  Bytes b(size);
  for (std::size_t i = 0; i < size; ++i) b[i] = static_cast<std::uint8_t>(i * 31 + i / 512 + seed);
  return b;
}

}  // namespace lockstep::iscsi_target::test
