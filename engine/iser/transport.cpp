#include "engine/iser/transport.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "engine/base/copy_bytes.hpp"

namespace lockstep::iser {
namespace {

constexpr std::uint32_t kReads = 64;
constexpr std::uint32_t kInline = 220;  // bytes: a status with its sense data
constexpr auto kMemoryLook = std::chrono::milliseconds(5);

Transport::Place protected_where_asked(Transport::Place place) {
  if (place.tls) place.shape = place.shape.protects();
  return place;
}

std::optional<Protection> protection_of(const Transport::Place& place, engine::TlsRole role) {
  return place.tls ? std::optional<Protection>(std::in_place, place.tls, role) : std::nullopt;
}

}  // namespace

std::unique_ptr<Transport> Transport::make(std::unique_ptr<rdma::Call> call, Place place) {
  std::unique_ptr<Transport> transport(new Transport(std::move(place), engine::TlsRole::server));
  transport->local_ = call->local_address();
  transport->peer_ = call->peer_address();
  transport->invalidates_ = call->can_invalidate() && takes_invalidation(call->private_data());
  transport->call_ = std::move(call);
  return with_memory(std::move(transport));
}

std::unique_ptr<Transport> Transport::make(Destination to, Place place) {
  std::unique_ptr<Transport> transport(new Transport(std::move(place), engine::TlsRole::client));
  transport->peer_ = to.to;
  transport->to_ = std::move(to);
  return with_memory(std::move(transport));
}

std::unique_ptr<Transport> Transport::with_memory(std::unique_ptr<Transport> transport) {
  transport->memory_ = transport->receives_.reserve();
  return transport->memory_ ? std::move(transport) : nullptr;
}

Transport::Transport(Place place, engine::TlsRole role)
    : place_(protected_where_asked(std::move(place))),
      is_caller_(role == engine::TlsRole::client),
      protection_(protection_of(place_, role)),
      receives_(place_.messages, place_.shape, place_.share),
      sends_(place_.pdus, place_.figures, place_.shape, place_.pool, protection_ ? &*protection_ : nullptr),
      arrived_(place_.shape.most) {}

Transport::~Transport() { assert(user_ == nullptr && !closed_); }

std::unique_ptr<rdma::QueuePair> Transport::open() {
  const rdma::Wanted wanted{.sends = place_.shape.work,
                            .receives = place_.shape.most,
                            .reads = kReads,
                            .max_inline = kInline,
                            .windows = place_.shape.windows};
  const auto all = protected_private_data(is_caller_ || invalidates_);
  const auto says = std::span(all).first(protection_ ? all.size() : kPrivateSize);
  if (const auto call = std::move(call_)) return call->accept(place_.completions, place_.domain, wanted, says, *this);
  return to_.fabric->connect(place_.completions, place_.domain, to_.from, to_.to, wanted, says, *this);
}

void Transport::start(iscsi::PduTransportUser& user) {
  assert(user_ == nullptr && pair_ == nullptr);
  user_ = &user;
  pair_ = open();
  sends_.start(*pair_, memory_.span().subspan(place_.shape.receive_memory(), place_.shape.send_memory()));
  receives_.start(*pair_, memory_.span().first(place_.shape.receive_memory()));
  if (receives_.starved()) retry_soon();
}

void Transport::begin_session(Mover& mover, bool receives) {
  mover_ = &mover;
  const std::uint32_t at_once = invalidates_ ? 0 : Shape::kOfLibiscsi;
  if (!receives) return;
  const auto room = receives_.open_session(at_once);
  if (room == MessageMemory::Room::over_share) return fail(Fault::over_share);
  if (room == MessageMemory::Room::taken) fail(Fault::no_memory);
}

void Transport::set_digests(bool header, bool data) { assert(!header && !data); }

iscsi::PduTransport::Progress Transport::progress() const { return {received_, sent_, sends_.rounds(), false}; }

// ---- What comes ----

void Transport::on_established(std::span<const std::byte> private_data) {
  is_established_ = true;
  local_ = pair_->local_address();
  if (protection_ && is_caller_ && !wants_protection(private_data)) {
    fault_ = make_error_code(Fault::unprotected);
  } else if (protection_) {
    note_handshake(protection_->begin());
  }
  want_send();
}

void Transport::on_completion(const rdma::Completion& completion) {
  if (user_ == nullptr || completion.error) return;  // on_lost() follows
  switch (completion.work) {
    case rdma::Work::receive:
      if (completion.invalidated) ++place_.figures.invalidated;
      if (completion.invalidated && mover_ != nullptr) mover_->on_invalidated(*completion.invalidated);
      return came({static_cast<std::uint32_t>(completion.id), completion.bytes});
    case rdma::Work::send:
      sent_ += sends_.completed(completion.id);
      return want_send();
    case rdma::Work::read:
      sends_.read_over();
      want_send();
      user_->on_received();  // which looks whether the node still serves
      if (mover_ != nullptr) mover_->on_read(reinterpret_cast<void*>(completion.id));  // NOLINT: as read() gave it
      return;
    case rdma::Work::hide:
      sends_.hide_over();
      want_send();
      if (mover_ != nullptr) mover_->on_hidden(reinterpret_cast<void*>(completion.id));  // NOLINT: as hide() gave it
      return;
    case rdma::Work::write:
      return;
  }
}

void Transport::came(const Arrived& arrived) {
  receives_.came(arrived.slot);
  received_ += arrived.bytes;
  ++place_.figures.messages_in;
  place_.figures.bytes_in += arrived.bytes;
  if (ignores_) return receives_.post(arrived.slot);
  arrived_.push_back(arrived);
  if (!delivering_) deliver();
}

void Transport::deliver() {
  delivering_ = true;
  while (user_ != nullptr && !ignores_ && !fault_ && !arrived_.empty() && user_->takes_more()) {
    const Arrived arrived = arrived_.front();
    arrived_.pop_front();
    user_->on_received();
    if (user_ != nullptr) handle(arrived);
  }
  delivering_ = false;
  if (user_ != nullptr) feed_starved();
}

void Transport::handle(const Arrived& arrived) {
  const bool fits = arrived.bytes <= place_.shape.headers + Receives::kData;
  if (!fits) return lose(make_error_code(Fault::too_short));
  const auto headers = protection_ ? unprotected(arrived) : receives_.headers(arrived.slot);
  if (headers.empty()) return;
  auto message = read_message(headers, arrived.bytes - lead());
  if (!message) return lose(message.error());
  if (ahs_is_split(message->ahs)) return lose(make_error_code(Fault::length));
  message_ = *message;
  slot_ = arrived.slot;
  if (protection_) {
    message_.tagged.seal = read_protection(receives_.headers(slot_).first<kProtectionSize>());
    place_.figures.copied.cipher += message_.data;
  }
  holds_data_ = message_.data != 0;
  if (message_.ahs > limits_.ahs) {
    user_->on_read_error(iscsi::ReadError::header_too_long);
  } else if (message_.data > limits_.data) {
    user_->on_read_error(iscsi::ReadError::data_too_long);
  } else {
    user_->on_header(message_.header, ahs(), static_cast<std::uint32_t>(message_.data));
    if (user_ != nullptr && !ignores_) hand_over_data();
    if (user_ != nullptr && !ignores_) user_->on_pdu();
  }
  holds_data_ = false;
  if (user_ == nullptr) return;
  const auto opcode = std::to_integer<std::uint8_t>(message_.header[0]);
  if (opcode == static_cast<std::uint8_t>(iscsi::Opcode::scsi_command)) return receives_.post_after_command(slot_);
  receives_.post(slot_);
}

// ---- Its protection ----

std::span<std::byte> Transport::unprotected(const Arrived& arrived) {
  const auto headers = receives_.headers(arrived.slot);
  const auto first = headers.first(std::min<std::size_t>(arrived.bytes, headers.size()));
  const auto second = receives_.data(arrived.slot).first(arrived.bytes - first.size());
  if (!protection_->is_open()) {
    note_handshake(protection_->take(first, second));
    receives_.post(arrived.slot);
    return {};
  }
  if (const auto why = protection_->open(first, second)) {
    lose(why);
    return {};
  }
  return headers.subspan(kProtectionSize);
}

void Transport::note_handshake(std::error_code why) {
  if (why) fault_ = why, handshake_failed_ = true;
  want_send();
}

void Transport::post_handshake() {
  while (!protection_->unsent().empty()) {
    const auto all = protection_->unsent();
    const auto one = all.first(std::min(all.size(), Receives::kData));
    if (!sends_.post_bytes(one)) return;
    protection_->sent(one.size());
  }
}

// Where the handshake has failed, TLS has a word for the peer about why, which leaves first.
bool Transport::says_why() {
  if (!handshake_failed_ || !is_established_) return false;
  post_handshake();
  return !protection_->unsent().empty() || !sends_.is_silent();
}

PayloadSeal Transport::seal_payload(std::span<const std::byte> first, std::span<const std::byte> second,
                                    std::span<std::byte> into) {
  place_.figures.copied.cipher += into.size();
  const std::array<Protection::Piece, 2> pieces{Protection::Piece{first, into.first(first.size())},
                                                Protection::Piece{second, into.subspan(first.size())}};
  return protection_->seal_payload(pieces);
}

bool Transport::open_payload(const PayloadSeal& seal, std::span<const std::byte> from, std::span<std::byte> into) {
  place_.figures.copied.cipher += from.size();
  return protection_->open_payload(seal, from, into);
}

// ---- A message's parts ----

// What follows the headers begins beside them, as far as there is room, and goes on in the buffer. The shape of hosts
// has no such room, so that all of it lies in the buffer.
std::span<std::byte> Transport::beside() const { return receives_.headers(slot_).subspan(lead() + kHeadersSize); }

bool Transport::ahs_is_split(std::size_t bytes) const {
  const std::size_t beside = place_.shape.headers - lead() - kHeadersSize;
  return beside != 0 && bytes > beside;
}

std::span<const std::byte> Transport::ahs() const {
  const auto place = beside();
  return (place.empty() ? receives_.data(slot_) : place).first(message_.ahs);
}

Transport::Data Transport::data() const {
  const auto place = beside();
  const std::size_t before = std::min(message_.ahs, place.size());
  const std::size_t first = std::min(message_.data, place.size() - before);
  return {place.subspan(before, first), receives_.data(slot_).subspan(message_.ahs - before, message_.data - first)};
}

void Transport::hand_over_data() {
  if (!holds_data_) return;
  const auto [beside, in_buffer] = data();
  for (std::size_t at = 0; holds_data_ && at < message_.data;) {
    const auto place = user_->data_place(static_cast<std::uint32_t>(at));
    if (place.empty()) return;
    const std::span<const std::byte> rest =
        at < beside.size() ? beside.subspan(at) : in_buffer.subspan(at - beside.size());
    const auto piece = rest.first(std::min(place.size(), rest.size()));
    engine::copy_bytes(piece, place);
    place_.figures.copied.control += piece.size();
    at += piece.size();
  }
}

engine::Buffer Transport::take_data() {
  assert(holds_data_ && message_.data <= Receives::kData);
  holds_data_ = false;
  const auto [beside, in_buffer] = data();
  engine::Buffer taken = receives_.take(slot_);
  if (in_buffer.data() != taken.data() || !beside.empty()) {
    std::memmove(taken.data() + beside.size(), in_buffer.data(), in_buffer.size());
    engine::copy_bytes(beside, taken.span());
    place_.figures.copied.ahs += message_.data;
  }
  const bool fits = taken.resize(message_.data);
  assert(fits);
  return taken;
}

void Transport::give_data_back() {
  if (user_ != nullptr) {
    receives_.give_back();
    if (was_shut_ || receives_.starved()) feed_starved();
  } else {
    receives_.forget_one();
  }
}

std::uint32_t Transport::receive_credit() const {
  const std::size_t there = receives_.posted() + arrived_.size();
  return static_cast<std::uint32_t>(there - std::min<std::size_t>(there, receives_.for_unasked()));
}

// Memory that is short comes back with some other command's end.
void Transport::feed_starved() {
  receives_.post_starved();
  if (receive_credit() == 0) {
    was_shut_ = true;
  } else if (std::exchange(was_shut_, false) && mover_ != nullptr) {
    mover_->on_window_open();
  }
  if (!receives_.starved()) return;
  ++place_.figures.starved;
  retry_soon();
}

engine::Buffer Transport::make_copy(std::size_t bytes, bool goes_ahead) {
  const std::size_t kept = goes_ahead ? 0 : kCopiesAhead;
  const std::size_t left = place_.pool.capacity() - place_.pool.in_use();
  engine::Buffer copy =
      left >= kept + engine::BufferPool::block_size(bytes) ? place_.pool.allocate(bytes) : engine::Buffer{};
  if (!copy) retry_soon();
  return copy;
}

void Transport::retry_soon() {
  if (memory_timer_ != engine::TimerId::none) return;
  memory_timer_ = place_.clock.call_after(kMemoryLook, [this] {
    memory_timer_ = engine::TimerId::none;
    feed_starved();
    want_send();
  });
}

// ---- What leaves ----

void Transport::want_send() {
  if (user_ != nullptr) place_.at_end_of_turn(*this);
}

void Transport::resume() {
  if (!ignores_) want_send();
}

void Transport::end_of_turn() {
  if (user_ == nullptr) return;
  if (fault_) return says_why() ? pair_->await_sends() : lose(fault_);
  if (!arrived_.empty()) deliver();
  if (user_ == nullptr) return;
  awaits_sent_ = false;
  user_->fill();
  if (user_ == nullptr || !is_established_) return;
  if (protection_) post_handshake();
  // What is sealed comes behind the whole handshake: the peer can't open it before.
  if (protection_ && (!protection_->is_open() || !protection_->unsent().empty())) return pair_->await_sends();
  sends_.post();
  if (sends_.starved()) retry_soon();
  if (sends_.overrun()) return lose(make_error_code(Fault::long_answer));
  if (tells_when_sent_ || awaits_sent_ || sends_.is_full()) pair_->await_sends();
  if (tells_when_sent_ && sends_.idle()) user_->on_all_sent();
}

bool Transport::read(std::span<std::byte> into, const rdma::Remote& from, void* owner) {
  if (!sends_.has_room()) return false;
  sends_.read(into, from, reinterpret_cast<std::uint64_t>(owner));  // NOLINT: a name for it
  return true;
}

bool Transport::write(std::span<const std::byte> from, const rdma::Remote& to) {
  if (!sends_.has_room()) return false;
  sends_.write(from, to);
  return true;
}

rdma::Remote Transport::expose(std::span<std::byte> memory, rdma::Access access) {
  return sends_.expose(memory, access);
}

void Transport::hide(std::uint32_t key, void* owner) {
  sends_.hide(key, reinterpret_cast<std::uint64_t>(owner));  // NOLINT: a name for it
}

// ---- The end ----

void Transport::fail(Fault fault) {
  fault_ = fault;
  want_send();
}

// A peer that was told why the handshake has failed may hang up before this end knows that it was told.
void Transport::on_lost(std::error_code why) {
  if (const auto status = rdma::status_of(why)) ++place_.figures.errors[static_cast<std::size_t>(*status)];
  lose(handshake_failed_ ? fault_ : why);
}

void Transport::lose(std::error_code why) {
  if (user_ != nullptr) user_->on_lost(why);
}

void Transport::close(engine::StreamClose, engine::Callback<> closed) {
  assert(user_ != nullptr);
  user_ = nullptr;
  mover_ = nullptr;
  place_.clock.cancel(std::exchange(memory_timer_, engine::TimerId::none));
  arrived_.clear();
  closed_ = std::move(closed);
  pair_->close([this] {
    sends_.drop();
    std::exchange(closed_, nullptr)();
  });
}

}  // namespace lockstep::iser
