#include "engine/iscsi/stream_transport.hpp"

#include <cassert>
#include <utility>

namespace lockstep::iscsi {

StreamTransport::StreamTransport(std::unique_ptr<engine::Stream> stream, OutPduPool& pool)
    : stream_(std::move(stream)), queue_(pool) {}

StreamTransport::~StreamTransport() { stream_->close(engine::StreamClose::now); }

void StreamTransport::start(PduTransportUser& user) {
  assert(user_ == nullptr);
  user_ = &user;
  reader_.start(user);
}

// A stream that is closed reads and writes nothing any more, so that it calls back at once.
void StreamTransport::close(engine::StreamClose how, engine::Callback<> closed) {
  assert(user_ != nullptr);
  user_ = nullptr;
  reader_.stop();
  stream_->close(how);
  queue_.drop();
  closed();
}

engine::ReceivePlace StreamTransport::receive_place() {
  if (user_ == nullptr || !user_->takes_more()) return {{}, 0};
  return reader_.receive_place();
}

void StreamTransport::received(std::size_t direct, std::span<const std::byte> scratch) {
  if (user_ == nullptr) return;
  received_ += direct + scratch.size();
  user_->on_received();
  reader_.received(direct, scratch);
}

std::size_t StreamTransport::gather(std::span<std::span<const std::byte>> pieces) {
  if (user_ == nullptr) return 0;
  user_->fill();
  const std::size_t count = queue_.gather(pieces);
  if (count == 0) {
    ++emptied_;
    if (tells_when_sent_ && user_ != nullptr) user_->on_all_sent();
  }
  return count;
}

void StreamTransport::sent(std::size_t bytes) {
  sent_ += bytes;
  queue_.sent(bytes);
}

void StreamTransport::on_stream_closed(std::error_code why) {
  if (user_ != nullptr) user_->on_lost(why);
}

}  // namespace lockstep::iscsi
