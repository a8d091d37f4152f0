#include "tests/support/rdma_between/listener.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <latch>
#include <optional>

#include <sys/socket.h>

#include "tests/support/rdma_between/end.hpp"

namespace lockstep::test::between {
namespace {

constexpr std::size_t kCallers = 128;  // that have not said who they are

/// Nothing: it is no call.
std::unique_ptr<BetweenCall> call_of(const Packet& packet, PacketSocket& from) {
  std::array<std::string, 2> names;
  auto rest = packet.bytes;
  for (std::string& name : names) {
    const auto end = std::ranges::find(rest, std::byte{0});
    if (end == rest.end()) return nullptr;
    const auto length = static_cast<std::size_t>(end - rest.begin());
    name.assign(reinterpret_cast<const char*>(rest.data()), length);
    rest = rest.subspan(length + 1);
  }
  if (packet.header.kind != Kind::call || rest.size() != kCallData) return nullptr;
  return std::make_unique<BetweenCall>(from.take(), std::move(names[1]), std::move(names[0]), packet.header.length,
                                       std::vector(rest.begin(), rest.end()));
}

}  // namespace

Control::Control(const Folder& folder) : cable(folder, reactor) { reactor.start(); }

Control::~Control() {
  reactor.stop();
  reactor.join();
}

void Control::ask(engine::Callback<> work) {
  if (reactor.on_this_thread()) return work();
  std::latch done(1);
  reactor.post([&] {
    work();
    done.count_down();
  });
  done.wait();
}

ListenerCore::ListenerCore(Control& control, engine::Reactor& home, std::string address,
                           engine::Callback<std::unique_ptr<rdma::Call>> called)
    : control_(control), home_(home), address_(std::move(address)), called_(std::move(called)) {}

void ListenerCore::open(Descriptor socket) {
  socket_ = std::make_unique<PacketSocket>(control_.reactor, std::move(socket));
  control_.cable.plug(*this);
  wait();
}

void ListenerCore::close() {
  control_.cable.unplug(*this);
  callers_.clear();
  socket_.reset();
}

void ListenerCore::cable_changed(Cable now) {
  if (now == Cable::good) wait();
}

void ListenerCore::wait() {
  if (std::exchange(is_waiting_, true)) return;
  socket_->when_readable([this] {
    is_waiting_ = false;
    // Until it is whole again they wait in vain, and give up.
    if (control_.cable.now() == Cable::good) accept_some();
  });
}

void ListenerCore::accept_some() {
  while (true) {
    Descriptor taken(::accept4(socket_->number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!taken.is_open()) break;
    if (!is_of_this_user(taken.number()) || callers_.size() >= kCallers) continue;
    callers_.push_front(std::make_unique<PacketSocket>(control_.reactor, std::move(taken)));
    callers_.front()->when_readable([this, caller = callers_.begin()] { take_call(caller); });
  }
  wait();
}

void ListenerCore::take_call(std::list<Caller>::iterator caller) {
  const Caller socket = std::move(*caller);
  callers_.erase(caller);
  std::vector<std::byte> room(kPacketRoom);
  const auto packet = receive_packet(socket->number(), room);
  if (!packet || !*packet) return;
  auto call = call_of(**packet, *socket);
  if (call == nullptr) return;
  home_.post([self = shared_from_this(), call = std::move(call)]() mutable { self->hand_out(std::move(call)); });
}

void ListenerCore::hand_out(std::unique_ptr<rdma::Call> call) {
  if (!is_closed) called_(std::move(call));
}

BetweenListener::~BetweenListener() {
  core_->is_closed = true;
  control_.ask([this] { core_->close(); });
}

BetweenCall::BetweenCall(Descriptor socket, std::string local, std::string peer, std::uint32_t reads_served,
                         std::vector<std::byte> private_data)
    : socket_(std::move(socket)),
      local_(std::move(local)),
      peer_(std::move(peer)),
      reads_served_(reads_served),
      private_data_(std::move(private_data)) {}

BetweenCall::~BetweenCall() {
  if (socket_.is_open()) (void)send_packet(socket_.number(), {.kind = Kind::refuse}, {});
}

std::unique_ptr<rdma::QueuePair> BetweenCall::accept(rdma::Completions& completions, rdma::Domain domain,
                                                     const rdma::Wanted& wanted,
                                                     std::span<const std::byte> private_data,
                                                     rdma::QueuePairUser& user) {
  assert(socket_.is_open() && "a call is accepted once");
  auto made = std::make_unique<End>(static_cast<Host&>(completions), domain, wanted, End::Names{local_, peer_}, user);
  made->answer(Descriptor(socket_.release()), reads_served_, private_data);
  return made;
}

}  // namespace lockstep::test::between
