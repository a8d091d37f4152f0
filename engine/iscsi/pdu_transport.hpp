#pragma once
// What carries a connection's PDUs, either side of it. The login, the session and the link know this alone; a byte
// stream (stream_transport.hpp) is one way to be it. All calls on one reactor.
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>

#include "engine/base/result.hpp"
#include "engine/iscsi/pdu_reader.hpp"
#include "engine/iscsi/pdu_sender.hpp"
#include "engine/net/stream.hpp"

namespace lockstep::iscsi {

/// Whose PDUs they are. Nothing is called after PduTransport::close().
class PduTransportUser : public PduSink {
 public:
  /// False: nothing more is taken in until PduTransport::resume().
  [[nodiscard]] virtual bool takes_more() = 0;
  /// Something has come; the sink's calls follow unless the transport was closed in here.
  virtual void on_received() = 0;
  /// The turn's end: what is ready goes to the sender now. May close the transport.
  virtual void fill() = 0;
  /// After PduTransport::tell_when_sent(): nothing is left to be sent. May close the transport.
  virtual void on_all_sent() = 0;
  /// The peer, the network or the system ended it. close() is still owed.
  virtual void on_lost(std::error_code why) = 0;

 protected:
  ~PduTransportUser() = default;
};

class PduTransport {
 public:
  /// What has moved so far.
  struct Progress {
    std::uint64_t received = 0;  ///< bytes
    std::uint64_t sent = 0;      ///< bytes that the peer, or the system for it, has taken
    std::uint64_t emptied = 0;   ///< how often everything was taken that was to be sent, or had been the time before
    bool midway = false;         ///< a PDU has begun to come in and is not whole
  };

  PduTransport() = default;
  PduTransport(const PduTransport&) = delete;
  PduTransport& operator=(const PduTransport&) = delete;
  /// When close() has called back, or the transport never started. Else nothing that the user gave it is read or
  /// written afterwards, even if the thread has to wait for that.
  virtual ~PduTransport() = default;

  /// Once, before anything else. The user outlives the transport or closes it first.
  virtual void start(PduTransportUser& user) = 0;
  [[nodiscard]] virtual PduSender& sender() = 0;
  /// The user's fill() is called at the end of this turn. Cheap and idempotent.
  virtual void want_send() = 0;
  /// In fill(): the user goes on when what it has pushed has left. Else it may hear of that some milliseconds late.
  virtual void await_sent() {}
  /// From now on the user's on_all_sent() is called.
  virtual void tell_when_sent() = 0;
  virtual void resume() = 0;
  /// Everything that comes from now on is thrown away. May be called from the sink.
  virtual void ignore_input() = 0;
  /// For what comes and is pushed from now on: between PDUs only.
  virtual void set_limits(const ReadLimits& limits) = 0;
  virtual void set_digests(bool header, bool data) = 0;
  /// The PDU that comes in, or the last one.
  [[nodiscard]] virtual const Bhs& header() const = 0;
  [[nodiscard]] virtual Progress progress() const = 0;

  /// The end, once, whoever began it; may be called from inside any of the user's members but takes_more() and
  /// data_place(), and from a PDU's `done`. Nothing more is sent. `closed` runs once, perhaps in here: nothing reads or
  /// writes what the user gave it any more, and each PDU that was not sent has had its `done`. Until then every buffer
  /// stays as it is.
  virtual void close(engine::StreamClose how, engine::Callback<> closed) = 0;

  /// Its login is one of RFC 7145, and no data moves by PDUs but what comes with a command.
  [[nodiscard]] virtual bool is_rdma() const { return false; }
  /// And encrypted by itself, from its first PDU on.
  [[nodiscard]] virtual bool is_protected_rdma() const { return false; }
  [[nodiscard]] virtual const std::string& local_address() const = 0;  ///< "127.0.0.1:3260", "[::1]:3260"
  [[nodiscard]] virtual const std::string& peer_address() const = 0;
};

}  // namespace lockstep::iscsi
