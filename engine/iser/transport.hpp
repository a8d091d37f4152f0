#pragma once
// PDUs over an RDMA connection: a message is a PDU, in either direction. Large data does not come by here: the mover of
// the connection's commands reads and writes the peer's memory itself (read(), write()).
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <boost/circular_buffer.hpp>

#include "engine/iscsi/pdu_transport.hpp"
#include "engine/iser/figures.hpp"
#include "engine/iser/format.hpp"
#include "engine/iser/payload_transport.hpp"
#include "engine/iser/protection.hpp"
#include "engine/iser/receives.hpp"
#include "engine/iser/send_queue.hpp"
#include "engine/rdma/verbs.hpp"
#include "engine/runtime/reactor.hpp"

namespace lockstep::iser {

/// Bytes of Transport::pool() that copies of payloads leave to what goes ahead of them, and to messages.
constexpr std::size_t kCopiesAhead = std::size_t{4} << 20;

/// Whom an initiator calls.
struct Destination {
  rdma::Fabric* fabric = nullptr;
  std::string from;  ///< a local address, "10.0.0.1:0"; empty: any
  std::string to;    ///< "10.0.0.2:3261"
};

class Transport final : public iscsi::PduTransport,
                        public PayloadTransport,
                        private rdma::QueuePairUser,
                        private engine::TurnHook {
 public:
  struct Place {
    rdma::Completions& completions;
    engine::BufferPool& pool;  ///< for data that lies in no arena; its own is the fabric's
    MessageMemory& messages;   ///< and so is that of its pool
    std::string share{};       ///< of it: the address whose; empty: nobody's, it may have all
    iscsi::OutPduPool& pdus;
    engine::Clock& clock;
    Figures& figures;
    rdma::Domain domain = rdma::Domain::initiators;
    Shape shape = kHosts;
    /// Every message is encrypted, and what is read and written beside them, once TLS's handshake has proven both ends
    /// by this (protection.hpp). Null: nothing is.
    std::shared_ptr<const engine::TlsContext> tls{};
    /// Has the hook's end_of_turn() called at the end of this turn.
    std::function<void(engine::TurnHook&)> at_end_of_turn;
  };
  /// Of an initiator's call. Null: there is no memory for its messages; the call is refused.
  [[nodiscard]] static std::unique_ptr<Transport> make(std::unique_ptr<rdma::Call> call, Place place);
  /// An initiator's own call, which start() makes. Null: there is no memory for its messages.
  [[nodiscard]] static std::unique_ptr<Transport> make(Destination to, Place place);
  ~Transport() override;

  // PduTransport
  void start(iscsi::PduTransportUser& user) override;
  [[nodiscard]] iscsi::PduSender& sender() override { return sends_; }
  void want_send() override;
  void await_sent() override { awaits_sent_ = true; }
  void tell_when_sent() override { tells_when_sent_ = true; }
  void resume() override;
  void ignore_input() override { ignores_ = true; }
  void set_limits(const iscsi::ReadLimits& limits) override { limits_ = limits; }
  void set_digests(bool header, bool data) override;
  [[nodiscard]] const iscsi::Bhs& header() const override { return message_.header; }
  [[nodiscard]] Progress progress() const override;
  void close(engine::StreamClose how, engine::Callback<> closed) override;
  [[nodiscard]] const std::string& local_address() const override { return local_; }
  [[nodiscard]] const std::string& peer_address() const override { return peer_; }
  [[nodiscard]] bool is_rdma() const override { return true; }
  [[nodiscard]] bool is_protected_rdma() const override { return protection_.has_value(); }

  // The mover's calls. Not after close().
  // PayloadTransport
  void begin_session(Mover& mover, bool receives) override;
  [[nodiscard]] const Tagged& tagged() const override { return message_.tagged; }
  [[nodiscard]] bool is_registered(std::span<const std::byte> memory) const override {
    return pair_->is_registered(memory);
  }
  [[nodiscard]] bool has_room(bool ahead) const override { return ahead ? sends_.has_room_ahead() : has_room(); }
  [[nodiscard]] rdma::Remote expose(std::span<std::byte> memory, rdma::Access access) override;
  void hide(std::uint32_t key, void* owner) override;
  void await_sends() override { pair_->await_sends(); }
  [[nodiscard]] PayloadSeal seal_payload(std::span<const std::byte> first, std::span<const std::byte> second,
                                         std::span<std::byte> into) override;
  [[nodiscard]] bool open_payload(const PayloadSeal& seal, std::span<const std::byte> from,
                                  std::span<std::byte> into) override;
  [[nodiscard]] engine::Buffer make_copy(std::size_t bytes, bool goes_ahead) override;
  [[nodiscard]] Figures& figures() override { return place_.figures; }

  /// Its data, all of it, from the beginning of the buffer on. Once; the sink is not asked where to put it then.
  [[nodiscard]] engine::Buffer take_data();
  /// What was taken is not needed any more, wherever it lies.
  void give_data_back();
  /// How many commands the peer may be allowed to have under way, beyond those that have come.
  [[nodiscard]] std::uint32_t receive_credit() const;
  [[nodiscard]] bool invalidates() const { return invalidates_; }
  /// Bytes of one read or write.
  [[nodiscard]] std::size_t max_message() const { return pair_->limits().max_message; }
  /// False: there is no room now; on completion of others fill() is called.
  [[nodiscard]] bool read(std::span<std::byte> into, const rdma::Remote& from, void* owner);
  [[nodiscard]] bool write(std::span<const std::byte> from, const rdma::Remote& to);
  /// There is for a read or a write.
  [[nodiscard]] bool has_room() const { return sends_.has_room(); }
  [[nodiscard]] bool is_established() const override { return is_established_; }
  /// Nothing but the handshake is said yet.
  [[nodiscard]] bool shakes_hands() const {
    return is_established_ && protection_ && !protection_->is_open() && !handshake_failed_;
  }
  /// fill() is called in a while: there was no memory.
  void retry_soon();
  [[nodiscard]] engine::BufferPool& pool() { return place_.pool; }
  /// The peer broke the rules: the connection is lost, at the end of this turn.
  void fail(Fault fault);

 private:
  struct Arrived {
    std::uint32_t slot = 0;
    std::uint32_t bytes = 0;
  };

  /// Of a message: what lies beside its headers, and what lies in the buffer.
  struct Data {
    std::span<std::byte> beside, in_buffer;
  };

  Transport(Place place, engine::TlsRole role);
  [[nodiscard]] static std::unique_ptr<Transport> with_memory(std::unique_ptr<Transport> transport);
  [[nodiscard]] std::unique_ptr<rdma::QueuePair> open();

  // rdma::QueuePairUser
  void on_established(std::span<const std::byte> private_data) override;
  void on_completion(const rdma::Completion& completion) override;
  void on_lost(std::error_code why) override;
  // engine::TurnHook
  void end_of_turn() override;

  void came(const Arrived& arrived);
  void deliver();
  void handle(const Arrived& arrived);
  /// Where the message is that came; empty: it was of the handshake, or the end.
  [[nodiscard]] std::span<std::byte> unprotected(const Arrived& arrived);
  void note_handshake(std::error_code why);
  [[nodiscard]] bool says_why();
  void post_handshake();
  [[nodiscard]] std::size_t lead() const { return protection_ ? kProtectionSize : 0; }
  [[nodiscard]] std::span<std::byte> beside() const;
  [[nodiscard]] bool takes(const iscsi::ReadLimits& limits) const;
  void hand_over_data();
  void lose(std::error_code why);
  void feed_starved();
  [[nodiscard]] bool ahs_is_split(std::size_t bytes) const;
  [[nodiscard]] std::span<const std::byte> ahs() const;
  [[nodiscard]] Data data() const;

  std::unique_ptr<rdma::Call> call_;  // until start(), or
  Destination to_;
  Place place_;
  bool is_caller_;
  std::string local_, peer_;
  bool invalidates_ = false;
  engine::Buffer memory_;
  std::optional<Protection> protection_;
  Receives receives_;
  SendQueue sends_;
  std::unique_ptr<rdma::QueuePair> pair_;
  iscsi::PduTransportUser* user_ = nullptr;  // null before start() and after close()
  Mover* mover_ = nullptr;
  engine::Callback<> closed_;
  boost::circular_buffer<Arrived> arrived_;
  iscsi::ReadLimits limits_;
  Message message_;         // that comes in, or the last one
  std::uint32_t slot_ = 0;  // of it
  bool holds_data_ = false;
  bool is_established_ = false;
  bool delivering_ = false;
  bool ignores_ = false;
  bool awaits_sent_ = false;  // this turn's fill() said so
  bool tells_when_sent_ = false;
  bool was_shut_ = false;  // the peer may have been told that it may send nothing
  std::error_code fault_;
  bool handshake_failed_ = false;  // the peer is to hear of it first
  std::uint64_t received_ = 0, sent_ = 0;
  engine::TimerId memory_timer_ = engine::TimerId::none;
};

}  // namespace lockstep::iser
