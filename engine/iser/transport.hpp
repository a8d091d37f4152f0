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
#include "engine/iser/receives.hpp"
#include "engine/iser/send_queue.hpp"
#include "engine/rdma/verbs.hpp"
#include "engine/runtime/reactor.hpp"

namespace lockstep::iser {

/// What moves the data of the commands that come by a transport. Nothing is called after PduTransport::close().
class Mover {
 public:
  /// A read() is over; its memory holds the data.
  virtual void on_read(void* owner) = 0;
  /// There is room again for messages, where there was none: the peer is to hear that.
  virtual void on_window_open() {}
  /// Of exposed memory: a PDU of the peer's, which follows, has shut the window; or hide() has.
  virtual void on_invalidated(std::uint32_t key) { (void)key; }
  virtual void on_hidden(void* owner) { (void)owner; }

 protected:
  ~Mover() = default;
};

/// Whom an initiator calls.
struct Destination {
  rdma::Fabric* fabric = nullptr;
  std::string from;  ///< a local address, "10.0.0.1:0"; empty: any
  std::string to;    ///< "10.0.0.2:3261"
};

class Transport final : public iscsi::PduTransport, private rdma::QueuePairUser, private engine::TurnHook {
 public:
  struct Place {
    rdma::Completions& completions;
    engine::BufferPool& pool;  ///< for data that lies in no arena; its own is the fabric's
    MessageMemory& messages;   ///< and so is that of its pool
    iscsi::OutPduPool& pdus;
    engine::Clock& clock;
    Figures& figures;
    rdma::Domain domain = rdma::Domain::initiators;
    Shape shape = kHosts;
    /// Has the hook's end_of_turn() called at the end of this turn.
    std::function<void(engine::TurnHook&)> at_end_of_turn;
  };
  /// Of an initiator's call. Null: there is no memory for its messages; the call is refused.
  [[nodiscard]] static std::unique_ptr<Transport> make(std::unique_ptr<rdma::Call> call, Place place);
  /// An initiator's own call, which start() makes. Null: there is no memory for its messages.
  [[nodiscard]] static std::unique_ptr<Transport> make(Destination to, Place place);
  ~Transport() override;

  /// The session stands: from now on `mover` has its data. With `receives` the initiator may send commands.
  void begin_session(Mover& mover, bool receives);

  // PduTransport
  void start(iscsi::PduTransportUser& user) override;
  [[nodiscard]] iscsi::PduSender& sender() override { return sends_; }
  void want_send() override;
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

  // The mover's calls. Not after close().
  /// Of the PDU that is coming in.
  [[nodiscard]] const Tagged& tagged() const { return message_.tagged; }
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
  /// Whether the network card may read and write it.
  [[nodiscard]] bool is_registered(std::span<const std::byte> memory) const { return pair_->is_registered(memory); }
  /// There is for a read, a write, or expose().
  [[nodiscard]] bool has_room(bool ahead = false) const { return ahead ? sends_.has_room_ahead() : sends_.has_room(); }
  /// Memory for the target to read or to write to, from the next PDU on: at most the shape's windows. The answer shuts
  /// it (Mover::on_invalidated()); where it doesn't, hide() has to.
  [[nodiscard]] rdma::Remote expose(std::span<std::byte> memory, rdma::Access access);
  void hide(std::uint32_t key, void* owner);
  /// The connection stands.
  [[nodiscard]] bool is_established() const { return is_established_; }
  /// fill() is called in a while: there was no memory.
  void retry_soon();
  /// The peer broke the rules: the connection is lost, at the end of this turn.
  void fail(Fault fault);
  [[nodiscard]] Figures& figures() { return place_.figures; }
  [[nodiscard]] engine::BufferPool& pool() { return place_.pool; }

 private:
  struct Arrived {
    std::uint32_t slot = 0;
    std::uint32_t bytes = 0;
  };

  /// Of a message: what lies beside its headers, and what lies in the buffer.
  struct Data {
    std::span<std::byte> beside, in_buffer;
  };

  explicit Transport(Place place);
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
  std::string local_, peer_;
  bool invalidates_ = false;
  engine::Buffer memory_;
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
  bool tells_when_sent_ = false;
  bool was_shut_ = false;  // the peer may have been told that it may send nothing
  std::error_code fault_;
  std::uint64_t received_ = 0, sent_ = 0, emptied_ = 0;
  engine::TimerId memory_timer_ = engine::TimerId::none;
};

}  // namespace lockstep::iser
