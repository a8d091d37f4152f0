#pragma once
// Data over a byte stream (RFC 7143 11.7, 11.8): immediate and unsolicited data, R2T, Data-Out and Data-In. It is read
// and written only while the stream runs, so that what is given up is free at once.
//
// Data that comes before anybody asked for it waits in a stash. Where it has all come the device server may take the
// stash itself; else it is copied out of it. Without room for a stash the data is thrown away and asked for again.
#include "iscsi_target/session/transfers.hpp"

namespace lockstep::iscsi_target {

class StreamTransfers final : public Transfers {
 public:
  void start(Session& session) override { session_ = &session; }
  void begin(SessionCommand& command, bool is_final, std::uint32_t data_length) override;
  [[nodiscard]] bool data_out(const iscsi::DataOutHeader& header, std::uint32_t data_length) override;
  [[nodiscard]] std::span<std::byte> data_place(std::uint32_t offset) override;
  void data_ended() override;
  void get(SessionCommand& command) override;
  [[nodiscard]] bool ask(SessionCommand& command, iscsi::PduSender& queue) override;
  [[nodiscard]] engine::Buffer take(SessionCommand& command, std::size_t bytes) override;
  [[nodiscard]] Put put(SessionCommand& command, iscsi::PduSender& queue) override;
  [[nodiscard]] bool abandon(SessionCommand& command) override;
  void forget(SessionCommand& command) override;
  void end() override;

 private:
  void arrive(SessionCommand& command, std::uint32_t data_length);
  /// Whether the data is the next of its sequence.
  [[nodiscard]] bool follows(const SessionCommand& command, const iscsi::DataOutHeader& header,
                             std::uint32_t data_length) const;
  /// Up to where data may come that was not asked for.
  [[nodiscard]] std::uint32_t unsolicited_end(const SessionCommand& command) const;
  void progress(SessionCommand& command);
  [[nodiscard]] std::span<std::byte> stash_place(SessionCommand& command, std::uint32_t offset);
  [[nodiscard]] engine::Buffer take_stash(SessionCommand& command, std::size_t size);
  void give_stash_back(SessionCommand& command);

  Session* session_ = nullptr;
  SessionCommand* current_ = nullptr;  // whose data is arriving
  std::uint32_t current_base_ = 0;     // buffer offset of the segment's start
  std::uint32_t current_length_ = 0;
  bool current_final_ = false;
  bool current_is_data_out_ = false;
  std::size_t stashed_ = 0;  // bytes
};

}  // namespace lockstep::iscsi_target
