#pragma once
// The payloads of one session's tasks over RDMA. What is short goes with the command, out of its own memory, and comes
// with the answer; for what is longer the partner is let at that memory through a window, which is shut before the task
// is over. Memory in which the network card can't move anything has a copy made, and counted; on a protected connection
// all that the partner reads is an encrypted copy, and what it writes is opened when its window is shut.
#include <cstdint>
#include <span>
#include <vector>

#include <boost/circular_buffer.hpp>

#include "engine/iscsi/out_pdu.hpp"
#include "engine/iser/payload_transport.hpp"
#include "engine/iser/receives.hpp"
#include "engine/iser/shape.hpp"
#include "replication/link/link_task.hpp"

namespace lockstep::replication {

/// Bytes of a request's payload that come with it.
constexpr std::size_t kEagerPayload = iser::Receives::kData;
/// Bytes of room for an answer's payload up to which that comes with the answer.
constexpr std::size_t kPayloadInAnswer = 4096 - kSealedAnswerFixed - kMaxLinkAnswerHeader;
/// Bytes of additional headers of a request with a payload: they end where a receive's buffer begins.
constexpr std::size_t kLinkAhs = 4 + kMaxLinkHeader + 8;

/// The way in: as many receives as there may be requests, and some for pings and their answers.
constexpr iser::Shape kLinkTargetShape{.headers = iser::kHeadersSize + kLinkAhs,
                                       .first = 240 + 2 * iser::Shape::kUnasked,
                                       .most = 240 + 2 * iser::Shape::kUnasked,
                                       .send_bytes = 320,
                                       .sends = 64};
/// The way out: as many as there may be answers; a window for each request of the mirror's budget, and for heartbeats:
/// one volume whose disk hangs at the partner takes none from another one.
constexpr iser::Shape kLinkCallerShape{.headers = iser::kHeadersSize + kLinkAhs,
                                       .first = 256 + 2 * iser::Shape::kUnasked,
                                       .most = 256 + 2 * iser::Shape::kUnasked,
                                       .send_bytes = 320,
                                       .sends = 64,
                                       .work = 768,
                                       .windows = 272};

/// Bytes up to which a payload goes with its message; of the simulator's small ones these are others.
struct PayloadSizes {
  std::size_t with_request = kEagerPayload;
  std::size_t with_answer = kPayloadInAnswer;
};

class RdmaPayloads final : public iser::Mover {
 public:
  class User {
   public:
    /// Its windows are shut.
    virtual void on_shut(LinkTask& task) = 0;

   protected:
    ~User() = default;
  };

  /// Both outlive it.
  RdmaPayloads(iser::PayloadTransport& transport, User& user, PayloadSizes sizes = {});

  /// The session stands.
  void begin() { transport_.begin_session(*this, true); }
  /// Somebody has taken the call.
  [[nodiscard]] bool reaches_partner() const;
  [[nodiscard]] bool is_encrypted() const { return transport_.is_protected_rdma(); }
  void await_sends() { transport_.await_sends(); }
  /// Room for the task, and the copies that it needs; they stay with it.
  [[nodiscard]] bool prepare(LinkTask& task);
  /// Of a task that was prepared: puts its payload into the command, or names the memory that it lies in.
  void give(LinkTask& task, iscsi::OutPdu& command);
  /// The answer has come, with what follows its header as `beside`. False: it makes no sense.
  [[nodiscard]] bool take_answer(LinkTask& task, std::span<const std::byte> beside);
  /// Shuts what the answer has left open; User::on_shut() follows where there is such. True: there is none.
  [[nodiscard]] bool shut(LinkTask& task);
  /// When nothing is open: the payload is where the task wants it. A fault: it was changed on the way, or came damaged.
  enum class Came : std::uint8_t { whole, changed, damaged };
  [[nodiscard]] Came finish(LinkTask& task);

 private:
  void on_read(void*) override {}
  void on_invalidated(std::uint32_t key) override;
  void on_hidden(void* owner) override;

  [[nodiscard]] bool is_read(const LinkTask& task) const { return task.payload_out.size() > sizes_.with_request; }
  [[nodiscard]] bool is_written(const LinkTask& task) const { return task.payload_in.size() > sizes_.with_answer; }
  void count_handed_over(const LinkTask& task, std::size_t bytes);
  void count_copy(const LinkTask& task, std::size_t bytes);
  [[nodiscard]] bool copy_out(LinkTask& task);
  [[nodiscard]] bool copy_in(LinkTask& task);
  [[nodiscard]] std::span<const std::byte> outgoing(LinkTask& task, iscsi::OutPdu& command);
  /// Memory that the partner is let at, for a task.
  struct Window {
    std::uint32_t key = 0;
    LinkTask* task = nullptr;
  };
  [[nodiscard]] rdma::Remote open(LinkTask& task, std::span<std::byte> memory, rdma::Access access);
  static void note_shut(const Window& window);

  iser::PayloadTransport& transport_;
  User& user_;
  PayloadSizes sizes_;
  std::vector<Window> open_;
  boost::circular_buffer<Window> hiding_;  // in the order in which they were begun
};

}  // namespace lockstep::replication
