// /api/v1/jobs, /events
#include <charconv>

#include <fmt/format.h>

#include "mgmt/control/controller.hpp"
#include "mgmt/control/job_steps.hpp"
#include "ui-api/rest/api.hpp"
#include "ui-api/rest/event_stream.hpp"
#include "ui-api/rest/fields.hpp"
#include "ui-api/rest/respond.hpp"

namespace lockstep::ui_api {
namespace {

using mgmt::Controller;

constexpr std::int64_t kDefaultLimit = 100;
constexpr std::int64_t kMaxLimit = 1000;

Response list_jobs(Controller& controller, const Call& call) {
  const auto limit = query_integer(call.request, "limit", 1, kMaxLimit);
  if (!limit) return problem(limit.error());
  nlohmann::json items = nlohmann::json::array();
  for (const auto& job : controller.core().jobs.newest(limit->value_or(kDefaultLimit))) items.push_back(job_json(job));
  return ok({{"items", items}});
}

Response show_job(Controller& controller, const Call& call) {
  const auto id = path_id(call.parameters[0], "job");
  if (!id) return problem(id.error());
  const auto job = controller.core().jobs.get(*id);
  return job ? ok(job_json(*job)) : problem(mgmt::RefusalKind::not_found, "There is no job with this id.");
}

Response cancel_job(Controller& controller, const Call& call) {
  const auto id = path_id(call.parameters[0], "job");
  if (!id) return problem(id.error());
  return accepted(mgmt::cancel_job(controller.core(), *id));
}

Response list_events(Controller& controller, const Call& call) {
  const auto limit = query_integer(call.request, "limit", 1, kMaxLimit);
  if (!limit) return problem(limit.error());
  const auto after = query_integer(call.request, "after", 0, INT64_MAX);
  if (!after) return problem(after.error());
  nlohmann::json items = nlohmann::json::array();
  for (const auto& event : controller.core().events.list(*after, limit->value_or(kDefaultLimit)))
    items.push_back(event_json(event));
  return ok({{"items", items}});
}

Response stream_events(Controller& controller, const Call& call, std::atomic<int>& streams, int most) {
  std::optional<std::int64_t> last;
  const std::string& header = call.request.last_event_id;
  if (!header.empty()) {
    std::int64_t id = 0;
    const auto [end, error] = std::from_chars(header.data(), header.data() + header.size(), id);
    // Browsers send back what they were given; anything else is no reason to refuse the stream.
    if (error == std::errc() && end == header.data() + header.size() && id >= 0) last = id;
  }
  if (++streams > most) {
    --streams;
    return problem(mgmt::RefusalKind::too_many, fmt::format("There are {} event streams already. Close one.", most));
  }
  Response response;
  response.content_type = "text/event-stream";
  response.stream = std::make_unique<EventStream>(controller, call.token, last, streams);
  return response;
}

}  // namespace

void add_job_and_event_resources(Router& router, Controller& controller, std::atomic<int>& streams, int most) {
  router.add({"GET", "/api/v1/jobs", Access::viewer, false,
              [&controller](const Call& call) { return list_jobs(controller, call); }});
  router.add({"GET", "/api/v1/jobs/{id}", Access::viewer, false,
              [&controller](const Call& call) { return show_job(controller, call); }});
  router.add({"POST", "/api/v1/jobs/{id}/cancel", Access::admin, true,
              [&controller](const Call& call) { return cancel_job(controller, call); }});
  router.add({"GET", "/api/v1/events", Access::viewer, false,
              [&controller](const Call& call) { return list_events(controller, call); }});
  router.add({"GET", "/api/v1/events/stream", Access::viewer, false, [&controller, &streams, most](const Call& call) {
                return stream_events(controller, call, streams, most);
              }});
}

}  // namespace lockstep::ui_api
