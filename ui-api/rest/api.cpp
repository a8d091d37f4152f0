#include "ui-api/rest/api.hpp"

#include <fmt/format.h>

#include "mgmt/control/address.hpp"
#include "mgmt/control/bounded_json.hpp"
#include "ui-api/rest/problem.hpp"
#include "ui-api/rest/static_files.hpp"

namespace lockstep::ui_api {
namespace {

using mgmt::RefusalKind;

constexpr std::uint64_t kSmallBody = std::uint64_t{64} << 10;
constexpr std::uint64_t kAdminBody = std::uint64_t{1} << 20;
constexpr std::uint64_t kPartnerBody = std::uint64_t{16} << 20;
// A configuration of hundreds of volumes is a text within the partner's message.
constexpr mgmt::JsonBounds kPartnerJson{.values = 500'000, .depth = 32};

std::string target_of(const Request& request) {
  std::string target = request.path;
  const auto encoded = [](const std::string& text) {
    std::string out;
    for (const char c : text) out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    return out;
  };
  for (const auto& [name, value] : request.query)
    target += fmt::format("{}{}={}", target.size() == request.path.size() ? "?" : "&", encoded(name), encoded(value));
  return target;
}

std::string header_of(const Response& response, std::string_view name) {
  for (const auto& [n, value] : response.headers)
    if (n == name) return value;
  return {};
}

}  // namespace

Api::Api(mgmt::Controller& controller, ApiSettings settings)
    : controller_(controller),
      settings_(std::move(settings)),
      files_(std::make_unique<StaticFiles>(settings_.web_folder)) {
  add_pair_resources(router_, controller_);
  add_configuration_resources(router_, controller_);
  add_volume_resources(router_, controller_);
  add_initiator_resources(router_, controller_);
  add_token_resources(router_, controller_);
  add_certificate_resources(router_, controller_);
  add_job_and_event_resources(router_, controller_, streams_, settings_.max_streams);
  add_service_resources(router_, controller_);
  add_peer_resources(router_, controller_);
  router_.add({"POST", "/peer/v1/forward", Access::partner, false,
               [this](const Call& call) { return carry_out_forwarded(call); }});
}

Api::~Api() = default;

// An attempt without or with a wrong token is refused here already, so that nothing of its body is read.
Admission Api::admit(const Request& request) {
  const auto match = router_.match(request);
  const bool known_path = match.route || !match.allow.empty();
  const Access access = match.route ? match.route->access : known_path ? Access::viewer : Access::open;
  Admission admission{.standing = standing_of(request), .body_bytes = kSmallBody, .refusal = {}};
  if (const auto token = let_in(request, access); !token) admission.refusal = problem(token.error());
  if (access == Access::admin) admission.body_bytes = kAdminBody;
  if (access == Access::partner) admission.body_bytes = kPartnerBody;
  return admission;
}

Standing Api::standing_of(const Request& request) {
  if (is_from_partner(request)) return Standing::partner;
  return let_in(request, Access::viewer) ? Standing::known : Standing::stranger;
}

bool Api::is_from_partner(const Request& request) {
  return request.between_nodes && controller_.is_partner(request.nodes, request.peer_fingerprint);
}

bool Api::is_partners(const std::string& address) {
  const auto configuration = controller_.core().configuration();
  const mgmt::Node* partner = controller_.core().partner(*configuration);
  if (!partner) return false;
  for (const auto& one : {partner->management_address, partner->beside.management_address})
    if (const auto known = mgmt::parse_address(one); known && network_of(known->host) == network_of(address))
      return true;
  return false;
}

Response Api::handle(const Request& request) {
  const auto match = router_.match(request);
  const bool partner = match.route && match.route->access == Access::partner;
  if (!request.body.empty() && !mgmt::within_bounds(request.body, partner ? kPartnerJson : mgmt::JsonBounds()))
    return problem(RefusalKind::malformed, "The body has too many values, or nests too deep.");
  if (!match.route && match.allow.empty()) return not_found(request);
  const Access access = match.route ? match.route->access : Access::viewer;
  const auto token = let_in(request, access);
  if (!token) return problem(token.error());
  if (!match.route) {
    Response response =
        problem(RefusalKind::method_not_allowed,
                fmt::format("{} does not know {}. It knows: {}.", request.path, request.method, match.allow));
    response.headers.emplace_back("Allow", match.allow);
    return response;
  }
  const Call call{request, match.parameters, *token};
  const bool here = match.route->here && match.route->here(call);
  if (match.route->before && !here && !controller_.core().orders_changes()) match.route->before(call);
  if (match.route->ordered && !here && !controller_.core().orders_changes()) return pass_on(*match.route, call);
  return match.route->answer(call);
}

Response Api::not_found(const Request& request) {
  const bool api = request.path.starts_with("/api/") || request.path.starts_with("/peer/") || request.path == "/api";
  if (!api && request.method == "GET")
    if (auto file = files_->find(request)) return std::move(*file);
  if (api) {
    // Nobody learns without a token which paths there are.
    if (const auto token = let_in(request, Access::viewer); !token) return problem(token.error());
  }
  return problem(RefusalKind::not_found, fmt::format("There is nothing at {}.", request.path));
}

mgmt::Outcome<mgmt::Token> Api::let_in(const Request& request, Access access) {
  if (access == Access::open) return mgmt::Token{};
  if (access == Access::partner || access == Access::joining) {
    if (is_from_partner(request) || (request.between_nodes && access == Access::joining)) return mgmt::Token{};
    if (!request.between_nodes) return mgmt::refuse(RefusalKind::forbidden, "This is for the partner node only.");
    return mgmt::refuse(RefusalKind::forbidden, controller_.tell_of_stranger(request.nodes, request.peer_fingerprint));
  }
  constexpr std::string_view kScheme = "Bearer ";
  if (!request.authorization.starts_with(kScheme))
    return mgmt::refuse(RefusalKind::unauthorized, "Send a valid token as \"Authorization: Bearer <token>\".");
  auto token = controller_.tokens().authenticate(std::string_view(request.authorization).substr(kScheme.size()));
  if (!token)
    return mgmt::refuse(
        RefusalKind::unauthorized,
        "This token is not known here, has expired or was revoked. Send a valid one as \"Authorization: "
        "Bearer <token>\".");
  if (access == Access::admin && token->role != mgmt::Role::admin)
    return mgmt::refuse(RefusalKind::forbidden,
                        fmt::format("The token {} may only read. Use one with the role admin.", token->name));
  return *token;
}

Response Api::pass_on(const Route& route, const Call& call) {
  const Request& request = call.request;
  const auto peer = controller_.core().peer();
  if (!peer) return problem(RefusalKind::internal, "This node does not know the node that orders changes.");
  auto reply = peer->forward({request.method, target_of(request), request.content_type, request.body});
  if (!reply && reply.error().perhaps_done)
    return problem(RefusalKind::not_current,
                   fmt::format("It is not known whether the change was made: the partner, which makes it, was asked "
                               "and then {}. See what is there now before you try again.",
                               reply.error().detail));
  const bool away = !reply && reply.error().kind == RefusalKind::not_current;
  if (away && route.alone && !reply.error().other_certificate) return route.answer(call);
  if (away)
    return problem(
        RefusalKind::not_current,
        fmt::format("The change was not made: it must be stored on both nodes, and the partner {}. Try again when "
                    "both nodes run and can reach each other. Volumes are not touched by this.",
                    reply.error().detail));
  if (!reply && reply.error().kind == RefusalKind::forbidden)
    return problem(
        RefusalKind::not_current,
        fmt::format("The change was not made: it must be stored on both nodes, and the partner {}. `lockstep "
                    "health` tells what to do. Volumes are not touched by this.",
                    mgmt::trouble_with_partner(reply.error())));
  if (!reply) return problem(reply.error());
  Response response;
  response.status = reply->status;
  response.content_type = reply->content_type;
  response.body = std::move(reply->body);
  if (!reply->location.empty()) response.headers.emplace_back("Location", reply->location);
  if (response.status == 503) response.headers.emplace_back("Retry-After", "5");
  return response;
}

// The partner let the request in already.
Response Api::carry_out_forwarded(const Call& call) {
  const auto forwarded = mgmt::wire::forwarded_request_from(call.request.body);
  if (!forwarded) return problem(forwarded.error());
  Request request;
  request.method = forwarded->method;
  request.content_type = forwarded->content_type;
  request.body = forwarded->body;
  const bool well_formed = parse_target(forwarded->target, request);
  const auto match = router_.match(request);
  if (!well_formed || !match.route || !match.route->ordered)
    return problem(RefusalKind::malformed,
                   "The partner passed on what is not a change. Are both nodes of one version?");
  if (!controller_.core().orders_changes())
    return problem(RefusalKind::not_current, "holds this node for the one that orders changes");
  controller_.jobs().partner_is_there();
  const Response done = match.route->answer({request, match.parameters, {}});
  Response response;
  response.body =
      mgmt::wire::to_text(mgmt::ForwardedReply{done.status, done.content_type, header_of(done, "Location"), done.body});
  return response;
}

}  // namespace lockstep::ui_api
