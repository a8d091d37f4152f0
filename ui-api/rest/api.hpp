#pragma once
// The REST API of one node: lets requests in, passes changes on to the node that orders them, and hands the rest to the
// resources. docs: ui-api/openapi/lockstep.yaml.
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>

#include "mgmt/control/controller.hpp"
#include "ui-api/rest/http.hpp"
#include "ui-api/rest/router.hpp"

namespace lockstep::ui_api {

class StaticFiles;

struct ApiSettings {
  std::filesystem::path web_folder;  ///< the built web page; none is served when it is not there
  int max_streams = 32;              ///< event streams at a time
};

class Api final : public Service {
 public:
  Api(mgmt::Controller& controller, ApiSettings settings);
  ~Api() override;
  [[nodiscard]] Admission admit(const Request& request) override;
  [[nodiscard]] Response handle(const Request& request) override;
  [[nodiscard]] bool is_partners(const std::string& address) override;

 private:
  [[nodiscard]] Standing standing_of(const Request& request);
  [[nodiscard]] bool is_from_partner(const Request& request);
  [[nodiscard]] mgmt::Outcome<mgmt::Token> let_in(const Request& request, Access access);
  [[nodiscard]] Response pass_on(const Route& route, const Call& call);
  [[nodiscard]] Response carry_out_forwarded(const Call& call);
  [[nodiscard]] Response not_found(const Request& request);

  mgmt::Controller& controller_;
  ApiSettings settings_;
  std::atomic<int> streams_ = 0;
  std::unique_ptr<StaticFiles> files_;
  Router router_;
};

// The resources, each in a file of its own.
void add_pair_resources(Router& router, mgmt::Controller& controller);
void add_configuration_resources(Router& router, mgmt::Controller& controller);
void add_volume_resources(Router& router, mgmt::Controller& controller);
void add_initiator_resources(Router& router, mgmt::Controller& controller);
void add_token_resources(Router& router, mgmt::Controller& controller);
void add_certificate_resources(Router& router, mgmt::Controller& controller);
void add_job_and_event_resources(Router& router, mgmt::Controller& controller, std::atomic<int>& streams, int most);
void add_service_resources(Router& router, mgmt::Controller& controller);
void add_peer_resources(Router& router, mgmt::Controller& controller);

}  // namespace lockstep::ui_api
