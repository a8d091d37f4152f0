#include "ui-api/rest/event_stream.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ui-api/rest/json_views.hpp"

namespace lockstep::ui_api {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr auto kStateTurn = 1s;
constexpr auto kCommentTurn = 15s;
constexpr std::int64_t kEventsATurn = 200;
constexpr std::int64_t kJobsWatched = 100;

std::string message(const char* kind, const json& data) {
  return fmt::format("event: {}\ndata: {}\n\n", kind, dump(data));
}

}  // namespace

EventStream::EventStream(mgmt::Controller& controller, mgmt::Token token, std::optional<std::int64_t> last_event_id,
                         std::atomic<int>& streams)
    : controller_(controller),
      token_(std::move(token)),
      streams_(streams),
      last_event_(last_event_id.value_or(controller.core().events.last_id())),
      next_comment_(Clock::now() + kCommentTurn) {}

EventStream::~EventStream() { --streams_; }

std::optional<std::string> EventStream::poll() {
  if (!controller_.tokens().still_holds(token_)) return std::nullopt;
  std::string out;
  if (first_) out += ": connected\n\n";
  add_jobs(out);
  if (Clock::now() >= next_state_) {
    add_state(out);
    next_state_ = Clock::now() + kStateTurn;
  }
  add_events(out);
  if (Clock::now() >= next_comment_) {
    out += ": still here\n\n";
    next_comment_ = Clock::now() + kCommentTurn;
  }
  first_ = false;
  return out;
}

void EventStream::add_events(std::string& out) {
  for (const auto& event : controller_.core().events.list(last_event_, kEventsATurn)) {
    out += fmt::format("id: {}\n", event.id) + message("event", event_json(event));
    last_event_ = event.id;
    next_state_ = {};  // something happened: the state may have changed
  }
}

void EventStream::add_state(std::string& out) {
  const auto view = controller_.view();
  for (const auto& n : view.nodes) {
    if (!n.node) continue;
    const json node = node_json(view, n);
    json steady = node;
    steady["lockstepd"].erase("uptime_seconds");
    std::string text = dump(steady);
    auto& sent = nodes_[n.node->id];
    if (sent == text) continue;
    sent = std::move(text);
    out += message("node", node);
  }
  auto gone = volumes_;
  for (const auto& volume : view.configuration->volumes) {
    gone.erase(volume.id);
    std::string text = dump(volume_json(view, volume));
    auto& sent = volumes_[volume.id];
    if (sent == text) continue;
    out += fmt::format("event: volume\ndata: {}\n\n", text);
    sent = std::move(text);
  }
  for (const auto& [id, text] : gone) {
    json last = json::parse(text);
    last["lifecycle"] = "deleted";
    out += message("volume", last);
    volumes_.erase(id);
  }
}

void EventStream::add_jobs(std::string& out) {
  std::map<mgmt::Uuid, std::string> now;
  for (const auto& job : controller_.core().jobs.newest(kJobsWatched)) {
    std::string text = dump(job_json(job));
    const auto sent = jobs_.find(job.id);
    const bool changed = sent == jobs_.end() || sent->second != text;
    const bool old_news = first_ && job.finished();
    if (changed && !old_news) out += fmt::format("event: job\ndata: {}\n\n", text);
    now[job.id] = std::move(text);
  }
  jobs_ = std::move(now);
}

}  // namespace lockstep::ui_api
