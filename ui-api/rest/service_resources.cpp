// /api/v1/health, /api/v1/openapi.yaml, /metrics
#include "mgmt/control/controller.hpp"
#include "ui-api/rest/api.hpp"
#include "ui-api/rest/metrics.hpp"
#include "ui-api/rest/openapi_text.hpp"
#include "ui-api/rest/respond.hpp"

namespace lockstep::ui_api {

void add_service_resources(Router& router, mgmt::Controller& controller) {
  router.add({"GET", "/api/v1/health", Access::viewer, false,
              [&controller](const Call&) { return ok(health_json(judge_pair(controller.view()))); }});
  router.add({"GET", "/api/v1/openapi.yaml", Access::open, false, [](const Call&) {
                Response response;
                response.content_type = "application/yaml";
                response.body = openapi_yaml();
                return response;
              }});
  router.add({"GET", "/metrics", Access::viewer, false, [&controller](const Call&) {
                Response response;
                response.content_type = "text/plain; version=0.0.4; charset=utf-8";
                response.body = metrics_text(controller.view());
                return response;
              }});
}

}  // namespace lockstep::ui_api
