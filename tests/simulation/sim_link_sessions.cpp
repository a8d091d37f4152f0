// How the sessions of a simulated link come and go, and what each end knows of that.
#include <algorithm>
#include <utility>

#include "tests/simulation/sim_link.hpp"

namespace lockstep::simulation {

using engine::Errc;

void SimLink::sender_started(replication::LinkEvents& events, std::uint16_t speaks) {
  sender_speaks_ = speaks;
  sender_events_ = &events;
  schedule_attempt(random_.below(50 * kMillisecond));
}

void SimLink::receiver_started(replication::LinkEvents& events, std::uint16_t speaks) {
  receiver_speaks_ = speaks;
  receiver_events_ = &events;
}

void SimLink::schedule_attempt(Nanos delay) {
  scheduler_.after(delay, sender_owner(), &SimLink::on_attempt, this, ++attempt_);
}

void SimLink::on_attempt(void* self, std::uint64_t attempt) {
  auto& link = *static_cast<SimLink*>(self);
  if (attempt != link.attempt_ || link.sender_session_ != 0) return;
  // Tried again unless it gets somewhere: the connection, the login and its answer may all be lost on the way.
  link.scheduler_.after(link.random_.between(50 * kMillisecond, 300 * kMillisecond), link.sender_owner(),
                        &SimLink::on_attempt, &link, attempt);
  if (!link.network_.whole() || link.receiver_events_ == nullptr || !link.device_is_there_) return;
  link.scheduler_.after(link.delay(), link.receiver_owner(), &SimLink::on_login, &link, attempt);
}

void SimLink::on_login(void* self, std::uint64_t attempt) {
  auto& link = *static_cast<SimLink*>(self);
  if (attempt != link.attempt_ || link.sender_session_ != 0 || !link.network_.whole()) return;
  if (link.receiver_events_ == nullptr || link.sender_events_ == nullptr || !link.device_is_there_) return;
  link.end_receiver_session(true);
  link.receiver_session_ = ++link.last_session_;
  link.trace_.add(letter(link.receiver_owner()), "link.inbound_up", {{"session", link.receiver_session_}});
  link.scheduler_.after(link.delay(), link.sender_owner(), &SimLink::on_logged_in, &link, link.receiver_session_);
  link.receiver_events_->on_inbound_up(link.receiver_session_);
}

void SimLink::on_logged_in(void* self, std::uint64_t session) {
  auto& link = *static_cast<SimLink*>(self);
  if (link.sender_session_ != 0 || session != link.receiver_session_ || session == link.broken_session_) return;
  link.sender_session_ = session;
  if (link.rdma_) link.rdma_->connect(link);
  link.version_ = std::min(link.sender_speaks_, link.receiver_speaks_);
  link.up_ = true;
  link.trace_.add(letter(link.sender_owner()), "link.up", {{"session", session}});
  link.sender_events_->on_link_up();
}

void SimLink::on_sender_notices(void* self, std::uint64_t session) {
  auto& link = *static_cast<SimLink*>(self);
  if (session != link.sender_session_ || link.sender_events_ == nullptr) return;
  link.broken_session_ = std::max(link.broken_session_, session);
  if (link.rdma_) return link.begin_to_close(session);
  for (Packet& packet : link.wire_) link.take_copy(packet);  // what is under way no longer needs the sender's buffers
  link.end_session_at_sender(session);
}

void SimLink::end_session_at_sender(std::uint64_t session) {
  fail_outstanding();
  is_closing_ = false;
  sender_session_ = 0;
  up_ = false;
  trace_.add(letter(sender_owner()), "link.down", {{"session", session}});
  schedule_attempt(random_.between(kMillisecond, 200 * kMillisecond));
  sender_events_->on_link_down();
}

void SimLink::fail_outstanding() {
  for (std::size_t turns = 0; turns < 1000; ++turns) {
    bool any = false;
    for (std::uint32_t id = 0; id < slots_.size(); ++id) {
      if (!slots_[id].live || slots_[id].session != sender_session_) continue;
      any = true;
      auto done = std::move(slots_[id].done);
      release_slot(id);
      done(std::unexpected(make_error_code(Errc::unknown_outcome)));
    }
    if (!any) return;
  }
  verdict_.fail("a request that ended with unknown_outcome is sent again without end while the link goes down");
}

void SimLink::on_refuse(void* self, std::uint64_t argument) {
  auto& link = *static_cast<SimLink*>(self);
  const auto id = static_cast<std::uint32_t>(argument);
  if (!link.slots_[id].live || link.slots_[id].generation != argument >> 32) return;
  auto done = std::move(link.slots_[id].done);
  const Errc refusal = link.slots_[id].refusal;
  link.release_slot(id);
  done(std::unexpected(make_error_code(refusal)));
}

void SimLink::on_receiver_notices(void* self, std::uint64_t session) {
  auto& link = *static_cast<SimLink*>(self);
  if (session == link.receiver_session_) link.end_receiver_session(true);
}

void SimLink::end_receiver_session(bool tell) {
  if (receiver_session_ == 0) return;
  const std::uint64_t session = std::exchange(receiver_session_, 0);
  broken_session_ = std::max(broken_session_, session);
  may_deliver_ = 0;
  for (Packet& packet : wire_) {
    if (packet.copied && packet.payload.capacity() != 0) spare_.push_back(std::move(packet.payload));
  }
  wire_.clear();
  window_ = 0;
  sent_at_ = 0;
  if (rdma_) goes_on_writing();
  if (sender_session_ == session) {
    const Nanos within = network_.whole() ? 100 * kMillisecond : times_.notice;
    scheduler_.after(random_.skewed(0, within), sender_owner(), &SimLink::on_sender_notices, this, session);
  }
  if (!tell || receiver_events_ == nullptr) return;
  trace_.add(letter(receiver_owner()), "link.inbound_down", {{"session", session}});
  receiver_events_->on_inbound_down(session);
}

void SimLink::both_notice(Nanos sender_within, Nanos receiver_within) {
  const std::uint64_t session = std::max(sender_session_, receiver_session_);
  if (session == 0 || session == broken_session_) return;
  broken_session_ = session;
  may_deliver_ = random_.below(wire_.size() + 1);
  scheduler_.after(random_.skewed(0, sender_within), sender_owner(), &SimLink::on_sender_notices, this, session);
  scheduler_.after(random_.skewed(0, receiver_within), receiver_owner(), &SimLink::on_receiver_notices, this, session);
}

void SimLink::break_session() {
  trace_.add('-', "link.break", {{"sender", static_cast<std::uint64_t>(sender_)}});
  both_notice(100 * kMillisecond, 100 * kMillisecond);
}

void SimLink::passes_more_or_less() {
  if (network_.whole()) send_held_again();
}

void SimLink::send_held_again() {
  stuck_session_ = 0;
  pump();
  if (rdma_) goes_on_writing();
  for (std::uint32_t id = 0; id < replies_.size(); ++id) {
    if (!replies_[id].live || !replies_[id].arrived_at_wire) continue;
    scheduler_.after(delay(), sender_owner(), &SimLink::on_reply, this,
                     (std::uint64_t{replies_[id].generation} << 32) | id);
  }
}

void SimLink::network_changed() {
  if (network_.whole()) return send_held_again();
  // A transport that hears nothing gives up sooner or later; if the wire comes back first, all goes on.
  if (random_.chance(700'000)) {
    const std::uint64_t session = sender_session_;
    if (session != 0) {
      scheduler_.after(random_.between(times_.notice / 4, times_.notice), sender_owner(), &SimLink::on_sender_notices,
                       this, session);
    }
  }
  if (random_.chance(700'000)) {
    const std::uint64_t session = receiver_session_;
    if (session != 0) {
      scheduler_.after(random_.between(times_.notice / 4, times_.notice), receiver_owner(),
                       &SimLink::on_receiver_notices, this, session);
    }
  }
}

void SimLink::sender_died(bool silent) {
  sender_events_ = nullptr;
  ++attempt_;
  sender_session_ = 0;
  up_ = false;
  is_closing_ = false;
  if (rdma_) rdma_->process_died(), drop_unread();
  if (receiver_session_ != 0) {
    // What had left the machine may still arrive; what had not is gone with its buffers.
    broken_session_ = receiver_session_;
    may_deliver_ = random_.below(wire_.size() + 1);
    for (Packet& packet : wire_) take_copy(packet);
    const Nanos within =
        silent ? random_.between(times_.notice / 4, times_.notice) : random_.skewed(0, 100 * kMillisecond);
    scheduler_.after(within, receiver_owner(), &SimLink::on_receiver_notices, this, receiver_session_);
  }
  for (std::uint32_t id = 0; id < slots_.size(); ++id) {
    if (!slots_[id].live) continue;
    const auto dropped = std::move(slots_[id].done);
    release_slot(id);
  }
  for (std::uint32_t id = 0; id < replies_.size(); ++id) {
    if (replies_[id].live && replies_[id].copied) release_reply(id);
  }
}

void SimLink::receiver_died(bool silent) {
  receiver_events_ = nullptr;
  pumping_ = false;  // its event went with the process
  end_receiver_session(false);
  drop_inbounds();
  for (std::uint32_t id = 0; id < replies_.size(); ++id) {
    if (!replies_[id].live) continue;
    const auto dropped = std::move(replies_[id].sent);
    // An answer that had left the machine still arrives, unless the break overtakes it.
    if (!replies_[id].copied || random_.chance(500'000)) release_reply(id);
  }
  if (sender_session_ != 0) {
    broken_session_ = sender_session_;
    const Nanos within =
        silent ? random_.between(times_.notice / 4, times_.notice) : random_.skewed(0, 100 * kMillisecond);
    scheduler_.after(within, sender_owner(), &SimLink::on_sender_notices, this, sender_session_);
  }
}

}  // namespace lockstep::simulation
