// Commands that are several operations of the disk, aborted between two of them: their initiator may have gone on
// through the other node, so that whatever still began here could land on what it has written there since.
#include "scsi_harness.hpp"

namespace lockstep::iscsi_target::test {
namespace {

struct Chain {
  const char* name;
  Bytes cdb;
  Bytes data;
  std::size_t operations;
};

/// Three ranges that do not touch.
Bytes unmap_list() {
  Bytes list(8 + 3 * 16);
  engine::store_be<std::uint16_t>(&list[0], static_cast<std::uint16_t>(list.size() - 2));
  engine::store_be<std::uint16_t>(&list[2], static_cast<std::uint16_t>(list.size() - 8));
  for (std::size_t i = 0; i < 3; ++i) {
    engine::store_be<std::uint64_t>(&list[8 + 16 * i], 100 * i);
    engine::store_be<std::uint32_t>(&list[16 + 16 * i], 8);
  }
  return list;
}

std::vector<Chain> chains() {
  const Bytes list = unmap_list();
  return {
      {"UNMAP", {0x42, 0, 0, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(list.size()), 0}, list, 3},
      {"ORWRITE", cdb16(0x8B, 0, 1536), Bytes(std::size_t{768} << 10, 0x55), 4},
      {"WRITE AND VERIFY", cdb10(0x2E, 0, 1, 0x02), Bytes(512, 0x55), 2},
      {"START STOP UNIT that ejects", {0x1B, 0, 0, 0, 0x02}, {}, 2},
  };
}

class ScsiAbort : public ScsiTest {
 protected:
  ScsiAbort()
      : ScsiTest([] {
          auto info = disk_info();
          info.removable = true;
          return info;
        }()) {
    disk.deferred = true;
  }
  /// Begun, and as far as its `operations`th operation, which is with the disk.
  std::unique_ptr<FakeCommand> begin(const Chain& chain, std::size_t operations) {
    disk.log.clear();
    auto c = run(make(chain.cdb, 0, chain.data));
    for (std::size_t i = 1; i < operations; ++i) disk.release_one();
    EXPECT_EQ(disk.log.size(), operations);
    return c;
  }
  void end() {
    while (disk.held()) disk.release_one();
  }
};

TEST_F(ScsiAbort, NothingMoreIsBegunOfACommandThatWasAborted) {
  for (const Chain& chain : chains()) {
    for (std::size_t begun = 1; begun < chain.operations; ++begun) {
      SCOPED_TRACE(chain.name + std::string(", during operation ") + std::to_string(begun));
      const auto c = begin(chain, begun);
      c->is_aborted = true;
      disk.release_one();
      EXPECT_EQ(disk.log.size(), begun);
      EXPECT_EQ(c->completions, 1);
      end();
      EXPECT_EQ(c->completions, 1);
    }
    SCOPED_TRACE(chain.name);
    const auto whole = begin(chain, chain.operations);
    end();
    expect_good(*whole);
    EXPECT_EQ(disk.log.size(), chain.operations);
  }
  EXPECT_EQ(pool.in_use(), 0u);
}

}  // namespace
}  // namespace lockstep::iscsi_target::test
