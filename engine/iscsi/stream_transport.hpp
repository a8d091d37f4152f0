#pragma once
// PDUs over a byte stream: the reader and the transmit queue on one end of it.
#include <memory>

#include "engine/iscsi/pdu_transport.hpp"
#include "engine/iscsi/transmit_queue.hpp"

namespace lockstep::iscsi {

class StreamTransport final : public PduTransport, public engine::StreamProtocol {
 public:
  /// Whoever makes the stream starts it for this protocol, after the user has started the transport.
  StreamTransport(std::unique_ptr<engine::Stream> stream, OutPduPool& pool);
  ~StreamTransport() override;

  // PduTransport
  void start(PduTransportUser& user) override;
  [[nodiscard]] PduSender& sender() override { return queue_; }
  void want_send() override { stream_->want_send(); }
  void tell_when_sent() override { tells_when_sent_ = true; }
  void resume() override { stream_->resume_receive(); }
  void ignore_input() override { reader_.stop(); }
  void set_limits(const ReadLimits& limits) override { reader_.set_limits(limits); }
  void set_digests(bool header, bool data) override { queue_.set_digests(header, data); }
  [[nodiscard]] const Bhs& header() const override { return reader_.header(); }
  [[nodiscard]] Progress progress() const override { return {received_, sent_, emptied_, reader_.midway()}; }
  void close(engine::StreamClose how, engine::Callback<> closed) override;
  [[nodiscard]] const std::string& local_address() const override { return stream_->local_address(); }
  [[nodiscard]] const std::string& peer_address() const override { return stream_->peer_address(); }

  // engine::StreamProtocol
  engine::ReceivePlace receive_place() override;
  void received(std::size_t direct, std::span<const std::byte> scratch) override;
  std::size_t gather(std::span<std::span<const std::byte>> pieces) override;
  void sent(std::size_t bytes) override;
  void on_stream_closed(std::error_code why) override;

 private:
  std::unique_ptr<engine::Stream> stream_;
  PduTransportUser* user_ = nullptr;  ///< null before start() and after close()
  PduReader reader_;
  TransmitQueue queue_;
  std::uint64_t received_ = 0, sent_ = 0, emptied_ = 0;
  bool tells_when_sent_ = false;
};

}  // namespace lockstep::iscsi
