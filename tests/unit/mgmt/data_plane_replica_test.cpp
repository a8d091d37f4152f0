// Replicas in files and on devices: made and removed again after a cut at any moment, and never in the place of, or
// instead of, something else.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/stores/descriptor.hpp"
#include "engine/stores/file_draft.hpp"
#include "mgmt/data_plane/replica.hpp"
#include "tests/unit/engine/reactor_fixture.hpp"
#include "tests/unit/mgmt/data_plane_file_calls.hpp"

namespace lockstep::data_plane {
namespace {

using engine::Errc;
using engine::Result;
using engine::Uuid;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr int kCut = 77;  ///< the exit code of a process that was ended on the way

Uuid uuid(std::uint8_t number) {
  Uuid id;
  id.bytes.fill(number);
  return id;
}

/// A reactor of its own, and file work at once on its thread.
class Machine {
 public:
  Result<void> create(const ReplicaCreate& request) {
    return run([&](auto done) { create_replica(*ring_, worker(), request, std::move(done)); });
  }
  Result<void> remove(const ReplicaDelete& request) {
    return run([&](auto done) {
      delete_replica(*ring_, worker(), request, [done = std::move(done)](auto outcome) mutable {
        outcome ? done({}) : done(std::unexpected(outcome.error()));
      });
    });
  }
  Result<void> open(const ReplicaCreate& request) {
    return run([&](auto done) {
      open_replica(*ring_, {request.data, request.metadata, request.identity.size, request.identity.block_size},
                   request.identity.volume, request.identity.owner,
                   [done = std::move(done)](Result<OpenedReplica> opened) mutable {
                     if (!opened) return done(std::unexpected(opened.error()));
                     opened->area.reset();
                     opened->stores = {};
                     done({});
                   });
    });
  }

 private:
  FileWorker worker() {
    return [this](std::function<Result<void>()> work, engine::Callback<Result<void>> done) {
      reactor_.post([outcome = work(), done = std::move(done)]() mutable { done(std::move(outcome)); });
    };
  }
  /// What is refused because a process that was ended a moment ago has it open is tried again, for a while.
  Result<void> run(const std::function<void(engine::Callback<Result<void>>)>& start) {
    const auto patience = reactor_.now() + std::chrono::seconds(10);
    for (;;) {
      Result<void> outcome = engine::fail(Errc::timed_out, "It never called back.");
      reactor_.post([&] {
        start([&](Result<void> told) {
          outcome = std::move(told);
          reactor_.stop();
        });
      });
      reactor_.run();
      const bool in_use = !outcome && (outcome.error().message.find("is in use") != std::string::npos ||
                                       outcome.error().message.find("Another process") != std::string::npos);
      if (!in_use || reactor_.now() > patience) return outcome;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  engine::Reactor reactor_;
  std::unique_ptr<engine::IoUring> ring_ = std::move(engine::IoUring::create(reactor_)).value();
};

struct Replicas : testing::Test {
  engine::TestFolder folder;

  [[nodiscard]] ReplicaCreate creation(std::uint8_t volume = 1) const {
    ReplicaCreate request;
    request.identity.pair = uuid(99);
    request.identity.volume = uuid(volume);
    request.identity.name = "v";
    request.identity.serial = "LS1";
    request.identity.size = kMiB;
    request.epoch.number = 1;
    request.epoch.id = uuid(50);
    request.epoch.members = engine::MemberSet::only(engine::NodeSide::a);
    request.epoch.size = kMiB;
    request.data = folder / "v.data";
    request.metadata = folder / "v.meta";
    request.thin = false;
    return request;
  }
  [[nodiscard]] ReplicaDelete deletion(std::uint8_t volume = 1) const {
    return {uuid(volume), {}, kMiB, folder / "v.data", folder / "v.meta"};
  }
  [[nodiscard]] std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      std::ifstream in(entry.path(), std::ios::binary);
      all[entry.path().filename()] = {std::istreambuf_iterator<char>(in), {}};
    }
    return all;
  }
  [[nodiscard]] std::string names() const {
    std::string all;
    for (const auto& [name, content] : files()) all += name + " ";
    return all;
  }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(folder / name, std::ios::binary) << content;
  }
  /// Moves a file away from, or to, the name of its draft.
  void rename(const std::string& from, const std::string& to) const {
    std::filesystem::rename(folder / from, folder / to);
  }
  void clear() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) std::filesystem::remove(entry.path());
  }

  /// Carries out `work` in a process that ends at its `nth` system call on files. False when it did not get that far.
  static bool cut(int nth, const std::function<void(Machine&)>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      Machine machine;
      int left = nth;
      const test::FileCallHook hook([&](const char*) {
        if (left-- == 0) ::_exit(kCut);
      });
      work(machine);
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << status;
    return WEXITSTATUS(status) == kCut;
  }
  /// Brings about each state that a cut of `work` can leave, and runs `check` in it. Says which they were.
  std::set<std::string> in_every_state_left_by(const std::function<void(Machine&)>& before,
                                               const std::function<void(Machine&)>& work,
                                               const std::function<void(const std::string& state)>& check) {
    std::set<std::string> states;
    for (int nth = 0;; ++nth) {
      clear();
      cut(1000000, before);
      const bool was_cut = cut(nth, work);
      const std::string state = names();
      if (!was_cut) return states;
      states.insert(state);
      check("cut before call " + std::to_string(nth) + ", left: " + state);
      if (HasFatalFailure()) return states;
    }
  }
  void expect_made_and_removed(const std::string& state) const {
    Machine machine;
    const auto made = machine.create(creation());
    ASSERT_TRUE(made) << state << ": " << made.error().message;
    EXPECT_EQ(names(), "v.data v.meta ") << state;
    EXPECT_EQ(std::filesystem::file_size(folder / "v.data"), kMiB) << state;
    const auto opened = machine.open(creation());
    EXPECT_TRUE(opened) << state << ": " << opened.error().message;
    const auto again = machine.create(creation());
    EXPECT_TRUE(again) << state << ": " << again.error().message;
    expect_removed(state);
  }
  void expect_removed(const std::string& state) const {
    Machine machine;
    for (int i = 0; i < 2; ++i) {
      const auto removed = machine.remove(deletion());
      ASSERT_TRUE(removed) << state << ": " << removed.error().message;
      EXPECT_EQ(names(), "") << state;
    }
  }
  void expect_refused_and_untouched(std::uint8_t volume = 1) const {
    const auto before = files();
    Machine machine;
    EXPECT_FALSE(machine.create(creation(volume))) << names();
    EXPECT_FALSE(machine.remove(deletion(volume))) << names();
    EXPECT_TRUE(files() == before) << names();
  }
};

const std::function<void(Machine&)> kNothing = [](Machine&) {};

TEST_F(Replicas, ACreationThatWasCutAnywhereIsMadeWhenAskedAgain) {
  const auto work = [this](Machine& machine) { (void)machine.create(creation()); };
  const auto states =
      in_every_state_left_by(kNothing, work, [this](const std::string& state) { expect_made_and_removed(state); });
  EXPECT_EQ(states, (std::set<std::string>{".v.data.new ", ".v.data.new .v.meta.new ", ".v.data.new v.meta ",
                                           "v.data v.meta "}));
}

TEST_F(Replicas, ACreationThatWasCutAnywhereIsRemovedWithoutARest) {
  const auto work = [this](Machine& machine) { (void)machine.create(creation()); };
  in_every_state_left_by(kNothing, work, [this](const std::string& state) { expect_removed(state); });
}

TEST_F(Replicas, ARemovalThatWasCutAnywhereIsFinishedWhenAskedAgain) {
  const auto make = [this](Machine& machine) { (void)machine.create(creation()); };
  const auto work = [this](Machine& machine) { (void)machine.remove(deletion()); };
  const auto states = in_every_state_left_by(make, work, [this](const std::string& state) { expect_removed(state); });
  EXPECT_EQ(states, (std::set<std::string>{"v.data v.meta ", ".v.data.new v.meta ", ".v.data.new ", ""}));
}

TEST_F(Replicas, AReplicaIsMadeAnewAfterARemovalThatWasCutAnywhere) {
  const auto make = [this](Machine& machine) { (void)machine.create(creation()); };
  const auto work = [this](Machine& machine) { (void)machine.remove(deletion()); };
  in_every_state_left_by(make, work, [this](const std::string& state) { expect_made_and_removed(state); });
}

TEST_F(Replicas, WhatADraftHeldIsNotInTheReplicaThatIsMadeInItsPlace) {
  write(".v.data.new", std::string(2 * kMiB, 'x'));
  write(".v.meta.new", std::string(12345, 'x'));
  Machine machine;
  ASSERT_TRUE(machine.create(creation()));
  EXPECT_TRUE(files()["v.data"] == std::string(kMiB, '\0'));
  EXPECT_TRUE(machine.open(creation()));
  EXPECT_EQ(names(), "v.data v.meta ");
}

TEST_F(Replicas, AnUnfinishedReplicaIsNotOpened) {
  Machine machine;
  ASSERT_TRUE(machine.create(creation()));
  rename("v.data", ".v.data.new");
  EXPECT_FALSE(machine.open(creation()));
}

TEST_F(Replicas, ACreationThatFailsLeavesNothing) {
  auto request = creation();
  request.metadata = folder / "missing/v.meta";
  Machine machine;
  EXPECT_FALSE(machine.create(request));
  EXPECT_EQ(names(), "");
  request.metadata = request.data;
  EXPECT_FALSE(machine.create(request));
  EXPECT_EQ(names(), "");
  request.data = folder / ".v.new";
  EXPECT_FALSE(machine.create(request));
  EXPECT_EQ(names(), "");
}

/// What lockstepd's user may not write to: root has to give it to that user.
class Forbidden {
 public:
  explicit Forbidden(const std::filesystem::path& folder) : folder_(folder), user_(::geteuid()) {
    ::chmod(folder.c_str(), 0);
    if (user_ == 0) {
      EXPECT_EQ(::seteuid(65534), 0) << "root may write everywhere";
    }
  }
  Forbidden(const Forbidden&) = delete;
  Forbidden& operator=(const Forbidden&) = delete;
  ~Forbidden() {
    EXPECT_EQ(::seteuid(user_), 0);
    ::chmod(folder_.c_str(), 0700);
  }

 private:
  std::filesystem::path folder_;
  uid_t user_;
};

TEST_F(Replicas, AFolderThatLockstepdMayNotWriteToIsToldWithTheCommandThatGivesItToIt) {
  Machine machine;
  const ReplicaCreate there = creation();
  ASSERT_TRUE(machine.create(there));
  const std::string store = folder / "store";
  std::filesystem::create_directory(store);
  ReplicaCreate moved = creation(2);
  moved.data = store + "/v.data";
  moved.metadata = store + "/v.meta";
  const auto expect_remedy = [](const Result<void>& outcome, const std::string& of) {
    ASSERT_FALSE(outcome);
    EXPECT_NE(outcome.error().message.find("`/usr/lib/lockstep/prepare-state " + of + "` and restart lockstepd"),
              std::string::npos)
        << outcome.error().message;
  };
  {
    const Forbidden forbidden(store);
    expect_remedy(machine.create(moved), store);
  }
  const std::string whole = std::filesystem::path(there.data).parent_path();
  {
    const Forbidden forbidden(whole);
    expect_remedy(machine.open(there), whole);
  }
  EXPECT_TRUE(machine.open(there)) << "it is as good as ever";
  ReplicaCreate nowhere = creation(3);
  nowhere.data = folder / "missing.data";
  const auto missing = machine.open(nowhere);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message.find("prepare-state"), std::string::npos) << missing.error().message;
}

TEST_F(Replicas, ACreationThatIsOvertakenLeavesWhatOthersPutThere) {
  for (const char* name : {"v.data", "v.meta"}) {
    clear();
    Machine machine;
    {
      int renames = 0;
      const test::FileCallHook hook([&](const char* call) {
        if (std::string_view(call) == "renameat2" && renames++ == 0) write(name, "dear to somebody");
      });
      const auto made = machine.create(creation());
      ASSERT_FALSE(made);
      EXPECT_EQ(made.error().code, Errc::refused) << made.error().message;
    }
    EXPECT_EQ(files(), (std::map<std::string, std::string>{{name, "dear to somebody"}}));
  }
}

TEST_F(Replicas, AReplicaOfAnotherVolumeIsNeitherOverwrittenNorRemoved) {
  Machine machine;
  ASSERT_TRUE(machine.create(creation(2)));
  expect_refused_and_untouched(1);
  write(".v.data.new", "left by a cut");
  write(".v.meta.new", "left by a cut");
  expect_refused_and_untouched(1);
  EXPECT_TRUE(machine.open(creation(2)));
}

TEST_F(Replicas, AnUnfinishedReplicaOfAnotherVolumeKeepsItsMetadata) {
  Machine machine;
  ASSERT_TRUE(machine.create(creation(2)));
  rename("v.data", ".v.data.new");
  expect_refused_and_untouched(1);
}

TEST_F(Replicas, MetadataWhoseDataIsNotThereIsNotTakenForAnUnfinishedReplica) {
  Machine machine;
  ASSERT_TRUE(machine.create(creation()));
  std::filesystem::remove(folder / "v.data");  // as where the data's disk is not mounted
  expect_refused_and_untouched();
}

/// Of a copy that is to take another one's place, what was left of an earlier attempt knows what it lacked then.
TEST_F(Replicas, AnEarlierReplacementsLeftOverIsMadeAnewAndTheSameOneIsTaken) {
  ReplicaCreate asked = creation();
  asked.epoch.members = engine::MemberSet::only(engine::NodeSide::b);
  asked.epoch.sequencer = engine::NodeSide::b;
  ReplicaCreate earlier = asked;
  earlier.epoch.id = uuid(49);
  const auto data = [&] { return files().at("v.data"); };
  const auto make = [&](const ReplicaCreate& request) {
    return [request](Machine& machine) { ASSERT_TRUE(machine.create(request)); };
  };
  const std::string old(kMiB, 'x');
  const auto left = [&](Machine& machine) {
    make(earlier)(machine);
    write("v.data", old);
  };
  const auto expect_made_anew_once = [&](const std::string& state) {
    Machine machine;
    const auto made = machine.create(asked);
    ASSERT_TRUE(made) << state << ": " << made.error().message;
    EXPECT_EQ(names(), "v.data v.meta ") << state;
    EXPECT_TRUE(data() == std::string(kMiB, '\0')) << state;
    EXPECT_TRUE(machine.open(asked)) << state;
    write("v.data", old);
    ASSERT_TRUE(machine.create(asked)) << state;
    EXPECT_TRUE(data() == old) << "it is there already: " << state;
  };
  cut(1000000, left);
  expect_made_anew_once("not cut");
  EXPECT_GT(in_every_state_left_by(left, make(asked), expect_made_anew_once).size(), 2U);
}

TEST_F(Replicas, AFileThatIsNoReplicaIsNeitherOverwrittenNorRemoved) {
  write("v.data", "dear to somebody");
  expect_refused_and_untouched();
  write(".v.data.new", "left by a cut");
  write(".v.meta.new", "left by a cut");
  expect_refused_and_untouched();
  clear();
  write("v.meta", "dear to somebody");
  expect_refused_and_untouched();
  write(".v.data.new", "left by a cut");
  expect_refused_and_untouched();
}

TEST_F(Replicas, ADraftThatAnotherProcessMakesIsLeftToIt) {
  write(".v.data.new", "half made");
  const engine::Descriptor file(::open((folder / ".v.data.new").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(file.get(), LOCK_EX), 0);
  EXPECT_EQ(engine::remove_draft(folder / "v.data").error().code, Errc::refused);
  EXPECT_FALSE(engine::make_draft(folder / "v.data", kMiB, engine::Allocation::thin));
  EXPECT_EQ(files()[".v.data.new"], "half made");
  ASSERT_EQ(::flock(file.get(), LOCK_UN), 0);
  EXPECT_TRUE(engine::remove_draft(folder / "v.data"));
  EXPECT_EQ(names(), "");
}

/// A loop device over a file, where the machine gives us one.
struct ReplicasOnDevices : Replicas {
  std::string device;
  void SetUp() override { attach(512); }
  void attach(unsigned sector) {
    const std::string image = folder / "disk.img";
    std::ofstream(image).close();
    std::filesystem::resize_file(image, 16 * kMiB);
    FILE* out = popen(("losetup --show -f -b " + std::to_string(sector) + " " + image + " 2>/dev/null").c_str(), "r");
    char line[64] = {};
    if (fgets(line, sizeof line, out) != nullptr) device = std::string(line, strcspn(line, "\n"));
    pclose(out);
    if (device.empty()) GTEST_SKIP() << "no loop device";
  }
  void TearDown() override {
    if (!device.empty() && std::system(("losetup -d " + device).c_str()) != 0) ADD_FAILURE() << device;
  }
};

TEST_F(ReplicasOnDevices, TheDeviceStaysWhereItIsAndIsTakenAgainAfterARemoval) {
  auto request = creation();
  request.data = request.metadata = device;
  auto removal = deletion();
  removal.data = removal.metadata = device;
  Machine machine;
  for (int i = 0; i < 2; ++i) {
    const auto made = machine.create(request);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_TRUE(machine.create(request));
    EXPECT_FALSE(machine.remove({uuid(2), {}, kMiB, device, device}));
    EXPECT_TRUE(machine.open(request));
    const auto removed = machine.remove(removal);
    ASSERT_TRUE(removed) << removed.error().message;
    EXPECT_TRUE(std::filesystem::is_block_file(device));
  }
}

/// A volume with blocks of 4096 bytes on a disk with sectors of as many.
struct ReplicasOnLargeSectors : ReplicasOnDevices {
  void SetUp() override { attach(4096); }
  void are_made_opened_and_removed(const std::string& data, const std::string& metadata) {
    auto request = creation();
    request.identity.block_size = 4096;
    request.data = data, request.metadata = metadata;
    const auto made = machine.create(request);
    ASSERT_TRUE(made) << made.error().message;
    const auto opened = machine.open(request);
    EXPECT_TRUE(opened) << opened.error().message;
    const auto removed = machine.remove({uuid(1), {}, kMiB, data, metadata});
    EXPECT_TRUE(removed) << removed.error().message;
  }
  Machine machine;
};

TEST_F(ReplicasOnLargeSectors, OfTheDeviceItself) { are_made_opened_and_removed(device, device); }

TEST_F(ReplicasOnLargeSectors, InFiles) {
  const std::string mounted = folder / "mounted";
  std::filesystem::create_directory(mounted);
  const std::string made = "mkfs.ext4 -q -b 4096 -O ^has_journal " + device + " >/dev/null 2>&1 && mount " + device +
                           " " + mounted + " 2>/dev/null";
  if (std::system(made.c_str()) != 0) GTEST_SKIP() << "may not mount";
  are_made_opened_and_removed(mounted + "/v.data", mounted + "/v.meta");
  EXPECT_EQ(::umount(mounted.c_str()), 0);
}

}  // namespace
}  // namespace lockstep::data_plane
