// A host that comes over RDMA by the fabric between processes (LOCKSTEP_TEST_FABRIC): it writes blocks, reads each back
// and compares. Ends with 0 when all were right, 1 when one was not, 3 when the connection was lost.
#include <algorithm>
#include <iostream>

#include <CLI/CLI.hpp>

#include "engine/runtime/reactor.hpp"
#include "tests/support/rdma_between/fabric.hpp"
#include "tests/unit/iser/iser_initiator.hpp"

namespace lockstep::test {
namespace {

constexpr std::uint8_t kRead10 = 0x28, kWrite10 = 0x2a, kGood = 0;
constexpr std::uint64_t kTries = 5;  // of a command that is refused
constexpr std::uint32_t kBlock = 512, kSpan = std::uint32_t{8} << 20;
/// All of it immediate; a part of it; a message of several packets.
constexpr std::array<std::uint32_t, 3> kSizes = {4096, 65536, std::uint32_t{1} << 20};

class WindowMemory final : public SharedMemory {
 public:
  [[nodiscard]] rdma::Domain domain() const override { return rdma::Domain::link; }
  [[nodiscard]] rdma::Remote open(rdma::QueuePair& pair, std::span<std::byte> memory, rdma::Access access) override {
    return pair.expose(memory, access);
  }
  void shut(rdma::QueuePair* pair, std::uint32_t key) override {
    if (pair != nullptr) pair->hide(key, 1);
  }
};

class Host {
 public:
  Host(rdma::Fabric& fabric, engine::BufferPool& pool, std::string target, std::uint64_t count)
      : initiator_(fabric, fabric.attach(reactor_), std::make_unique<WindowMemory>(), pool,
                   {.invalidates = true, .immediate = 8192, .target = std::move(target)}),
        count_(count) {}

  int run(const std::string& portal) {
    initiator_.call(portal);
    look();
    reactor_.run();
    for (const auto& fault : initiator_.faults) std::cout << fault << "\n";
    std::cout << "blocks " << done_ << " wrong " << wrong_ << (initiator_.lost() ? " lost" : "")
              << initiator_.login_error << std::endl;
    if (wrong_ > 0 || !initiator_.faults.empty()) return 1;
    return initiator_.lost() || !initiator_.login_error.empty() ? 3 : 0;
  }

 private:
  /// Until it is over: begins when the session stands, ends when the connection is gone.
  void look() {
    if (initiator_.closed()) return reactor_.stop();
    if (initiator_.logged_in() && !std::exchange(has_begun_, true)) write();
    if (is_over_ || !initiator_.login_error.empty()) initiator_.close();
    reactor_.call_after(std::chrono::milliseconds(1), [this] { look(); });
  }
  [[nodiscard]] std::uint32_t bytes() const { return kSizes[done_ % kSizes.size()]; }
  [[nodiscard]] std::uint32_t lba() const {
    return static_cast<std::uint32_t>(done_ * 131072 % (kSpan - (std::uint32_t{1} << 20))) / kBlock;
  }
  [[nodiscard]] std::byte pattern(std::size_t at) const {
    return static_cast<std::byte>(at * 7 + at / 509 + done_ * 31);
  }

  void write() {
    auto memory = initiator_.memory(bytes());
    for (std::size_t at = 0; at < bytes(); ++at) memory.span()[at] = pattern(at);
    initiator_.command(kWrite10, lba(), bytes(), true, std::move(memory), [this](const Answer& answer) {
      // The first command of a session is told of a power on.
      if (!is_good(answer)) return again();
      read();
    });
  }
  void read() {
    auto memory = initiator_.memory(bytes());
    std::ranges::fill(memory.span(), std::byte{0});
    const auto tag = initiator_.next_tag;
    initiator_.command(kRead10, lba(), bytes(), false, std::move(memory), [this, tag](const Answer& answer) {
      if (!is_good(answer)) return again();
      const auto span = initiator_.io(tag).memory.span();
      for (std::size_t at = 0; at < bytes(); ++at) {
        if (span[at] == pattern(at)) continue;
        ++wrong_;
        break;
      }
      if (++done_ % 100 == 0) std::cout << "blocks " << done_ << std::endl;
      is_over_ = done_ == count_;
      if (!is_over_) write();
    });
  }
  void again() {
    if (++refused_ <= kTries) return write();
    ++wrong_;
    is_over_ = true;
  }
  bool is_good(const Answer& answer) {
    const bool is_it = answer.as<iscsi::ScsiResponseHeader>().status == kGood;
    if (is_it) refused_ = 0;  // in a row
    return is_it;
  }

  engine::Reactor reactor_;
  IserInitiator initiator_;
  std::uint64_t count_, done_ = 0, wrong_ = 0, refused_ = 0;
  bool has_begun_ = false, is_over_ = false;
};

}  // namespace
}  // namespace lockstep::test

int main(int argc, char** argv) {
  CLI::App app("Writes to a target over RDMA, reads back and compares.");
  std::string portal, target;
  std::uint64_t count = 100;
  app.add_option("--portal", portal)->required();
  app.add_option("--target", target)->required();
  app.add_option("--count", count, "blocks");
  CLI11_PARSE(app, argc, argv);
  auto fabric = lockstep::test::open_fabric_between_processes();
  if (!fabric) {
    std::cout << fabric.error().message << std::endl;
    return 2;
  }
  lockstep::engine::BufferPool pool(std::size_t{64} << 20);
  (*fabric)->add_arena(pool.arena());
  return lockstep::test::Host(**fabric, pool, target, count).run(portal);
}
