#pragma once
// Who moves the data of commands over RDMA, and what that asks of a connection whose peer is let at this end's memory.
// Transport is the real one; the simulator has one without a device (tests/simulation/sim_rdma.hpp).
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/iser/figures.hpp"
#include "engine/iser/format.hpp"
#include "engine/rdma/verbs.hpp"
#include "engine/runtime/buffer_pool.hpp"

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

class PayloadTransport {
 public:
  /// The session stands: from now on `mover` has its data. With `receives` the initiator may send commands.
  virtual void begin_session(Mover& mover, bool receives) = 0;
  /// The connection stands.
  [[nodiscard]] virtual bool is_established() const = 0;
  [[nodiscard]] virtual bool is_protected_rdma() const = 0;
  /// Of the PDU that is coming in.
  [[nodiscard]] virtual const Tagged& tagged() const = 0;
  /// Whether the network card may read and write it.
  [[nodiscard]] virtual bool is_registered(std::span<const std::byte> memory) const = 0;
  /// There is for a read, a write, or expose().
  [[nodiscard]] virtual bool has_room(bool ahead) const = 0;
  /// Memory for the target to read or to write to, from the next PDU on: at most the shape's windows. The answer shuts
  /// it (Mover::on_invalidated()); where it doesn't, hide() has to.
  [[nodiscard]] virtual rdma::Remote expose(std::span<std::byte> memory, rdma::Access access) = 0;
  virtual void hide(std::uint32_t key, void* owner) = 0;
  /// Whoever has pushed waits for that to be done (rdma::QueuePair::await_sends()).
  virtual void await_sends() = 0;
  /// Of a protected connection: encrypts what is to be read, or written, beside the message that brings the seal. The
  /// pieces lie one behind the other in `into`.
  [[nodiscard]] virtual PayloadSeal seal_payload(std::span<const std::byte> first, std::span<const std::byte> second,
                                                 std::span<std::byte> into) = 0;
  /// False: it is not what the peer sealed, and nothing of it may be used.
  [[nodiscard]] virtual bool open_payload(const PayloadSeal& seal, std::span<const std::byte> from,
                                          std::span<std::byte> into) = 0;
  /// Memory that the network card knows. Empty: there is none, or nothing but what is kept for what goes ahead; fill()
  /// is called in a while.
  [[nodiscard]] virtual engine::Buffer make_copy(std::size_t bytes, bool goes_ahead) = 0;
  [[nodiscard]] virtual Figures& figures() = 0;

 protected:
  ~PayloadTransport() = default;
};

}  // namespace lockstep::iser
