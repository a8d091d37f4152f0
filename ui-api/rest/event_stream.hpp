#pragma once
// /api/v1/events/stream: server-sent events. First the present state, then what changes.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "mgmt/control/controller.hpp"
#include "ui-api/rest/http.hpp"

namespace lockstep::ui_api {

class EventStream final : public ResponseStream {
 public:
  /// `streams` counts the open ones and outlives this. The stream ends when `token`, which opened it, no longer holds.
  EventStream(mgmt::Controller& controller, mgmt::Token token, std::optional<std::int64_t> last_event_id,
              std::atomic<int>& streams);
  ~EventStream() override;
  std::optional<std::string> poll() override;

 private:
  void add_events(std::string& out);
  void add_state(std::string& out);
  void add_jobs(std::string& out);

  mgmt::Controller& controller_;
  mgmt::Token token_;
  std::atomic<int>& streams_;
  std::int64_t last_event_;
  std::chrono::steady_clock::time_point next_state_{};
  std::chrono::steady_clock::time_point next_comment_;
  bool first_ = true;
  std::map<mgmt::Uuid, std::string> volumes_;  ///< as last sent
  std::map<mgmt::Uuid, std::string> nodes_;    ///< as last sent, what always moves apart
  std::map<mgmt::Uuid, std::string> jobs_;     ///< as last sent
};

}  // namespace lockstep::ui_api
