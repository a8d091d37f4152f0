#pragma once
// Transfers that go on writing to a pull's memory for a while after they were told to abandon it, as a read that a
// network card was given does.
#include <algorithm>
#include <utility>

#include <gtest/gtest.h>

#include "iscsi_target/session/session.hpp"
#include "iscsi_target/session/stream_transfers.hpp"

namespace lockstep::test {

class LateTransfers final : public iscsi_target::Transfers {
 public:
  /// What the last bytes of an abandoned transfer look like.
  static constexpr std::byte kLate{0xEE};

  [[nodiscard]] bool holds() const { return abandoned_ != nullptr; }
  /// The last bytes land; nothing more does.
  void let_go() {
    ASSERT_TRUE(holds());
    std::ranges::fill(abandoned_->into, kLate);
    session_->let_go(*std::exchange(abandoned_, nullptr));
  }

  void start(iscsi_target::Session& session) override {
    session_ = &session;
    inner_.start(session);
  }
  void begin(iscsi_target::SessionCommand& command, bool is_final, std::uint32_t data_length) override {
    inner_.begin(command, is_final, data_length);
  }
  [[nodiscard]] bool data_out(const iscsi::DataOutHeader& header, std::uint32_t data_length) override {
    return inner_.data_out(header, data_length);
  }
  [[nodiscard]] std::span<std::byte> data_place(std::uint32_t offset) override { return inner_.data_place(offset); }
  void data_ended() override { inner_.data_ended(); }
  void get(iscsi_target::SessionCommand& command) override { inner_.get(command); }
  [[nodiscard]] bool ask(iscsi_target::SessionCommand& command, iscsi::PduSender& queue) override {
    EXPECT_NE(&command, abandoned_) << "it is asked for data that nobody wants any more";
    return inner_.ask(command, queue);
  }
  [[nodiscard]] engine::Buffer take(iscsi_target::SessionCommand& command, std::size_t bytes) override {
    return inner_.take(command, bytes);
  }
  [[nodiscard]] Put put(iscsi_target::SessionCommand& command, iscsi::PduSender& queue) override {
    return inner_.put(command, queue);
  }
  [[nodiscard]] bool abandon(iscsi_target::SessionCommand& command) override {
    EXPECT_FALSE(holds()) << "told twice";
    EXPECT_FALSE(inner_.abandon(command));
    abandoned_ = &command;
    return true;
  }
  void forget(iscsi_target::SessionCommand& command) override { inner_.forget(command); }
  void end() override {
    abandoned_ = nullptr;
    inner_.end();
  }

 private:
  iscsi_target::StreamTransfers inner_;
  iscsi_target::Session* session_ = nullptr;
  iscsi_target::SessionCommand* abandoned_ = nullptr;
};

}  // namespace lockstep::test
