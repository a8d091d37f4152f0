// Hostile commands: whatever the bytes, each ends once, within its bounds, and the unit works afterwards.
#include <random>

#include "iscsi_target/scsi/command_table.hpp"
#include "tests/unit/iscsi_target/scsi_harness.hpp"

namespace lockstep::iscsi_target::test {
namespace {

class ScsiHostile : public ScsiTest, public ::testing::WithParamInterface<unsigned> {
 protected:
  std::mt19937_64 random{GetParam()};
  std::uint64_t below(std::uint64_t n) { return random() % n; }

  /// Half of them from the table, with all their bits at will; the others anything.
  Bytes any_cdb() {
    Bytes cdb(16);
    for (auto& b : cdb) b = static_cast<std::uint8_t>(below(3) ? 0 : random());
    if (below(8) == 0) return cdb;
    const auto table = command_table();
    const CommandEntry& entry = table[below(table.size())];
    if (below(4)) {
      for (std::size_t i = 0; i < 16; ++i) cdb[i] &= entry.usage[i];
    }
    cdb[0] = entry.opcode;
    if (entry.has_service_action() && below(8)) {
      cdb[1] = static_cast<std::uint8_t>((cdb[1] & 0xE0) | entry.service_action);
    }
    return cdb;
  }

  /// Often just what the CDB asks for, so that the data is looked at.
  std::size_t any_data_size(const Bytes& cdb) {
    const auto rows = commands_of(cdb[0]);
    if (rows.empty() || below(4) == 0) return below(9000);
    Bytes wide = cdb;
    wide.resize(32);
    const std::uint64_t bytes = read_field(wide.data(), rows[0].bytes);
    const std::uint64_t blocks = read_field(wide.data(), rows[0].blocks) * 512;
    const std::uint64_t size = rows[0].bytes.present() ? bytes : below(2) ? 512 : blocks;
    return std::min<std::uint64_t>(size * (cdb[0] == 0x89 ? 2 : 1), std::uint64_t{1} << 18);
  }

  /// As a session or a reset does with a command that is under way.
  void give_up(FakeCommand& c) {
    if (c.completions != 0 || std::exchange(c.is_given_up, true)) return;
    c.is_aborted |= below(2) == 0;
    disk.cannot_cancel = below(2) == 0;
    device.abort(c);
  }
};

TEST_P(ScsiHostile, EveryCommandEndsOnceAndGivesItsBufferBack) {
  constexpr std::uint64_t kLuns[] = {
      0, 0, 0, 0, 0x4000'0000'0000'0000, kReportLunsWellKnownLun, 0x0001'0000'0000'0000, ~std::uint64_t{0}};
  std::deque<std::unique_ptr<FakeCommand>> running;
  for (int i = 0; i < 10000; ++i) {
    Bytes cdb = any_cdb();
    Bytes data(any_data_size(cdb));
    for (auto& b : std::span(data).first(std::min<std::size_t>(data.size(), 64))) {
      b = static_cast<std::uint8_t>(below(4) ? 0 : random());
    }
    auto c = make(cdb, static_cast<std::uint32_t>(below(2) ? below(70000) : 0), std::move(data));
    c->lun = kLuns[below(std::size(kLuns))];
    c->is_aborted = below(50) == 0;
    if (below(50) == 0) c->pull_error = engine::Errc::aborted;
    if (below(20) == 0) disk.fail_with = engine::make_error_code(static_cast<engine::Errc>(1 + below(14)));
    if (below(200) == 0) device.task_management(nexus, scsi::TaskManagement::logical_unit_reset, 0);
    disk.deferred = below(4) == 0;
    device.execute(*c);
    running.push_back(std::move(c));
    if (below(10) == 0) give_up(*running[below(running.size())]);
    while (disk.held() > 8 || (disk.held() != 0 && below(3) == 0)) disk.release_one();
    while (!running.empty() && running.front()->completions != 0) {
      ASSERT_EQ(running.front()->completions, 1);
      ASSERT_LE(running.front()->sense_length, scsi::kMaxSense);
      running.pop_front();
    }
  }
  while (disk.held() != 0) disk.release_one();
  for (const auto& c : running) ASSERT_EQ(c->completions, 1);
  EXPECT_EQ(pool.in_use(), 0u);

  disk.deferred = false;
  disk.fail_with = {};
  disk.unit_state.install({});
  while (in({0x00})->status != scsi::Status::good) {
  }
  const Bytes data = pattern(4096);
  expect_good(*out(cdb10(0x2A, 0, 8), data));
  EXPECT_EQ(in(cdb10(0x28, 0, 8), 4096)->data_in, data);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ScsiHostile, ::testing::Range(1u, 7u));

}  // namespace
}  // namespace lockstep::iscsi_target::test
