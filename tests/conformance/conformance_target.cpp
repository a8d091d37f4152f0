// A target with one reactor and nothing but what the data path needs. Says where it is in one line, then serves until
// SIGTERM or SIGINT:
//   conformance_target --target IQN [--chap USER SECRET] [--file PATH] SIZE...
// Each SIZE (bytes) is a volume, at LUN 0, 1, ...; LUN 0 lies in PATH when given, everything else in memory. A SIZE
// that ends in "r" is read-only, one that ends in "t" is not thin.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/runtime/reactor.hpp"
#include "engine/store_disk.hpp"
#include "engine/stores/file_store.hpp"
#include "engine/stores/memory_store.hpp"
#include "iscsi_target/scsi/target_device.hpp"
#include "iscsi_target/server/server.hpp"

namespace {

using namespace lockstep;

struct Volume {
  std::unique_ptr<engine::Store> store;
  std::unique_ptr<engine::StoreDisk> disk;
  std::shared_ptr<iscsi_target::LogicalUnit> unit;
};

struct Arguments {
  std::string target = "iqn.2026-11.io.lockstep:conformance";
  std::optional<iscsi::ChapCredentials> chap;
  std::string file;
  std::vector<std::string> sizes;
};

/// Every initiator, with the same credentials when there are any.
class Everybody final : public iscsi_target::AccessPolicy {
 public:
  explicit Everybody(std::optional<iscsi::ChapCredentials> chap) : chap_(std::move(chap)) {}
  [[nodiscard]] iscsi_target::AccessAnswer may_log_in(std::string_view, std::string_view) const override {
    iscsi_target::AccessAnswer answer;
    answer.verdict = iscsi_target::AccessAnswer::Verdict::allowed;
    if (chap_) answer.chap = {*chap_};
    return answer;
  }

 private:
  std::optional<iscsi::ChapCredentials> chap_;
};

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "conformance_target: %s\n", why.c_str());
  std::exit(1);
}

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto next = [&] { return i + 1 < argc ? std::string(argv[++i]) : (die(word + " needs a value"), ""); };
    if (word == "--target") {
      a.target = next();
    } else if (word == "--chap") {
      a.chap.emplace();
      a.chap->user = next();
      a.chap->secret = next();
    } else if (word == "--file") {
      a.file = next();
    } else {
      a.sizes.push_back(word);
    }
  }
  if (a.sizes.empty()) die("give at least one volume's size in bytes");
  return a;
}

template <class T>
T must(engine::Result<T> result) {
  if (!result) die(result.error().message);
  return std::move(*result);
}

Volume make_volume(const Arguments& a, std::size_t lun, engine::Reactor& reactor, engine::IoUring& ring,
                   engine::BufferPool& pool) {
  engine::DiskInfo info;
  info.id.bytes = {0xC0, 0x4F, 0x02, 0x3A, 0x11, 0x22, 0x43, 0x44,
                   0x85, 0x66, 0x77, 0x88, 0x99, 0xAA, 0xBB, static_cast<std::uint8_t>(lun)};
  info.name = "conformance" + std::to_string(lun);
  info.serial = "CONFORMANCE" + std::to_string(lun);
  info.size = std::strtoull(a.sizes[lun].c_str(), nullptr, 10);
  info.read_only = a.sizes[lun].ends_with('r');
  info.thin = !a.sizes[lun].ends_with('t');
  Volume v;
  if (lun == 0 && !a.file.empty()) {
    if (auto made = engine::FileStore::create(a.file, info.size, engine::Allocation::thin); !made) {
      die(made.error().message);
    }
    v.store = must(engine::FileStore::open(ring, a.file, info.size, info.block_size));
  } else {
    v.store = must(engine::MemoryStore::create(reactor, info.size, info.block_size, info.name));
  }
  v.disk = std::make_unique<engine::StoreDisk>(*v.store, pool, info);
  v.unit = std::make_shared<iscsi_target::LogicalUnit>(
      *v.disk, iscsi_target::UnitSettings{.target_name = a.target, .paired = false});
  return v;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);  // before any thread starts
  std::signal(SIGPIPE, SIG_IGN);

  engine::Reactor reactor;
  engine::BufferPool pool(std::size_t{256} << 20, engine::BufferPool::Layout::by_size);
  auto ring = must(engine::IoUring::create(reactor, {.pool = &pool}));
  std::vector<Volume> volumes;
  std::vector<iscsi_target::LunEntry> entries;
  for (std::size_t lun = 0; lun < arguments.sizes.size(); ++lun) {
    volumes.push_back(make_volume(arguments, lun, reactor, *ring, pool));
    entries.push_back({static_cast<std::uint16_t>(lun), volumes.back().unit});
  }
  iscsi_target::TargetDevice device(pool, reactor);
  device.adopt(must(iscsi_target::LunMap::make(std::move(entries), {})), {});

  iscsi_target::TargetRegistry registry;
  iscsi_target::Target target;
  target.name = arguments.target;
  target.device_servers = {&device};
  target.access = std::make_shared<Everybody>(arguments.chap);

  iscsi_target::TargetServer server({{&reactor, &pool}}, registry);
  reactor.start();
  const std::string portal = must(server.listen("127.0.0.1:0"));
  target.portals = {{.address = portal, .group = 1}};
  registry.put(std::move(target));
  std::printf("ready %s %s\n", portal.c_str(), arguments.target.c_str());
  std::fflush(stdout);

  int signal = 0;
  sigwait(&signals, &signal);
  server.stop([&] { reactor.stop(); });
  reactor.join();
  return 0;
}
