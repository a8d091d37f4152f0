#pragma once
// The payloads of one session's tasks over RDMA. What is short goes with the command, out of its own memory, and comes
// with the answer; for what is longer the partner is let at that memory through a window, which is shut before the task
// is over. Memory in which the network card can't move anything has a copy made, and counted.
#include <cstdint>
#include <optional>
#include <span>

#include "engine/iscsi/out_pdu.hpp"
#include "engine/iser/transport.hpp"
#include "replication/link/link_task.hpp"

namespace lockstep::replication {

/// Bytes of a request's payload that come with it.
constexpr std::size_t kEagerPayload = iser::Receives::kData;
/// Bytes of room for an answer's payload up to which that comes with the answer.
constexpr std::size_t kPayloadInAnswer = 4096 - kSealedAnswerFixed - kMaxLinkAnswerHeader;
/// Bytes of additional headers of a request with a payload: they end where a receive's buffer begins.
constexpr std::size_t kLinkAhs = 4 + kMaxLinkHeader + 8;

/// The way in: as many receives as there may be requests.
constexpr iser::Shape kLinkTargetShape{.headers = iser::kHeadersSize + kLinkAhs,
                                       .first = 240 + iser::Shape::kUnasked,
                                       .most = 240 + iser::Shape::kUnasked,
                                       .send_bytes = 320,
                                       .sends = 64};
/// The way out: as many as there may be answers.
constexpr iser::Shape kLinkCallerShape{.headers = iser::kHeadersSize + kLinkAhs,
                                       .first = 256 + iser::Shape::kUnasked,
                                       .most = 256 + iser::Shape::kUnasked,
                                       .send_bytes = 320,
                                       .sends = 64,
                                       .work = 512,
                                       .windows = 128};

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
  RdmaPayloads(iser::Transport& transport, User& user) : transport_(transport), user_(user) {}

  /// The session stands.
  void begin() { transport_.begin_session(*this, true); }
  /// Room for the task, and the copies that it needs; they stay with it.
  [[nodiscard]] bool prepare(LinkTask& task);
  /// Of a task that was prepared: puts its payload into the command, or names the memory that it lies in.
  void give(LinkTask& task, iscsi::OutPdu& command);
  /// The answer has come, with what follows its header as `beside`. False: it makes no sense.
  [[nodiscard]] bool take_answer(LinkTask& task, std::span<const std::byte> beside);
  /// Shuts what the answer has left open. True: nothing, or not any more.
  [[nodiscard]] bool shut(LinkTask& task);

 private:
  void on_read(void*) override {}
  void on_invalidated(std::uint32_t key) override { invalidated_ = key; }
  void on_hidden(void* owner) override;

  [[nodiscard]] bool copy_for(std::span<const std::byte> memory, engine::Buffer& copy);
  [[nodiscard]] rdma::Remote open(std::span<std::byte> memory, rdma::Access access, std::optional<std::uint32_t>& key);
  void note_shut(std::optional<std::uint32_t>& key);

  iser::Transport& transport_;
  User& user_;
  std::uint32_t open_ = 0;                    // windows
  std::optional<std::uint32_t> invalidated_;  // by the answer that is coming in
};

}  // namespace lockstep::replication
