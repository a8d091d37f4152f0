// The other process of processes_test.cpp: listens at the address that it is given, and serves each connection until it
// is killed. It exposes its memory, says where, and writes what it is told to into the caller's windows, over and over.
#include "tests/unit/rdma/peer/peer.hpp"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <memory>
#include <vector>

#include "engine/runtime/reactor.hpp"

namespace lockstep::test {
namespace {

class Server final : public rdma::QueuePairUser {
 public:
  Server(rdma::Call& call, rdma::Completions& completions, std::span<std::byte> memory) : memory_(memory) {
    constexpr rdma::Wanted kWanted = {.sends = 64, .receives = 8, .reads = 4, .max_inline = 64, .windows = 2};
    pair_ = call.accept(completions, rdma::Domain::link, kWanted, {}, *this);
    for (std::uint64_t id = 1; id <= kWanted.receives; ++id) post_receive(id);
  }
  void on_established(std::span<const std::byte>) override {
    const auto opened = pair_->expose(memory_.first(kPeerWindow), rdma::Access::read);
    const std::array bytes = {std::as_bytes(std::span(&opened, 1))};
    pair_->send({.pieces = bytes, .invalidates = {}, .id = 0});
  }
  void on_completion(const rdma::Completion& told) override {
    if (told.error || pair_ == nullptr) return;
    if (told.work == rdma::Work::receive) {
      std::memcpy(&target_, slot(told.id).data(), sizeof target_);
      post_receive(told.id);
      write();
    } else if (told.work == rdma::Work::write) {
      write();
    }
  }
  void on_lost(std::error_code) override {
    pair_->close([this] { pair_.reset(); });
  }

 private:
  [[nodiscard]] std::span<std::byte> slot(std::uint64_t id) const {
    return memory_.subspan(kPeerWindow + id * sizeof target_, sizeof target_);
  }
  void post_receive(std::uint64_t id) { pair_->receive(slot(id), {}, id); }
  void write() { pair_->write(memory_.first(kPeerWindow), target_, 1); }

  std::span<std::byte> memory_;
  rdma::Remote target_;
  std::unique_ptr<rdma::QueuePair> pair_;
};

int serve(const char* address) {
  engine::Reactor reactor;
  std::vector<std::byte> memory(kPeerWindow + 4096);
  std::ranges::fill(memory, kPeerByte);
  auto fabric = open_fabric_between_processes();
  if (!fabric) {
    std::cerr << fabric.error().message << "\n";
    return 1;
  }
  (*fabric)->add_arena(memory);
  const auto completions = (*fabric)->attach(reactor);
  std::vector<std::unique_ptr<Server>> servers;
  const auto listener = (*fabric)->listen(*completions, address, [&](std::unique_ptr<rdma::Call> call) {
    servers.push_back(std::make_unique<Server>(*call, *completions, memory));
  });
  if (!listener) {
    std::cerr << listener.error().message << "\n";
    return 1;
  }
  std::cout << "listening\n" << std::flush;
  reactor.run();
  return 0;
}

}  // namespace
}  // namespace lockstep::test

int main(int argc, char** argv) { return argc == 2 ? lockstep::test::serve(argv[1]) : 2; }
