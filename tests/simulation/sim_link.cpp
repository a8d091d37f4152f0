#include "tests/simulation/sim_link.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/simulation/sim_link_inbound.hpp"

namespace lockstep::simulation {

using engine::Callback;
using engine::Errc;
using engine::IoResult;
using replication::LinkAnswer;

SimLink::SimLink(World world, SimRandom random, engine::NodeSide sender, LinkTimes times)
    : scheduler_(world.scheduler),
      trace_(world.trace),
      verdict_(world.verdict),
      network_(world.network),
      read_message_(world.read_message),
      is_heartbeat_(world.is_heartbeat),
      shard_(world.shard),
      random_(random),
      sender_(sender),
      times_(times) {
  if (world.transport == replication::PathTransport::tcp) return;
  rdma_ = std::make_unique<SimRdma>(scheduler_, verdict_, random_.split(), sender_owner(), world.payloads);
}

SimLink::~SimLink() = default;

void SimLink::send(std::span<const std::byte> header, std::span<const std::byte> payload_out,
                   std::span<std::byte> payload_in, Callback<IoResult<LinkAnswer>> done) {
  if (sender_events_ == nullptr) return;  // from a destructor of a process that died
  if (header.size() > replication::kMaxLinkHeader || payload_out.size() > replication::kMaxLinkPayload ||
      payload_in.size() > replication::kMaxLinkPayload) {
    verdict_.fail("Link::send() was given more than its limits allow");
  }
  std::uint32_t id;
  if (free_slots_.empty()) {
    id = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    id = free_slots_.back();
    free_slots_.pop_back();
  }
  Slot& slot = slots_[id];
  slot.live = true;
  slot.session = sender_session_;
  slot.payload_in = payload_in;
  slot.done = std::move(done);
  trace_.add(letter(sender_owner()), "link.send",
             {{"slot", id}, {"bytes", payload_out.size()}, {"hash", hash_bytes(header)}});
  tell(sender_owner(), header);
  const bool no_room = refused_ && refused_(header);
  if (!up_ || no_room) {
    slot.session = 0;
    slot.refusal = no_room ? Errc::resource_exhausted : Errc::unknown_outcome;
    scheduler_.after(random_.below(kMillisecond), sender_owner(), &SimLink::on_refuse, this,
                     (std::uint64_t{slot.generation} << 32) | id);
    return;
  }
  ++carried_;
  Packet packet;
  packet.slot = id;
  packet.generation = slot.generation;
  packet.session = sender_session_;
  packet.header_bytes = std::min(header.size(), replication::kMaxLinkHeader);
  std::memcpy(packet.header.data(), header.data(), packet.header_bytes);
  packet.source = payload_out;
  packet.hash = hash_bytes(payload_out);
  packet.answer_room = payload_in.size();
  packet.goes_ahead = times_.window != 0 && is_heartbeat_ != nullptr && *is_heartbeat_ && (*is_heartbeat_)(header);
  const Nanos travels = delay();
  if (rdma_ && !give(id, packet, payload_out)) return;
  if (!rdma_ && random_.chance(500'000)) take_copy(packet);
  // Beyond the cut of a session that broke already, nothing gets through.
  if (sender_session_ == broken_session_) return;
  put_on_wire(std::move(packet), travels);
  pump();
}

/// What goes ahead overtakes all that was sent and has not arrived, or none of it.
void SimLink::put_on_wire(Packet packet, Nanos travels) {
  const Nanos left = scheduler_.now();
  packet.sent = left;
  if (times_.bytes_a_second != 0) {
    sent_at_ = std::max(sent_at_, left) + packet.source.size() * kSecond / times_.bytes_a_second;
  }
  if (packet.goes_ahead && random_.chance(500'000) && !any_stands_still()) {
    packet.ready = left + travels;
    const auto later = [&](const Packet& p) { return !p.goes_ahead || p.ready > packet.ready; };
    wire_.insert(std::ranges::find_if(wire_, later), std::move(packet));
    return;
  }
  packet.ready = std::max(left, sent_at_) + travels;
  if (!wire_.empty()) packet.ready = std::max(packet.ready, wire_.back().ready + 1);
  wire_.push_back(std::move(packet));
}

/// The first, or, when the receiver takes no more, the first that goes ahead.
std::deque<SimLink::Packet>::iterator SimLink::next_on_wire() {
  const auto next =
      times_.window == 0 || window_ < times_.window ? wire_.begin() : std::ranges::find_if(wire_, &Packet::goes_ahead);
  if (next == wire_.end() || !any_stands_still()) return next;
  const bool is_behind = std::any_of(wire_.begin(), next + 1, [this](const Packet& p) { return stands_still(p); });
  return is_behind ? wire_.end() : next;
}

/// It is lost each time that it is sent. What was sent in one turn with it is in the same segment.
bool SimLink::stands_still(const Packet& packet) const {
  return std::ranges::any_of(wire_, [&](const Packet& other) {
    return network_.loses(sender_, other.header_bytes + other.source.size()) && other.sent == packet.sent &&
           other.session == packet.session;
  });
}

/// What was sent is acknowledged in order: nothing overtakes it.
bool SimLink::any_stands_still() const {
  if (network_.largest[static_cast<std::size_t>(sender_)] == 0) return false;
  return std::ranges::any_of(
      wire_, [this](const Packet& p) { return network_.loses(sender_, p.header_bytes + p.source.size()); });
}

bool SimLink::is_lost(const Reply& reply) const {
  return reply.session == stuck_session_ ||
         network_.loses(engine::other(sender_), reply.header_bytes + reply.payload.size());
}

void SimLink::tell(Owner who, std::span<const std::byte> header) {
  if (trace_.printing() && read_message_ != nullptr && *read_message_) {
    trace_.note(letter(who), (*read_message_)(header));
  }
}

void SimLink::take_copy(Packet& packet) {
  if (packet.copied) return;
  packet.copied = true;
  if (hash_bytes(packet.source) != packet.hash) {
    verdict_.fail("a buffer given to Link::send() was changed before its answer came");
  }
  if (packet.source.empty()) return;
  if (!spare_.empty()) {
    packet.payload = std::move(spare_.back());
    spare_.pop_back();
  }
  packet.payload.assign(packet.source.begin(), packet.source.end());
}

void SimLink::reset() {
  if (sender_events_ == nullptr || sender_session_ == 0 || is_closing_) return;
  trace_.add(letter(sender_owner()), "link.reset", {{"session", sender_session_}});
  broken_session_ = sender_session_;
  may_deliver_ = random_.chance(500'000) ? random_.below(wire_.size() + 1) : 0;
  scheduler_.after(random_.below(kMillisecond), sender_owner(), &SimLink::on_sender_notices, this, sender_session_);
  const Nanos notice = network_.whole() ? random_.skewed(0, 200 * kMillisecond) : random_.skewed(0, times_.notice);
  scheduler_.after(notice, receiver_owner(), &SimLink::on_receiver_notices, this, sender_session_);
}

// --- Requests and answers -------------------------------------------------------------------------------------------

void SimLink::pump() {
  if (pumping_ || wire_.empty() || !network_.carries_from(sender_) || receiver_session_ == 0) return;
  if (held_[static_cast<std::size_t>(Flow::requests)]) return;
  const auto next = next_on_wire();
  if (next == wire_.end()) return;
  pumping_ = true;
  scheduler_.at(std::max(next->ready, scheduler_.now()), receiver_owner(), &SimLink::on_pump, this, 0);
}

void SimLink::on_pump(void* self, std::uint64_t) {
  auto& link = *static_cast<SimLink*>(self);
  link.pumping_ = false;
  if (link.wire_.empty() || !link.network_.carries_from(link.sender_) || link.receiver_session_ == 0) return;
  if (link.held_[static_cast<std::size_t>(Flow::requests)]) return;
  const auto next = link.next_on_wire();
  if (next == link.wire_.end() || next->ready > link.scheduler_.now()) return link.pump();
  if (next->tagged.write && !next->copied) return link.pull(*next);
  Packet packet = std::move(*next);
  link.wire_.erase(next);
  bool passes = packet.session == link.receiver_session_ && link.receiver_events_ != nullptr;
  if (passes && packet.session == link.broken_session_) {
    passes = link.may_deliver_ != 0;
    if (passes) --link.may_deliver_;
  }
  if (passes && !packet.goes_ahead) ++link.window_;
  link.pump();
  if (passes) link.deliver(std::move(packet));
}

void SimLink::deliver(Packet packet) {
  take_copy(packet);
  if (rdma_) scheduler_.after(delay(), sender_owner(), &SimLink::on_complete, this, packet.send);
  trace_.add(
      letter(receiver_owner()), "link.request",
      {{"slot", packet.slot}, {"session", packet.session}, {"bytes", packet.payload.size()}, {"hash", packet.hash}});
  if (free_inbounds_.empty()) {
    inbounds_.push_back(std::make_unique<Inbound>(*this));
    free_inbounds_.push_back(inbounds_.back().get());
  }
  Inbound* inbound = free_inbounds_.back();
  free_inbounds_.pop_back();
  inbound->take(packet);
  if (garbled_ && garbled_(inbound->header())) inbound->header_[0] ^= std::byte{1};
  if (packet.payload.capacity() != 0) spare_.push_back(std::move(packet.payload));
  receiver_events_->on_request(inbound->session_, *inbound);
}

void SimLink::answer(Inbound& request, std::span<const std::byte> header, std::span<const std::byte> payload,
                     Callback<> sent) {
  if (receiver_events_ == nullptr) return;  // from a destructor of a process that died
  if (!request.live_) {
    verdict_.fail("a request of the partner's was answered twice, or after it was gone");
    return;
  }
  if (header.size() > replication::kMaxLinkAnswerHeader || payload.size() > request.answer_room_) {
    verdict_.fail("an answer on the link is larger than there is room for");
    return;
  }
  if (request.counts_ && request.session_ == receiver_session_) --window_, pump();
  // What was answered early has nothing more to say to anybody.
  reply(request, request.answered_ ? kNobody : request.session_, header, payload, std::move(sent));
  request.poison();
  free_inbounds_.push_back(&request);
}

void SimLink::answer_early(Inbound& request, std::span<const std::byte> header) {
  if (receiver_events_ == nullptr) return;
  if (!request.live_ || std::exchange(request.answered_, true)) {
    verdict_.fail("a request of the partner's was answered early twice, or after it was gone");
    return;
  }
  if (request.counts_ && request.session_ == receiver_session_) --window_, pump();
  request.counts_ = false;
  reply(request, request.session_, header, {}, nullptr);
}

void SimLink::reply(Inbound& request, std::uint64_t session, std::span<const std::byte> header,
                    std::span<const std::byte> payload, Callback<> sent) {
  std::uint32_t id;
  if (free_replies_.empty()) {
    id = static_cast<std::uint32_t>(replies_.size());
    replies_.emplace_back();
  } else {
    id = free_replies_.back();
    free_replies_.pop_back();
  }
  Reply& reply = replies_[id];
  reply.live = true;
  reply.slot = request.slot_;
  reply.slot_generation = request.generation_;
  reply.session = session;
  reply.header_bytes = header.size();
  std::memcpy(reply.header.data(), header.data(), header.size());
  reply.source = payload;
  reply.hash = hash_bytes(payload);
  reply.copied = false;
  reply.arrived_at_wire = false;
  reply.payload.clear();
  reply.is_written = false;
  reply.sent = std::move(sent);
  trace_.add(letter(receiver_owner()), "link.answer",
             {{"slot", request.slot_}, {"session", session}, {"bytes", payload.size()}, {"hash", hash_bytes(header)}});
  tell(receiver_owner(), header);
  if (rdma_ && session == receiver_session_) begin_to_write(reply, request);
  const auto then = reply.is_written ? &SimLink::on_write : &SimLink::on_sent;
  scheduler_.after(device_delay(), reply.is_written ? Owner::world : receiver_owner(), then, this,
                   (std::uint64_t{reply.generation} << 32) | id);
}

void SimLink::on_sent(void* self, std::uint64_t argument) {
  auto& link = *static_cast<SimLink*>(self);
  const auto id = static_cast<std::uint32_t>(argument);
  if (!link.replies_[id].live || link.replies_[id].generation != argument >> 32) return;
  Reply& reply = link.replies_[id];
  if (hash_bytes(reply.source) != reply.hash) {
    link.verdict_.fail("an answer's payload was changed before it was sent");
  }
  if (!reply.is_written) reply.payload.assign(reply.source.begin(), reply.source.end());
  reply.copied = true;
  Callback<> sent = std::move(reply.sent);
  if (reply.session != link.receiver_session_) {
    link.release_reply(id);
  } else {
    Nanos delay = link.delay();
    if (link.times_.late != 0 && link.random_.chance(link.times_.late)) delay += link.random_.below(link.times_.latest);
    link.scheduler_.after(delay, link.sender_owner(), &SimLink::on_reply, &link, argument);
  }
  if (sent) sent();
}

void SimLink::hold(Flow flow, bool held) {
  if (std::exchange(held_[static_cast<std::size_t>(flow)], held) == held) return;
  trace_.add(letter(sender_owner()), held ? "link.flow_held" : "link.flow_goes_on",
             {{"flow", static_cast<std::uint64_t>(flow)}});
  if (held) return;
  if (rdma_) goes_on_writing();
  if (flow == Flow::requests) return pump();
  if (rdma_) pump();
  Nanos wait = 0;
  for (const std::uint64_t reply : held_replies_) {
    scheduler_.after(wait += random_.between(1, 10 * kMicrosecond), sender_owner(), &SimLink::on_reply, this, reply);
  }
  held_replies_.clear();
}

void SimLink::on_reply(void* self, std::uint64_t argument) {
  auto& link = *static_cast<SimLink*>(self);
  const auto id = static_cast<std::uint32_t>(argument);
  if (!link.replies_[id].live || link.replies_[id].generation != argument >> 32) return;
  Reply& reply = link.replies_[id];
  const engine::NodeSide receiver = engine::other(link.sender_);
  if (reply.session == link.sender_session_ && !link.network_.carries_from(receiver)) {
    reply.arrived_at_wire = true;  // held until the wire or the session decides
    return;
  }
  if (reply.session == link.sender_session_ && link.is_lost(reply)) {
    reply.arrived_at_wire = true;
    link.stuck_session_ = reply.session;
    return;
  }
  const std::span<const std::byte> said(reply.header.data(), reply.header_bytes);
  if (reply.session == link.sender_session_ && link.stuck_ && link.stuck_(said)) return link.release_reply(id);
  if (reply.session == link.sender_session_ && link.held_[static_cast<std::size_t>(Flow::answers)]) {
    return link.held_replies_.push_back(argument);
  }
  Slot& slot = link.slots_[reply.slot];
  const bool lost = reply.session == link.broken_session_ && link.random_.chance(500'000);
  if (lost || reply.session != link.sender_session_ || !slot.live || slot.generation != reply.slot_generation ||
      link.is_closing_) {
    return link.release_reply(id);
  }
  if (link.rdma_) return link.take_answer(reply, id);
  link.trace_.add(letter(link.sender_owner()), "link.answered", {{"slot", reply.slot}, {"hash", reply.hash}});
  std::copy(reply.payload.begin(), reply.payload.end(), slot.payload_in.begin());
  auto done = std::move(slot.done);
  std::array<std::byte, replication::kMaxLinkAnswerHeader> header = reply.header;
  const LinkAnswer answer{{header.data(), reply.header_bytes}, reply.payload.size()};
  link.release_slot(reply.slot);
  link.release_reply(id);
  done(answer);
}

void SimLink::drop_inbounds() {
  free_inbounds_.clear();
  for (const auto& inbound : inbounds_) {
    inbound->poison();
    free_inbounds_.push_back(inbound.get());
  }
}

void SimLink::release_slot(std::uint32_t id) {
  slots_[id].live = false;
  slots_[id].done = nullptr;
  if (auto* task = slots_[id].task.get()) task->copy_out.reset(), task->copy_in.reset();
  ++slots_[id].generation;
  free_slots_.push_back(id);
}

void SimLink::release_reply(std::uint32_t id) {
  replies_[id].live = false;
  replies_[id].sent = nullptr;
  ++replies_[id].generation;
  free_replies_.push_back(id);
}

}  // namespace lockstep::simulation
