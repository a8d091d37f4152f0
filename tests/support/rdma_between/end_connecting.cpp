// How a connection comes about, and how it ends.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "tests/support/rdma_between/addresses.hpp"
#include "tests/support/rdma_between/end.hpp"

namespace lockstep::test::between {

using rdma::RdmaErrc;

namespace {

constexpr auto kPatience = std::chrono::seconds(2);  // for the peer's answer to a call, or to an answer
constexpr auto kCallAgain = std::chrono::milliseconds(10);

}  // namespace

void End::be_patient() {
  patience_ = host_.reactor.call_after(kPatience, [this] {
    patience_ = engine::TimerId::none;
    lose(std::make_error_code(std::errc::timed_out));
  });
}

void End::fail(std::error_code why) { lose_later(why); }

void End::call(std::span<const std::byte> private_data) {
  assert(private_data.size() <= kCallData);
  private_data_.assign(private_data.begin(), private_data.end());
  private_data_.resize(kCallData);
  is_calling_ = is_dialling_ = true;
  be_patient();
  host_.reactor.at_end_of_turn(*this);
}

void End::answer(Descriptor socket, std::uint32_t reads_served, std::span<const std::byte> private_data) {
  assert(private_data.size() <= kAnswerData);
  private_data_.assign(private_data.begin(), private_data.end());
  private_data_.resize(kAnswerData);
  limits_.reads = std::min(limits_.reads, reads_served);
  owes_answer_ = true;
  be_patient();
  begin(std::move(socket));
  host_.reactor.at_end_of_turn(*this);
}

void End::begin(Descriptor socket) {
  socket_ = std::make_unique<PacketSocket>(host_.reactor, std::move(socket));
  wait_for_packets();
}

void End::dial() {
  if (host_.cable.now() == Cable::silent) return;
  if (host_.cable.now() == Cable::cut) return lose(RdmaErrc::port_down);
  for (const std::string& address : {names_.peer, any_address_for(names_.peer)}) {
    auto called = call_at(host_.process.folder.name_of(address));
    if (!called && called.error() == std::errc::resource_unavailable_try_again) return dial_again();
    if (!called || !is_of_this_user(called->number())) continue;
    is_dialling_ = false;
    begin(std::move(*called));
    const auto text = [](const std::string& name) { return std::as_bytes(std::span(name.c_str(), name.size() + 1)); };
    const std::array<std::span<const std::byte>, 3> bytes = {text(names_.local), text(names_.peer), private_data_};
    (void)transmit({.kind = Kind::call, .length = kReadsServed}, bytes);
    return;
  }
  lose(std::make_error_code(std::errc::connection_refused));
}

/// So many call at once that it has to wait.
void End::dial_again() {
  if (retry_ != engine::TimerId::none) return;
  retry_ = host_.reactor.call_after(kCallAgain, [this] {
    retry_ = engine::TimerId::none;
    if (phase_ == Phase::connecting) dial();
  });
}

bool End::answered(const Packet& packet) {
  if (!is_calling_) {
    if (packet.header.kind != Kind::ready) return false;
    stand({});
    return true;
  }
  if (packet.header.kind == Kind::refuse) {
    lose(std::make_error_code(std::errc::connection_refused));
    return true;
  }
  if (packet.header.kind != Kind::accept) return false;
  limits_.reads = std::min(limits_.reads, packet.header.length);
  owes_ready_ = true;
  stand(packet.bytes);
  return true;
}

void End::stand(std::span<const std::byte> private_data) {
  host_.reactor.cancel(std::exchange(patience_, engine::TimerId::none));
  phase_ = Phase::up;
  user_->on_established(private_data);
}

void End::lose(std::error_code why) {
  if (phase_ == Phase::closing || phase_ == Phase::lost) return;
  // What nobody was told to stand has no completions.
  if (phase_ == Phase::up) host_.reactor.post([this] { flush(); });
  phase_ = Phase::lost;
  is_dialling_ = false;
  loss_.clear();
  socket_.reset();
  host_.reactor.cancel(std::exchange(patience_, engine::TimerId::none));
  user_->on_lost(why);
}

/// What was not carried out is given back.
void End::flush() {
  std::vector<rdma::Completion> given_back;
  for (auto* const queue : {&awaiting_, &requests_, &reading_, &reads_}) {
    for (const Request& each : *queue) {
      if (each.id != 0) given_back.push_back({.work = each.work, .id = each.id, .error = RdmaErrc::flushed});
    }
    queue->clear();
  }
  for (auto* const queue : {&receives_, &staged_}) {
    for (const Receive& each : *queue) {
      given_back.push_back({.work = rdma::Work::receive, .id = each.id, .error = RdmaErrc::flushed});
    }
    queue->clear();
  }
  for (const auto& each : given_back) tell(each);
}

void End::cable_changed(Cable now) {
  if (phase_ == Phase::lost || phase_ == Phase::closing) return;
  if (now == Cable::cut) return lose(RdmaErrc::port_down);
  if (now == Cable::silent) return;
  if (socket_) wait_for_packets();
  host_.reactor.at_end_of_turn(*this);
}

}  // namespace lockstep::test::between
