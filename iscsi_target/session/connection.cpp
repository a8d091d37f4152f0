#include "iscsi_target/session/connection.hpp"

#include <cassert>
#include <utility>

namespace lockstep::iscsi_target {
namespace {

constexpr const char* kAccessChanged = "Who may log in was changed during the login.";

constexpr auto kLastWords = std::chrono::seconds(5);  // for the peer to take them

}  // namespace

using iscsi::LoginStatus;
using iscsi::Opcode;
using iscsi::TargetLogin;

TargetConnection::TargetConnection(std::unique_ptr<iscsi::PduTransport> transport, std::unique_ptr<Transfers> transfers,
                                   ConnectionHost& host, SessionResources& resources, TargetDirectory& directory,
                                   const SessionSettings& settings)
    : transport_(std::move(transport)),
      sender_(transport_->sender()),
      transfers_(std::move(transfers)),
      host_(host),
      resources_(resources),
      directory_(directory),
      settings_(settings),
      peer_(transport_->peer_address()),
      local_(transport_->local_address()),
      offers_(transport_->is_rdma() ? iscsi::rdma_offers(settings.offers) : settings.offers),
      login_(std::make_unique<TargetLogin>(directory, resources.random, offers_)) {
  transport_->start(*this);
  transport_->set_limits({.ahs = 0});  // login requests have none
  start_timer(settings_.login_timeout);
}

TargetConnection::~TargetConnection() { assert(phase_ == Phase::closed); }

// ---- The transport's calls ----

bool TargetConnection::takes_more() {
  paused_ =
      phase_ == Phase::admitting || phase_ == Phase::proof_waits || (session_ && session_->wants_pause() && !closing_);
  return !paused_;
}

void TargetConnection::on_received() {
  if (host_.is_fenced(*this)) return reset("The node stopped serving.");
  heard_ = true;
  if (session_) session_->heard();
}

void TargetConnection::fill() {
  if (host_.is_fenced(*this)) return reset("The node stopped serving.");
  if (session_ && session_->has_to_encode()) session_->encode(sender_);
  if (phase_ == Phase::closed) return;
  if (session_ && session_->awaits_sent()) transport_->await_sent();
  if (paused_ && session_ && !session_->wants_pause()) transport_->resume();
}

void TargetConnection::on_all_sent() {
  if (closing_ && !(session_ && session_->has_ready())) end(engine::StreamClose::gently, std::move(reason_));
}

void TargetConnection::on_lost(std::error_code why) {
  end(engine::StreamClose::now, closing_ ? std::move(reason_) : "The connection was lost: " + why.message() + ".");
}

// ---- PDUs that come in ----

void TargetConnection::on_header(const iscsi::Bhs& header, std::span<const std::byte> ahs, std::uint32_t data_length) {
  if (phase_ == Phase::full_feature) return session_->on_header(header, ahs, data_length);
  login_data_.clear();
  if (iscsi::opcode_of(iscsi::header_as<iscsi::AnyHeader>(header).opcode) != Opcode::login_request) {
    return login_step(login_->refuse(LoginStatus::invalid_request, "The initiator sent something else than a login."));
  }
  login_data_.resize(data_length);
}

std::span<std::byte> TargetConnection::data_place(std::uint32_t offset) {
  if (phase_ == Phase::full_feature) return session_->data_place(offset);
  return offset < login_data_.size() ? std::span(login_data_).subspan(offset) : std::span<std::byte>{};
}

void TargetConnection::on_pdu() {
  ++pdus_;
  if (phase_ == Phase::full_feature) return session_->on_pdu();
  if (phase_ == Phase::login && login_->awaits_proof()) {
    waiting_proof_ = std::make_unique<WaitingProof>(transport_->header(), std::move(login_data_));
    return proof_came({});
  }
  if (phase_ == Phase::login) return login_request(transport_->header(), login_data_);
  if (phase_ != Phase::closed) close_gently("The initiator did not wait for the answer to its login.");
}

void TargetConnection::on_read_error(iscsi::ReadError error) {
  const std::string why = std::string("The initiator's bytes make no sense: ") + to_string(error) + ".";
  if (phase_ == Phase::login) return login_step(login_->refuse(LoginStatus::initiator_error, why));
  if (phase_ == Phase::full_feature && error != iscsi::ReadError::header_digest) {
    session_->reject(error == iscsi::ReadError::data_digest ? iscsi::RejectReason::data_digest_error
                                                            : iscsi::RejectReason::invalid_pdu_field,
                     transport_->header());
  }
  close_gently(why);
}

// ---- Login ----

void TargetConnection::login_request(const iscsi::Bhs& header, std::span<const std::byte> data) {
  const bool was_proven = login_->proof().has_value();
  auto step = login_->on_request(iscsi::header_as<iscsi::LoginRequestHeader>(header), data);
  if (!was_proven && login_->proof()) host_.proved(*this);
  login_step(std::move(step));
}

void TargetConnection::proof_came(engine::Duration waited) {
  const auto wait = host_.proof_wait(*this, waited);
  if (!wait) {
    waiting_proof_.reset();
    return login_step(login_->refuse(LoginStatus::out_of_resources, "Too many wrong secrets came from there lately."));
  }
  if (*wait > engine::Duration{}) {
    phase_ = Phase::proof_waits;
    waiting_proof_->waited = waited + *wait;
    return start_timer(*wait);
  }
  const auto proof = std::move(waiting_proof_);
  if (waited > engine::Duration{}) start_timer(settings_.login_timeout);
  login_request(proof->header, proof->data);
}

void TargetConnection::login_step(TargetLogin::Step step) {
  identity_ = login_->identity();
  switch (step.next) {
    case TargetLogin::Step::Next::answer:
    case TargetLogin::Step::Next::done:
      return send_login(step);
    case TargetLogin::Step::Next::failed:
      send_login(step);
      return close_gently(std::move(step.reason));
    case TargetLogin::Step::Next::admit:
      if (!identity_.discovery) target_ = directory_.find(identity_.target_name);
      if (!identity_.discovery && (!target_ || host_.device_server(*target_) == nullptr)) {
        return login_step(login_->refuse(LoginStatus::target_removed, "The target was removed during the login."));
      }
      phase_ = Phase::admitting;
      proof_ = login_->proof();
      if (has_lost_access()) return refused(LoginStatus::authentication_failure, kAccessChanged);
      return host_.admit(*this);
  }
}

bool TargetConnection::has_lost_access() const {
  const bool past_login = phase_ == Phase::admitting || phase_ == Phase::full_feature;
  return past_login && !directory_.still_admits(identity_, proof_);
}

void TargetConnection::send_login(const TargetLogin::Step& step) {
  iscsi::OutPdu& pdu = sender_.make();
  pdu.set_header(step.header);
  pdu.copy_data(std::as_bytes(std::span(step.text)));
  sender_.push(pdu);
  want_send();
}

void TargetConnection::admitted(std::uint16_t tsih, std::uint64_t nexus_id) {
  assert(phase_ == Phase::admitting);
  nexus_id_ = nexus_id;
  // Over RDMA it opens with the answers, as receives are posted.
  const std::uint32_t window = transport_->is_rdma() ? 1 : std::min(settings_.queue_depth, kMaxQueueDepth);
  send_login(login_->admit(tsih, window));
  identity_ = login_->identity();
  const iscsi::Parameters& agreed = login_->parameters();
  transport_->set_digests(agreed.header_digest, agreed.data_digest);
  transport_->set_limits(
      {.data = offers_.max_recv, .header_digest = agreed.header_digest, .data_digest = agreed.data_digest});
  SessionSetup setup{.who = identity_,
                     .parameters = agreed,
                     .stat_sn = login_->next_stat_sn(),
                     .exp_cmd_sn = login_->exp_cmd_sn(),
                     .window = window,
                     .nexus_id = nexus_id,
                     .address = host_of(peer_),
                     .target = target_,
                     .device_server = target_ ? host_.device_server(*target_) : nullptr};
  login_.reset();
  login_data_ = {};
  session_ = std::make_unique<Session>(std::move(setup), settings_, resources_, directory_,
                                       static_cast<SessionLink&>(*this), *transfers_);
  phase_ = Phase::full_feature;
  heard_ = true;
  start_timer(settings_.keepalive);
  host_.opened(*this);
  transport_->resume();
}

void TargetConnection::refused(LoginStatus status, std::string why) {
  assert(phase_ == Phase::admitting);
  phase_ = Phase::login;
  login_step(login_->refuse(status, std::move(why)));
}

// ---- Time ----

void TargetConnection::start_timer(engine::Duration delay) {
  resources_.clock.cancel(timer_);
  timer_ = resources_.clock.call_after(delay, [this] {
    timer_ = engine::TimerId::none;
    on_timer();
  });
}

void TargetConnection::on_timer() {
  if (closing_) return reset(std::move(reason_));
  if (phase_ == Phase::proof_waits) {
    phase_ = Phase::login;
    proof_came(waiting_proof_->waited);
    if (phase_ == Phase::login && paused_ && !closing_) transport_->resume();
    return;
  }
  if (phase_ != Phase::full_feature) return reset(why_no_login());
  watch_silence();
}

const char* TargetConnection::why_no_login() const {
  if (phase_ != Phase::admitting) return "The initiator did not finish its login in time.";
  if (host_.holds_login(*this)) return "The node did not decide in time whether it serves.";
  return "The commands of the initiator's previous session have not ended yet; look at this node's disks.";
}

void TargetConnection::watch_silence() {
  if (std::exchange(heard_, false)) {
    asked_ = false;
  } else if (std::exchange(asked_, true)) {
    return reset("The initiator has fallen silent.");
  } else if (!identity_.discovery) {
    session_->ping();
  }
  if (trickles()) return reset("The initiator began a PDU and does not finish it.");
  if (stalls()) return reset("The initiator takes no answers, or does not send the data of its writes.");
  start_timer(settings_.keepalive);
}

// Each byte shows that the peer is there, so that a PDU that comes byte by byte could stay under way for ever.
bool TargetConnection::trickles() {
  const iscsi::PduTransport::Progress now = transport_->progress();
  const std::uint64_t under_way = now.midway && !paused_ ? pdus_ + 1 : 0;
  const bool slow =
      under_way != 0 && under_way == under_way_before_ && now.received - received_before_ < kLeastProgress;
  under_way_before_ = under_way;
  received_before_ = now.received;
  trickled_ = slow ? trickled_ + settings_.keepalive : engine::Duration{};
  return trickled_ >= settings_.stall_patience;
}

// A peer that answers pings and does nothing else would hold its commands' buffers for ever; so would one that sends
// the data of all commands but one, and what waits for that one's end would wait as long.
bool TargetConnection::stalls() {
  const Session::Waiting waiting = session_->oldest_waiting();
  const iscsi::PduTransport::Progress now = transport_->progress();
  const bool takes_nothing =
      now.emptied == emptied_before_ && !sender_.empty() && now.sent - sent_before_ < kLeastProgress;
  const bool sends_nothing = waiting.sequence != 0 && waiting.sequence == waited_for_.sequence &&
                             waiting.received - waited_for_.received < kLeastProgress;
  emptied_before_ = now.emptied;
  sent_before_ = now.sent;
  waited_for_ = waiting;
  stalled_ = takes_nothing || sends_nothing ? stalled_ + settings_.keepalive : engine::Duration{};
  return stalled_ >= settings_.stall_patience;
}

// ---- The end ----

void TargetConnection::want_send() {
  if (phase_ != Phase::closed) transport_->want_send();
}

void TargetConnection::close_gently(std::string why) {
  if (closing_ || phase_ == Phase::closed) return;
  closing_ = true;
  reason_ = std::move(why);
  transport_->ignore_input();
  transport_->tell_when_sent();
  if (paused_) transport_->resume();
  start_timer(kLastWords);
  want_send();
}

void TargetConnection::reset(std::string why) { end(engine::StreamClose::now, std::move(why)); }

void TargetConnection::end(engine::StreamClose how, std::string why) {
  if (phase_ == Phase::closed) return;
  phase_ = Phase::closed;
  reason_ = std::move(why);
  resources_.clock.cancel(std::exchange(timer_, engine::TimerId::none));
  transport_->close(how, [this] { silent(); });
}

void TargetConnection::silent() {
  if (session_) {
    session_->end();
    for (Quiesce& one : std::exchange(quiesce_when_silent_, {})) session_->quiesce(one.scope, std::move(one.done));
  } else {
    host_.closed(*this);
  }
}

void TargetConnection::drained() {
  assert(phase_ == Phase::closed);
  host_.closed(*this);
}

void TargetConnection::request_logout(std::uint16_t seconds) {
  if (phase_ == Phase::full_feature && !closing_) session_->request_logout(seconds);
}

void TargetConnection::quiesce(const TaskScope& scope, engine::Callback<> done) {
  if (!session_) return done();
  if (phase_ == Phase::closed && !session_->ended())
    return quiesce_when_silent_.emplace_back(scope, std::move(done)), void();
  session_->quiesce(scope, std::move(done));
}

bool TargetConnection::quiesce_others(const TaskScope& scope, engine::Callback<> done) {
  return host_.quiesce_others(*this, scope, std::move(done));
}

void TargetConnection::reset_target() {
  host_.reset_target(*this);
  close_gently("The initiator reset the target.");
}

}  // namespace lockstep::iscsi_target
