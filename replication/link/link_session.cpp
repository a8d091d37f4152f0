#include "replication/link/link_session.hpp"

#include <cassert>
#include <cstring>

#include "engine/iscsi/ahs.hpp"

namespace lockstep::replication {

using iscsi::Opcode;
using iscsi::Serial;

namespace {

constexpr std::uint32_t kPingTag = 0xF0000000;          // beyond every task's tag
constexpr std::size_t kMaxText = std::size_t{8} << 10;  // bytes of a login response, sense data and the like
constexpr std::uint32_t kSegment = 256 << 10;           // bytes of a data segment that we take

iscsi::InitiatorLoginSettings login_settings(const LinkIdentity& identity, bool over_rdma) {
  iscsi::InitiatorLoginSettings settings;
  settings.initiator_name = link_name(identity.ours.pair, identity.ours.side);
  settings.target_name = link_target_name(identity.ours.pair, engine::other(identity.ours.side), identity.shard);
  // Always the same: a new session takes the place of the old one. A trial leaves that in its place.
  settings.isid = {0x80, 0, 0, 0, identity.path, static_cast<std::uint8_t>(identity.only_tries ? 2 : 1)};
  settings.chap = identity.chap;
  settings.asker = settings.initiator_name;
  iscsi::Offers& offers = settings.offers;
  offers.header_digest = iscsi::Offers::Digest::crc32c;
  offers.data_digest = iscsi::Offers::Digest::crc32c;
  offers.initial_r2t = true;
  offers.immediate_data = true;
  offers.first_burst = kLinkFirstBurst;
  offers.max_burst = kMaxLinkPayload;
  offers.max_outstanding_r2t = 1;
  offers.max_recv = kSegment;
  if (over_rdma) offers = iscsi::rdma_offers(offers);
  return settings;
}

std::string why_not_reached(std::error_code why, bool encrypted) {
  std::string sentence = "The partner is not reached over RDMA: " + why.message() + ".";
  if (encrypted && why == std::errc::connection_refused)
    sentence += " Perhaps its version knows no encryption over RDMA yet.";
  return sentence;
}

}  // namespace

LinkSession::LinkSession(LinkIdentity identity, engine::Random& random, LinkSessionOwner& owner, bool over_rdma)
    : identity_(std::move(identity)), owner_(owner), login_(login_settings(identity_, over_rdma), random) {
  for (std::size_t i = kMaxOutstanding; i-- > 0;) {
    slots_[i].session = this;
    free_slots_.push_back(static_cast<std::uint16_t>(i));
  }
  text_.resize(kMaxText);
}

LinkSession::~LinkSession() = default;

void LinkSession::start(iscsi::PduTransport& transport) {
  transport_ = &transport;
  sender_ = &transport.sender();
  transport.start(*this);
  transport.set_limits({.data = static_cast<std::uint32_t>(kMaxText)});
  login_step(login_.start());
}

void LinkSession::start(iser::Transport& transport) {
  rdma_.emplace(transport, static_cast<RdmaPayloads::User&>(*this));
  start(static_cast<iscsi::PduTransport&>(transport));
}

void LinkSession::stop() {
  if (stopped()) return;
  phase_ = Phase::stopping;
  const auto silent = [this] {
    phase_ = Phase::silent;
    owner_.on_session_silent();
  };
  if (transport_ == nullptr) return silent();
  transport_->close(engine::StreamClose::now, silent);
}

void LinkSession::fail(std::string why) {
  if (stopped()) return;
  owner_.on_session_failed(why);
  stop();
}

void LinkSession::take_tasks(LinkTaskList& into) {
  assert(phase_ == Phase::silent);
  for (Slot& slot : slots_) {
    if (slot.task && slot.task != &hello_) into.push(*slot.task);
    slot.task = nullptr;
  }
}

// ---- the transport ----

void LinkSession::on_lost(std::error_code why) {
  if (rdma_ && !rdma_->reaches_partner()) return fail(why_not_reached(why, rdma_->is_encrypted()));
  const bool closed = !why || why == std::errc::connection_aborted;  // what the stream makes of an end without an error
  fail(closed ? "The partner closed the connection." : "The connection to the partner broke: " + why.message() + ".");
}

void LinkSession::on_read_error(iscsi::ReadError error) {
  fail("The partner sent bytes that can't be followed: " + std::string(iscsi::to_string(error)) + ".");
}

// The turn's end, or room that a task may have waited for.
void LinkSession::fill() {
  if (rdma_ && phase_ == Phase::ready) owner_.on_session_room();
  if (rdma_ && behind_ > 0 && !stopped()) rdma_->await_sends();
}

void LinkSession::push(iscsi::OutPdu& pdu) {
  sender_->push(pdu);
  transport_->want_send();
}

// ---- PDUs in ----

void LinkSession::on_header(const iscsi::Bhs& header, std::span<const std::byte>, std::uint32_t data_length) {
  ++heard_;
  header_ = &header;
  data_in_ = nullptr;
  const auto any = iscsi::header_as<iscsi::AnyHeader>(header);
  if (iscsi::opcode_of(any.opcode) == Opcode::scsi_data_in && !rdma_) return begin_data_in();
  if (data_length > text_.size()) fail("The partner sent a message that is too long.");
}

std::span<std::byte> LinkSession::data_place(std::uint32_t offset) {
  if (!data_in_) return offset < text_.size() ? std::span(text_).subspan(offset) : std::span<std::byte>{};
  const std::size_t at = data_offset_ + offset;
  if (at < kAnswerPayloadOffset) return std::span(data_in_->prefix).first(kAnswerPayloadOffset).subspan(at);
  return data_in_->payload_in.subspan(at - kAnswerPayloadOffset);
}

void LinkSession::on_pdu() {
  const auto any = iscsi::header_as<iscsi::AnyHeader>(*header_);
  const Opcode opcode = iscsi::opcode_of(any.opcode);
  if (phase_ == Phase::login) {
    if (opcode != Opcode::login_response) return fail("The partner answered the login with something else.");
    const auto response = iscsi::header_as<iscsi::LoginResponseHeader>(*header_);
    return login_step(login_.on_response(response, std::span(text_).first(any.data_length)));
  }
  if (!take_numbers()) return fail("The partner's answers are out of order.");
  if (rdma_ && (opcode == Opcode::scsi_data_in || opcode == Opcode::r2t)) {
    return fail("The partner moves data by messages over RDMA.");
  }
  switch (opcode) {
    case Opcode::scsi_data_in:
      return end_data_in();
    case Opcode::scsi_response:
      return on_scsi_response();
    case Opcode::r2t:
      return on_r2t();
    case Opcode::nop_in:
      return on_nop_in();
    case Opcode::async_message:
      return fail("The partner asked to end the session.");
    case Opcode::reject:
      return fail("The partner rejected a message.");
    default:
      return fail("The partner sent a message that the link does not use.");
  }
}

// The window's end, and StatSN where there is one: it stands in the same place in every PDU of a target.
bool LinkSession::take_numbers() {
  const auto numbers = iscsi::header_as<iscsi::NopInHeader>(*header_);
  const Serial window{numbers.max_cmd_sn};
  const bool wider = window.after(max_cmd_sn_);
  if (wider) max_cmd_sn_ = window;
  const Opcode opcode = iscsi::opcode_of(numbers.opcode);
  const bool has_status = opcode == Opcode::scsi_data_in
                              ? (numbers.flags & iscsi::kDataInStatus) != 0
                              : opcode != Opcode::r2t && numbers.task_tag != iscsi::kReservedTag;
  if (has_status) {
    if (Serial{numbers.stat_sn} != exp_stat_sn_) return false;
    ++exp_stat_sn_;
  }
  return true;
}

void LinkSession::on_nop_in() {
  const auto in = iscsi::header_as<iscsi::NopInHeader>(*header_);
  if (in.task_tag != iscsi::kReservedTag) {
    ping_outstanding_ = false;
    return;
  }
  if (in.transfer_tag == iscsi::kReservedTag) return;
  auto out = iscsi::make_header<iscsi::NopOutHeader>(Opcode::nop_out, iscsi::kFinal);
  out.opcode |= iscsi::kImmediate;
  out.lun = in.lun;
  out.task_tag = iscsi::kReservedTag;
  out.transfer_tag = in.transfer_tag;
  out.cmd_sn = cmd_sn_.value();
  out.exp_stat_sn = exp_stat_sn_.value();
  iscsi::OutPdu& pdu = sender_->make();
  pdu.set_header(out);
  push(pdu);
}

// ---- login and greeting ----

void LinkSession::login_step(iscsi::InitiatorLogin::Step step) {
  using Next = iscsi::InitiatorLogin::Step::Next;
  if (step.next == Next::failed) return fail("The partner did not let us in: " + step.error.message);
  if (step.next == Next::send) {
    iscsi::OutPdu& pdu = sender_->make();
    pdu.set_header(step.header);
    pdu.copy_data(std::as_bytes(std::span(step.text)));
    return push(pdu);
  }
  parameters_ = login_.parameters();
  cmd_sn_ = login_.cmd_sn();
  max_cmd_sn_ = login_.max_cmd_sn();
  exp_stat_sn_ = login_.exp_stat_sn();
  transport_->set_digests(parameters_.header_digest, parameters_.data_digest);
  transport_->set_limits(
      {.data = kSegment, .header_digest = parameters_.header_digest, .data_digest = parameters_.data_digest});
  if (rdma_ && (!parameters_.rdma || !parameters_.immediate_data || parameters_.first_burst < kEagerPayload ||
                parameters_.target_segment < kEagerPayload)) {
    return fail("The partner takes less with a message over RDMA than the link needs.");
  }
  if (rdma_) rdma_->begin();
  if (!identity_.only_tries) return greet();
  phase_ = Phase::ready;
  owner_.on_session_ready();
}

void LinkSession::greet() {
  phase_ = Phase::greeting;
  const auto hello = encode_hello(identity_.ours);
  std::copy(hello.begin(), hello.end(), hello_.header.begin());
  hello_.header_size = hello.size();
  hello_.opcode = LinkOpcode::hello;
  issue(hello_);
}

void LinkSession::greeted() {
  const auto answer = decode_hello_answer(std::span(hello_.prefix).subspan(kAnswerFixed, hello_.answer.header));
  if (!answer) return fail("The partner answered our greeting with something that is none.");
  if (answer->verdict != HelloVerdict::welcome) return fail("The partner refused us: " + answer->message);
  if (!identity_.ours.versions.contains(answer->version) || answer->pair != identity_.ours.pair ||
      answer->side != engine::other(identity_.ours.side)) {
    return fail("Whoever answers at the partner's address is not the partner.");
  }
  version_ = answer->version;
  phase_ = Phase::ready;
  owner_.on_session_ready();
}

// ---- commands out ----

bool LinkSession::has_room(LinkTask& next) { return fits_the_window(next) && (!rdma_ || rdma_->prepare(next)); }

bool LinkSession::fits_the_window(const LinkTask& next) const {
  if (next.goes_ahead) return ahead_ < kMaxAhead && !free_slots_.empty();
  const std::size_t slots_for_the_ahead = kMaxAhead - ahead_;
  return free_slots_.size() > slots_for_the_ahead && !cmd_sn_.after(max_cmd_sn_) &&
         (bytes_in_flight_ == 0 || bytes_in_flight_ + window_bytes(next) <= kMaxBytesInFlight);
}

std::size_t LinkSession::window_bytes(const LinkTask& task) {
  return task.goes_ahead ? 0 : task.payload_out.size() + task.payload_in.size();
}

void LinkSession::issue(LinkTask& task) {
  assert(!free_slots_.empty());
  const std::uint16_t index = free_slots_.back();
  free_slots_.pop_back();
  Slot& slot = slots_[index];
  slot.task = &task;
  slot.generation = (slot.generation + 1) & 0x3FFF;
  task.tag = std::uint32_t{slot.generation} << 16 | index;
  task.received = 0;
  task.unsent = 0;
  task.answered = task.is_behind = false;
  bytes_in_flight_ += window_bytes(task);
  if (task.goes_ahead) ++ahead_;
  push_command(task);
}

std::size_t LinkSession::encode_cdb(LinkTask& task, LinkCdb& cdb) const {
  LinkCommand command{task.opcode,
                      std::span(task.header).first(task.header_size),
                      static_cast<std::uint32_t>(task.payload_out.size()),
                      static_cast<std::uint32_t>(task.payload_in.size()),
                      {}};
  if (rdma_) command.crc = task.seal = seal_of(command, task.payload_out);
  return encode_link_cdb(command, cdb);
}

void LinkSession::push_command(LinkTask& task) {
  LinkCdb cdb;
  const std::size_t cdb_length = encode_cdb(task, cdb);
  const auto out_length = static_cast<std::uint32_t>(task.payload_out.size());
  const std::size_t words = rdma_ ? sizeof(AnswerPrefix) : kAnswerPayloadOffset;
  const auto in_length = static_cast<std::uint32_t>(words + task.payload_in.size());
  auto header = iscsi::make_header<iscsi::ScsiCommandHeader>(Opcode::scsi_command, iscsi::kFinal | iscsi::kRead | 1);
  if (out_length > 0) header.flags |= iscsi::kWrite;
  header.task_tag = task.tag;
  header.expected_length = out_length > 0 ? out_length : in_length;
  header.cmd_sn = cmd_sn_.value();
  header.exp_stat_sn = exp_stat_sn_.value();
  std::memcpy(header.cdb.data(), cdb.data(), header.cdb.size());
  if (task.goes_ahead) {
    header.opcode |= iscsi::kImmediate;  // takes no number: carried out when it comes, whatever the window
  } else {
    ++cmd_sn_;
  }

  iscsi::AdditionalHeaders more;
  more.extended_cdb = std::span(cdb).subspan(kLinkCdbFixed, cdb_length - kLinkCdbFixed);
  if (out_length > 0) more.bidi_read_length = in_length;
  std::array<std::byte, iscsi::kMaxAhs> ahs;
  const std::size_t ahs_length = iscsi::write_ahs(more, ahs);

  iscsi::OutPdu& pdu = sender_->make();
  pdu.set_header(header);
  pdu.set_ahs(std::span(ahs).first(ahs_length));
  add_payload(task, pdu);
  track(pdu, task);
  task.goes_ahead ? sender_->push_ahead(pdu) : sender_->push(pdu);
  transport_->want_send();
}

void LinkSession::add_payload(LinkTask& task, iscsi::OutPdu& pdu) {
  if (rdma_) return rdma_->give(task, pdu);
  if (task.payload_out.empty() || !parameters_.immediate_data) return;
  const std::size_t immediate =
      std::min({task.payload_out.size(), std::size_t{parameters_.max_send}, std::size_t{parameters_.first_burst}});
  pdu.set_data(task.payload_out.first(immediate));
}

void LinkSession::push_data(LinkTask& task, std::uint32_t offset, std::uint32_t length, std::uint32_t transfer_tag) {
  std::uint32_t data_sn = 0;
  while (length > 0) {
    const std::uint32_t piece = std::min(length, parameters_.max_send);
    auto header = iscsi::make_header<iscsi::DataOutHeader>(Opcode::scsi_data_out, piece == length ? iscsi::kFinal : 0);
    header.task_tag = task.tag;
    header.transfer_tag = transfer_tag;
    header.exp_stat_sn = exp_stat_sn_.value();
    header.data_sn = data_sn++;
    header.buffer_offset = offset;
    iscsi::OutPdu& pdu = sender_->make();
    pdu.set_header(header);
    pdu.set_data(task.payload_out.subspan(offset, piece));
    track(pdu, task);
    push(pdu);
    offset += piece;
    length -= piece;
  }
}

// Counts the PDU as one that may still read the task's buffer, until the queue is through with it.
void LinkSession::track(iscsi::OutPdu& pdu, LinkTask& task) {
  ++task.unsent;
  pdu.owner = &slots_[task.tag & 0xFFFF];
  pdu.done = [](void* owner, bool sent) {
    Slot& slot = *static_cast<Slot*>(owner);
    if (!sent || !slot.task) return;  // dropped with the session
    --slot.task->unsent;
    slot.session->finish_if_over(*slot.task);
  };
}

void LinkSession::ping() {
  if (phase_ != Phase::ready || ping_outstanding_) return;
  ping_outstanding_ = true;
  auto out = iscsi::make_header<iscsi::NopOutHeader>(Opcode::nop_out, iscsi::kFinal);
  out.opcode |= iscsi::kImmediate;
  out.task_tag = kPingTag | (++pings_ & 0xFFFFFF);
  out.transfer_tag = iscsi::kReservedTag;
  out.cmd_sn = cmd_sn_.value();
  out.exp_stat_sn = exp_stat_sn_.value();
  iscsi::OutPdu& pdu = sender_->make();
  pdu.set_header(out);
  push(pdu);
}

// ---- answers ----

LinkTask* LinkSession::find(std::uint32_t tag) {
  const std::size_t index = tag & 0xFFFF;
  if (index >= kMaxOutstanding || !slots_[index].task || slots_[index].task->tag != tag) return nullptr;
  return slots_[index].task->answered ? nullptr : slots_[index].task;
}

void LinkSession::begin_data_in() {
  const auto header = iscsi::header_as<iscsi::DataInHeader>(*header_);
  LinkTask* task = find(header.task_tag);
  if (!task) return fail("The partner sent data for a command that is not under way.");
  const std::size_t room = kAnswerPayloadOffset + task->payload_in.size();
  if (header.buffer_offset != task->received || header.data_length > room - task->received) {
    return fail("The partner sent data that does not belong where it says.");
  }
  data_in_ = task;
  data_offset_ = header.buffer_offset;
}

void LinkSession::end_data_in() {
  const auto header = iscsi::header_as<iscsi::DataInHeader>(*header_);
  LinkTask* task = std::exchange(data_in_, nullptr);
  if (!task) return;
  task->received += header.data_length;
  if ((header.flags & iscsi::kDataInStatus) == 0) return;
  if (header.status != 0) return fail("The partner could not carry out a link command.");
  answered(*task);
}

void LinkSession::on_scsi_response() {
  const auto header = iscsi::header_as<iscsi::ScsiResponseHeader>(*header_);
  LinkTask* task = find(header.task_tag);
  if (!task) return fail("The partner answered a command that is not under way.");
  if (header.response != 0 || header.status != 0) {
    return fail("The partner could not carry out a link command: SCSI status " + std::to_string(header.status) + ".");
  }
  rdma_ ? take_sealed_answer(*task) : answered(*task);
}

// The answer is the response's data, behind the length of sense data that there is none of.
void LinkSession::take_sealed_answer(LinkTask& task) {
  const auto any = iscsi::header_as<iscsi::AnyHeader>(*header_);
  const auto data = std::span<const std::byte>(text_).first(any.data_length);
  const auto words = data.subspan(std::min<std::size_t>(data.size(), 2));
  const auto start = decode_answer(words);
  const bool is_sealed = start && start->crc && data[0] == std::byte{0} && data[1] == std::byte{0};
  if (!is_sealed) return fail("The partner's answer to a link command makes no sense.");
  task.answer = *start;
  const auto header = words.subspan(start->header_at(), start->header);
  std::copy(header.begin(), header.end(), task.prefix.begin() + kAnswerFixed);
  if (!rdma_->take_answer(task, words.subspan(start->header_at() + start->header))) {
    return fail("The partner's answer to a link command makes no sense.");
  }
  task.answered = true;
  if (rdma_->shut(task)) take_payload(task);
}

// Not before its windows are shut: what was looked at can't be changed any more.
void LinkSession::take_payload(LinkTask& task) {
  switch (rdma_->finish(task)) {
    case RdmaPayloads::Came::changed:
      return fail("The data of the partner's answer was changed on the way.");
    case RdmaPayloads::Came::damaged:
      return fail("The partner's answer to a link command came damaged.");
    case RdmaPayloads::Came::whole:
      return finish_if_over(task);
  }
}

void LinkSession::on_r2t() {
  const auto header = iscsi::header_as<iscsi::R2tHeader>(*header_);
  LinkTask* task = find(header.task_tag);
  const std::uint32_t offset = header.buffer_offset;
  const std::uint32_t length = header.desired_length;
  if (!task || length == 0 || offset > task->payload_out.size() || length > task->payload_out.size() - offset) {
    return fail("The partner asked for data that was not announced.");
  }
  push_data(*task, offset, length, header.transfer_tag);
}

void LinkSession::answered(LinkTask& task) {
  const std::size_t before_payload = std::min<std::size_t>(task.received, kAnswerPayloadOffset);
  const auto start = decode_answer(std::span(task.prefix).first(before_payload));
  if (!start || start->crc || start->payload != task.received - before_payload) {
    return fail("The partner's answer to a link command makes no sense.");
  }
  task.answer = *start;
  task.answered = true;
  finish_if_over(task);
}

/// The network card may tell of the answer before it tells of the request.
void LinkSession::note_behind(LinkTask& task) {
  const bool is_behind = task.answered && task.unsent > 0;
  if (is_behind == std::exchange(task.is_behind, is_behind)) return;
  is_behind ? ++behind_ : --behind_;
  if (is_behind) transport_->want_send();
}

void LinkSession::finish_if_over(LinkTask& task) {
  if (rdma_ && !stopped()) note_behind(task);
  if (!task.answered || task.unsent > 0 || task.windows > 0 || stopped()) return;
  const std::uint16_t index = task.tag & 0xFFFF;
  slots_[index].task = nullptr;
  free_slots_.push_back(index);
  bytes_in_flight_ -= window_bytes(task);
  if (task.goes_ahead) --ahead_;
  if (&task == &hello_) return greeted();
  owner_.on_task_done(task, task.answer);
  if (phase_ == Phase::ready) owner_.on_session_room();
}

}  // namespace lockstep::replication
