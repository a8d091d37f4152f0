// A way over RDMA: how payloads move, when a request is over, and the end of a session, which takes a moment.
#include <algorithm>
#include <utility>

#include "engine/iscsi/out_pdu.hpp"
#include "tests/simulation/sim_link.hpp"
#include "tests/simulation/sim_link_inbound.hpp"

namespace lockstep::simulation {

using engine::Errc;
using replication::LinkAnswer;
using replication::LinkTask;
using Outcome = SimRdma::Outcome;

namespace {
constexpr Nanos kSoonClosed = 20 * kMillisecond, kLastClosed = kSecond;
constexpr std::uint32_t kClosesLate = 30'000, kShutsNothing = 100'000,
                        kSaysNothing = 300'000;  // chances in a million
}  // namespace

// --- Requests -------------------------------------------------------------------------------------------------------

/// As the product's session does it, which puts the keys into the message. False: there was no room, and it was not
/// sent.
bool SimLink::give(std::uint32_t id, Packet& packet, std::span<const std::byte> payload_out) {
  Slot& slot = slots_[id];
  if (is_closing_) return false;  // it ends with the session
  if (!slot.task) slot.task = std::make_unique<LinkTask>();
  LinkTask& task = *slot.task;
  std::ranges::copy(std::span(packet.header).first(packet.header_bytes), task.header.begin());
  task.header_size = packet.header_bytes;
  task.payload_out = payload_out;
  task.payload_in = slot.payload_in;
  const auto header = std::span<const std::byte>(task.header).first(task.header_size);
  task.goes_ahead = is_heartbeat_ != nullptr && *is_heartbeat_ && (*is_heartbeat_)(header);
  task.tag = id;
  task.answered = false;
  task.unsent = 1;
  task.windows = 0;
  task.seal = static_cast<std::uint32_t>(packet.hash);
  rdma_->next_is_registered(!task.goes_ahead);
  if (!rdma_->payloads().prepare(task)) {
    slot.session = 0;
    slot.refusal = Errc::resource_exhausted;
    scheduler_.after(random_.below(kMillisecond), sender_owner(), &SimLink::on_refuse, this,
                     (std::uint64_t{slot.generation} << 32) | id);
    return false;
  }
  iscsi::OutPdu command;
  rdma_->payloads().give(task, command);
  std::array<std::byte, iser::kHeadersSize> message{};
  std::ranges::copy(*command.lead, message.begin());
  packet.tagged = iser::read_message(message, message.size())->tagged;
  if (task.copy_out) packet.source = task.copy_out.span();
  const auto posted = packet.tagged.write ? std::span<const std::byte>{} : packet.source;
  packet.send = rdma_->post(posted, (std::uint64_t{slot.generation} << 32) | id);
  return true;
}

/// Both directions: a read is a question and an answer.
bool SimLink::lets_through() const {
  return network_.whole() && !held_[static_cast<std::size_t>(Flow::requests)] &&
         !held_[static_cast<std::size_t>(Flow::answers)];
}

/// What is under way when a session breaks stops at any moment, also in the midst of a payload.
bool SimLink::goes_on(std::uint64_t session) {
  return lets_through() && (session != broken_session_ || random_.chance(600'000));
}

std::size_t SimLink::some_of(std::size_t left) { return random_.chance(400'000) ? left : random_.between(1, left); }

/// The request is the next; what it brings is read first, by the receiver's device. What follows waits.
void SimLink::pull(Packet& packet) {
  if (std::exchange(packet.is_pulling, true)) return;
  packet.payload.resize(packet.source.size());
  scheduler_.after(device_delay(), Owner::world, &SimLink::on_pull, this, 0);
}

void SimLink::on_pull(void* self, std::uint64_t) {
  auto& link = *static_cast<SimLink*>(self);
  const auto packet = std::ranges::find(link.wire_, true, &Packet::is_pulling);
  if (packet == link.wire_.end()) return;
  if (!link.goes_on(packet->session)) {
    packet->is_pulling = false;
    return;
  }
  const auto piece =
      std::span(packet->payload).subspan(packet->pulled, link.some_of(packet->payload.size() - packet->pulled));
  const Outcome outcome = link.rdma_->read(*packet->tagged.write, packet->pulled, piece);
  if (outcome == Outcome::refused) return link.lose_both();
  if (outcome == Outcome::gone) return;
  packet->pulled += piece.size();
  if (packet->pulled < packet->payload.size()) {
    return link.scheduler_.after(link.device_delay(), Owner::world, &SimLink::on_pull, self, 0);
  }
  packet->is_pulling = false;
  packet->copied = true;
  if (hash_bytes(packet->payload) != packet->hash) {
    link.verdict_.fail("what was read of a request's payload over RDMA is not what was sent");
  }
  link.pump();
}

/// The sender's thread sees that its message has been sent.
void SimLink::on_complete(void* self, std::uint64_t send) {
  auto& link = *static_cast<SimLink*>(self);
  const auto owner = link.rdma_->complete(send);
  if (!owner || link.is_closing_) return;
  const Slot& slot = link.slots_[static_cast<std::uint32_t>(*owner)];
  if (!slot.live || slot.generation != *owner >> 32) return;
  slot.task->unsent = 0;
  link.finish_if_over(*slot.task);
}

// --- Answers --------------------------------------------------------------------------------------------------------

/// Until it has answered the receiver's device may read what it was let at.
void SimLink::read_late(const Inbound& request) {
  const auto& from = request.tagged_.write;
  if (!from || request.answered_ || !random_.chance(500'000)) return;
  std::vector<std::byte> again(request.payload_bytes_);
  const Outcome outcome = rdma_->read(*from, 0, again);
  if (outcome == Outcome::refused) lose_both();
}

void SimLink::begin_to_write(Reply& reply, const Inbound& request) {
  if (lets_through()) read_late(request);
  reply.tagged = request.tagged_;
  const auto header = std::span<const std::byte>(reply.header).first(reply.header_bytes);
  reply.crc = replication::answer_seal_of(header, reply.source, request.seal_);
  reply.is_written = reply.tagged.read && !reply.source.empty();
  reply.written = 0;
  reply.waits = false;
}

void SimLink::on_write(void* self, std::uint64_t argument) {
  auto& link = *static_cast<SimLink*>(self);
  const auto id = static_cast<std::uint32_t>(argument);
  Reply& reply = link.replies_[id];
  if (!reply.live || reply.generation != argument >> 32) return;
  const bool is_over = reply.session != link.receiver_session_ || reply.written == reply.source.size();
  if (is_over)
    return link.scheduler_.after(link.device_delay(), link.receiver_owner(), &SimLink::on_sent, self, argument);
  reply.waits = !link.goes_on(reply.session);
  if (reply.waits) return;
  const auto piece = reply.source.subspan(reply.written, link.some_of(reply.source.size() - reply.written));
  const Outcome outcome = link.rdma_->write(*reply.tagged.read, reply.written, piece);
  if (outcome == Outcome::refused) return link.lose_both();
  if (outcome == Outcome::gone) {
    reply.waits = true;  // until the receiver's end has noticed
    const Nanos notice = link.random_.skewed(kMillisecond, link.times_.notice / 4);
    return link.scheduler_.after(notice, link.receiver_owner(), &SimLink::on_receiver_notices, self, reply.session);
  }
  reply.written += piece.size();
  link.scheduler_.after(link.device_delay(), Owner::world, &SimLink::on_write, self, argument);
}

void SimLink::goes_on_writing() {
  for (std::uint32_t id = 0; id < replies_.size(); ++id) {
    Reply& reply = replies_[id];
    if (!reply.live || !reply.is_written || !std::exchange(reply.waits, false)) continue;
    scheduler_.after(device_delay(), Owner::world, &SimLink::on_write, this,
                     (std::uint64_t{reply.generation} << 32) | id);
  }
}

/// A target's answer invalidates one key, that of the memory which it wrote to where there are two; or none.
void SimLink::take_answer(Reply& reply, std::uint32_t id) {
  trace_.add(letter(sender_owner()), "link.answered", {{"slot", reply.slot}, {"hash", reply.hash}});
  LinkTask& task = *slots_[reply.slot].task;
  const std::size_t payload = reply.is_written ? reply.source.size() : reply.payload.size();
  task.answer = {static_cast<std::uint16_t>(reply.header_bytes), static_cast<std::uint32_t>(payload), reply.crc};
  std::ranges::copy(std::span(reply.header).first(reply.header_bytes),
                    std::span(task.prefix).subspan(replication::kAnswerFixed).begin());
  const auto& used = reply.tagged.read ? reply.tagged.read : reply.tagged.write;
  if (used && !random_.chance(kShutsNothing)) rdma_->invalidate(used->key);
  const bool makes_sense = rdma_->payloads().take_answer(task, reply.payload);
  release_reply(id);
  if (!makes_sense) return verdict_.fail("an answer over RDMA makes no sense to the sender");
  task.answered = true;
  if (rdma_->payloads().shut(task)) take_payload(task);
}

void SimLink::on_shut(LinkTask& task) {
  if (!is_closing_) take_payload(task);
}

void SimLink::take_payload(LinkTask& task) {
  if (rdma_->payloads().finish(task) != replication::RdmaPayloads::Came::whole) {
    verdict_.fail("an answer over RDMA is not what the partner wrote");
  }
  finish_if_over(task);
}

void SimLink::finish_if_over(LinkTask& task) {
  if (!task.answered || task.unsent > 0 || task.windows > 0 || is_closing_) return;
  Slot& slot = slots_[task.tag];
  if (!slot.live) return verdict_.fail("a request over RDMA was over twice");
  auto done = std::move(slot.done);
  std::array<std::byte, replication::kMaxLinkAnswerHeader> header;
  const auto said = std::span(task.prefix).subspan(replication::kAnswerFixed, task.answer.header);
  std::ranges::copy(said, header.begin());
  const LinkAnswer answer{std::span(header).first(said.size()), task.answer.payload};
  release_slot(task.tag);
  done(answer);
}

// --- The end of a session -------------------------------------------------------------------------------------------

/// From now on the sender posts nothing, and hears nothing. Its queue pair is destroyed in a moment.
void SimLink::begin_to_close(std::uint64_t session) {
  if (std::exchange(is_closing_, true)) return;
  trace_.add(letter(sender_owner()), "link.closing", {{"session", session}});
  if (!random_.chance(kSaysNothing)) {
    scheduler_.after(random_.below(kMillisecond), sender_owner(), &SimLink::on_failing, this, session);
  }
  const Nanos last = random_.chance(kClosesLate) ? kLastClosed : kSoonClosed;
  scheduler_.after(random_.skewed(10 * kMicrosecond, last), sender_owner(), &SimLink::on_closed, this, session);
}

void SimLink::on_failing(void* self, std::uint64_t session) {
  auto& link = *static_cast<SimLink*>(self);
  if (session != link.sender_session_ || link.sender_events_ == nullptr || !link.is_closing_) return;
  link.sender_events_->on_link_failing();
}

void SimLink::on_closed(void* self, std::uint64_t session) {
  auto& link = *static_cast<SimLink*>(self);
  link.rdma_->destroy();
  link.drop_unread();
  link.end_session_at_sender(session);
}

/// What neither device has read by then can't be read any more; of what follows nothing gets through.
void SimLink::drop_unread() {
  for (Packet& packet : wire_) {
    if (!packet.tagged.write && random_.chance(500'000)) take_copy(packet);
  }
  bool any = false;
  std::erase_if(wire_, [&](const Packet& packet) {
    any |= !packet.copied && !packet.goes_ahead;
    return !packet.copied || (any && !packet.goes_ahead);
  });
}

void SimLink::lose_both() { both_notice(kMillisecond, kMillisecond); }

void SimLink::take_device(bool away) {
  if (std::exchange(device_is_there_, !away) != away) return;
  trace_.add('-', away ? "device.removed" : "device.back", {{"sender", static_cast<std::uint64_t>(sender_)}});
  if (away) both_notice(kMillisecond, kMillisecond);
}

}  // namespace lockstep::simulation
