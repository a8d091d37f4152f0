#pragma once
// Data over RDMA (RFC 7145 §7.3): what comes with a write is handed on where it lies; more is read from the initiator's
// memory into its place, and what a read brings is written there, ahead of the status. What is under way to a command's
// memory can't be called back: who gives the command up waits for its end.
#include "engine/iser/transport.hpp"
#include "iscsi_target/session/transfers.hpp"

namespace lockstep::iscsi_target {

class IserTransfers final : public Transfers, private iser::Mover {
 public:
  /// The transport that the session's PDUs come by; it ends before this does.
  explicit IserTransfers(iser::Transport& transport) : transport_(transport) {}

  void start(Session& session) override;
  void begin(SessionCommand& command, bool is_final, std::uint32_t data_length) override;
  [[nodiscard]] bool data_out(const iscsi::DataOutHeader& header, std::uint32_t data_length) override;
  [[nodiscard]] std::span<std::byte> data_place(std::uint32_t) override { return {}; }
  void data_ended() override {}
  void get(SessionCommand& command) override;
  [[nodiscard]] bool ask(SessionCommand& command, iscsi::PduSender& queue) override;
  [[nodiscard]] engine::Buffer take(SessionCommand& command, std::size_t bytes) override;
  [[nodiscard]] Put put(SessionCommand& command, iscsi::PduSender& queue) override;
  void answering(SessionCommand& command, iscsi::OutPdu& status) override;
  [[nodiscard]] std::uint32_t receive_credit() const override { return transport_.receive_credit(); }
  [[nodiscard]] bool abandon(SessionCommand& command) override;
  void forget(SessionCommand& command) override;
  void end() override {}

 private:
  // iser::Mover
  void on_read(void* owner) override;
  void on_window_open() override;

  [[nodiscard]] std::span<std::byte> place_of(SessionCommand& command);
  [[nodiscard]] bool take_what_was_read(SessionCommand& command);
  [[nodiscard]] bool put_in_arena(SessionCommand& command);
  [[nodiscard]] bool seal(SessionCommand& command);
  [[nodiscard]] static std::span<const std::byte> small_data(const SessionCommand& command);
  [[nodiscard]] static bool goes_with_status(const SessionCommand& command);
  void add_response_data(SessionCommand& command, iscsi::OutPdu& status);

  iser::Transport& transport_;
  Session* session_ = nullptr;
};

}  // namespace lockstep::iscsi_target
