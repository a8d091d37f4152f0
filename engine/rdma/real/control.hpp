#pragma once
// The thread that may sleep: it owns the connection manager's event channel and all ids, and gives each event to whose
// id it is. Everything but the constructor, ask() and reactor().post() is on that thread.
#include <array>
#include <cstddef>
#include <latch>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <rdma/rdma_cma.h>

#include "engine/base/result.hpp"
#include "engine/runtime/reactor.hpp"

namespace lockstep::rdma {

/// A copy: the connection manager's own was acknowledged before anybody is told, so that ids may be destroyed by whom
/// it tells.
struct CmEvent {
  rdma_cm_event_type type{};
  int status = 0;
  rdma_cm_id* id = nullptr;  ///< of a connect request: new, and the receiver's to destroy
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::array<std::byte, 256> bytes{};
  std::size_t length = 0;
  [[nodiscard]] std::span<const std::byte> private_data() const { return {bytes.data(), length}; }
};

/// What an id's context points to.
class CmUser {
 public:
  virtual void on_cm_event(const CmEvent& event) = 0;

 protected:
  ~CmUser() = default;
};

class Control {
 public:
  [[nodiscard]] static engine::Result<std::unique_ptr<Control>> open();
  /// No id is left. Any other thread.
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  [[nodiscard]] engine::Reactor& reactor() { return reactor_; }
  [[nodiscard]] rdma_event_channel* channel() const { return channel_; }

  /// Any thread: carries `work` out on this one and waits for its answer.
  template <class Work>
  auto ask(Work work) -> decltype(work()) {
    if (reactor_.on_this_thread()) return work();
    std::optional<decltype(work())> answer;
    std::latch done(1);
    reactor_.post([&] {
      answer.emplace(work());
      done.count_down();
    });
    done.wait();
    return std::move(*answer);
  }

 private:
  Control();
  [[nodiscard]] int start();
  void wait();
  void take_events();

  struct Watch;
  rdma_event_channel* channel_ = nullptr;
  engine::Reactor reactor_;
  std::unique_ptr<Watch> watch_;
};

}  // namespace lockstep::rdma
