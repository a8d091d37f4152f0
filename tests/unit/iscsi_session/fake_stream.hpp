#pragma once
// A connection without a network: bytes go straight in and out of the core, time stands still unless told.
#include <map>
#include <memory>
#include <vector>

#include "engine/iscsi/stream_transport.hpp"
#include "engine/seams/clock.hpp"
#include "engine/seams/random.hpp"
#include "iscsi_target/server/registry.hpp"
#include "iscsi_target/session/connection.hpp"
#include "iscsi_target/session/stream_transfers.hpp"

namespace lockstep::test {

class FakeClock final : public engine::Clock {
 public:
  [[nodiscard]] engine::TimePoint now() const override { return now_; }
  engine::TimerId call_after(engine::Duration delay, engine::Callback<> action) override {
    timers_.emplace(++last_, Timer{now_ + delay, std::move(action)});
    return engine::TimerId{last_};
  }
  void cancel(engine::TimerId timer) override { timers_.erase(static_cast<std::uint64_t>(timer)); }
  void advance(engine::Duration by) {
    now_ = now_ + by;
    for (auto at = timers_.begin(); at != timers_.end();) {
      if (at->second.due > now_) {
        ++at;
        continue;
      }
      auto action = std::move(at->second.action);
      timers_.erase(at);
      action();
      at = timers_.begin();
    }
  }

 private:
  struct Timer {
    engine::TimePoint due;
    engine::Callback<> action;
  };
  engine::TimePoint now_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Timer> timers_;
};

class SeededRandom final : public engine::Random {
 public:
  explicit SeededRandom(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  std::uint64_t next() override {  // xorshift64*
    state_ ^= state_ >> 12, state_ ^= state_ << 25, state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1Du;
  }
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(next() >> 33) % n; }
  bool one_in(std::uint32_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

class FakeStream final : public engine::Stream {
 public:
  struct State {
    bool wants_send = false;
    bool closed = false;
  };
  explicit FakeStream(State& state) : state_(state) {}
  void want_send() override { state_.wants_send = true; }
  void resume_receive() override {}
  void close(engine::StreamClose) override { state_.closed = true; }
  [[nodiscard]] const std::string& local_address() const override { return local_; }
  [[nodiscard]] const std::string& peer_address() const override { return peer_; }

 private:
  State& state_;
  std::string local_ = "127.0.0.1:3260", peer_ = "127.0.0.1:40000";
};

/// A transport over a stream that goes nowhere; `protocol` is where its bytes go in and come out.
inline std::unique_ptr<iscsi::PduTransport> fake_transport(FakeStream::State& state, iscsi::OutPduPool& pool,
                                                           engine::StreamProtocol*& protocol) {
  auto transport = std::make_unique<iscsi::StreamTransport>(std::make_unique<FakeStream>(state), pool);
  protocol = transport.get();
  return transport;
}

/// Lets every session in at once.
class FakeHost final : public iscsi_target::ConnectionHost {
 public:
  explicit FakeHost(scsi::DeviceServer& server) : server_(server) {}
  void admit(iscsi_target::TargetConnection& connection) override { connection.admitted(1, ++nexuses); }
  [[nodiscard]] bool holds_login(const iscsi_target::TargetConnection&) const override { return false; }
  [[nodiscard]] std::optional<engine::Duration> proof_wait(const iscsi_target::TargetConnection&,
                                                           engine::Duration waited) override {
    return waited < wait_for_proofs ? wait_for_proofs - waited : engine::Duration{};
  }
  void proved(const iscsi_target::TargetConnection&) override {}
  void opened(iscsi_target::TargetConnection&) override {}
  void closed(iscsi_target::TargetConnection&) override { ++closed_count; }
  [[nodiscard]] bool is_fenced(const iscsi_target::TargetConnection&) const override { return false; }
  [[nodiscard]] scsi::DeviceServer* device_server(const iscsi_target::Target&) override { return &server_; }
  [[nodiscard]] bool quiesce_others(iscsi_target::TargetConnection&, const iscsi_target::TaskScope&,
                                    engine::Callback<> done) override {
    done();
    return true;
  }
  void reset_target(iscsi_target::TargetConnection&) override {}

  std::uint64_t nexuses = 0;
  int closed_count = 0;
  engine::Duration wait_for_proofs{};

 private:
  scsi::DeviceServer& server_;
};

}  // namespace lockstep::test
