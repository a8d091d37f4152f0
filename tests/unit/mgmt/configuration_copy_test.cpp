// A disk that hangs below the copy of the configuration keeps nobody from managing the node. A FIFO hangs whoever opens
// it to write; as in the daemon, a write to one whose reader has gone is an error, and no signal.
#include "mgmt/control/configuration_copy.hpp"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/mgmt/job_fixture.hpp"

namespace lockstep::mgmt {
namespace {

using namespace std::chrono_literals;

class ConfigurationCopyTest : public test::JobTest {
 protected:
  static void SetUpTestSuite() { ASSERT_NE(std::signal(SIGPIPE, SIG_IGN), SIG_ERR); }
  [[nodiscard]] std::filesystem::path folder() const { return folder_->path() / "volumes"; }
  [[nodiscard]] std::string next_one() const { return folder() / "configuration.saved.new"; }
  void hang() const { ASSERT_EQ(::mkfifo(next_one().c_str(), 0600), 0); }
  /// What was written goes nowhere: fsync refuses a FIFO, so that the file is removed.
  void answer() const {
    const int reader = ::open(next_one().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ASSERT_GE(reader, 0);
    while (std::filesystem::exists(next_one())) std::this_thread::yield();
    ::close(reader);
  }
  void rename_pair(const std::string& name) {
    edit([&](Configuration& c) { c.pair->name = name; });
  }
  void save_until_it_is_of_now() const {
    while (!core_->copy.problem().empty()) core_->save_copy();
  }
  static constexpr auto kOnce = 10s;  // the patience, and what a slow machine adds
};

TEST_F(ConfigurationCopyTest, ADiskThatHangsHoldsUpAChangeOnceAndIsToldOf) {
  open_core();
  make_whole_pair();
  hang();
  const auto began = std::chrono::steady_clock::now();
  rename_pair("pair2");
  EXPECT_EQ(core_->copy.problem(), "The disk of " + folder().string() + " does not answer.");
  for (int i = 0; i < 100; ++i) rename_pair("pair" + std::to_string(i));
  EXPECT_LT(std::chrono::steady_clock::now() - began, kOnce);
  EXPECT_EQ(core_->configuration()->pair->name, "pair99");
  EXPECT_EQ(core_->copy.read().error().kind, RefusalKind::not_current);
  answer();
  save_until_it_is_of_now();
  const auto saved = core_->saved_file.read();
  ASSERT_TRUE(saved) << saved.error().detail;
  EXPECT_EQ(saved->configuration.pair->name, "pair99");
}

TEST_F(ConfigurationCopyTest, ANodeStartsBesideADiskThatHangs) {
  open_core();
  make_whole_pair();
  hang();
  rename_pair("pair2");
  open_core();
  EXPECT_FALSE(core_->copy.problem().empty());
  rename_pair("pair3");
  answer();
  save_until_it_is_of_now();
  const auto saved = core_->saved_file.read();
  ASSERT_TRUE(saved) << saved.error().detail;
  EXPECT_EQ(saved->configuration.pair->name, "pair3");
}

TEST_F(ConfigurationCopyTest, ThatIsNewerThanTheDatabaseIsNotWrittenOverThoughThatCountsOn) {
  open_core();
  make_whole_pair();
  auto saved = core_->saved_file.read();
  ASSERT_TRUE(saved) << saved.error().detail;
  auto later = *saved;
  later.revision.n += 10;
  ASSERT_TRUE(core_->saved_file.write(later));
  open_core();
  EXPECT_EQ(core_->database_time(), DatabaseTime::past);
  EXPECT_EQ(core_->copy.newer(), later.revision.n);
  rename_pair("pair2");
  EXPECT_EQ(core_->saved_file.read()->revision, later.revision);
  for (int i = 0; i < 20; ++i) rename_pair("pair" + std::to_string(i));
  EXPECT_EQ(core_->saved_file.read()->revision, core_->revisions.state().head);
  EXPECT_EQ(core_->database_time(), DatabaseTime::past) << "it was, at this start";
  const auto kept = core_->saved_file.path().string() + ".revision-" + std::to_string(later.revision.n);
  EXPECT_TRUE(std::filesystem::exists(kept));
}

TEST_F(ConfigurationCopyTest, AMachineThatIsOutOfItsPairGoesOnWithItsJobsAfterARestart) {
  open_core();
  make_whole_pair();
  ASSERT_TRUE(core_->replaced.set_replaced_here(true));
  core_->jobs.put(make_job(*core_, "counts", "once", ""));
  open_core();
  bool run = false;
  runner_->teach("counts", [&](Job& job) {
    run = true;
    return finish(job, "Done.");
  });
  runner_->turn();
  EXPECT_TRUE(run);
}

TEST_F(ConfigurationCopyTest, ThatIsSetAsideLateIsWrittenAnew) {
  open_core();
  make_whole_pair();
  hang();
  rename_pair("pair2");
  EXPECT_FALSE(core_->copy.set_aside(folder() / "aside"));
  EXPECT_FALSE(core_->copy.problem().empty()) << "somebody has to look again";
  answer();
  save_until_it_is_of_now();
  EXPECT_TRUE(core_->saved_file.read());
}

}  // namespace
}  // namespace lockstep::mgmt
