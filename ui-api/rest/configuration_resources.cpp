// /api/v1/pair/configuration: both nodes' lines of it, and what an operator alone decides about them.
#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "mgmt/control/configuration_lines.hpp"
#include "mgmt/control/controller.hpp"
#include "ui-api/rest/api.hpp"
#include "ui-api/rest/fields.hpp"
#include "ui-api/rest/respond.hpp"

namespace lockstep::ui_api {
namespace {

using mgmt::Controller;
using nlohmann::json;

const char* members_of(const mgmt::ConfigurationEpoch& epoch) {
  if (epoch.members.is_both()) return "both";
  return epoch.is_only(mgmt::NodeSide::a) ? "a" : "b";
}

json line_json(const mgmt::ConfigurationLine& line, const std::vector<std::string>& lost) {
  json volumes = json::array();
  for (const auto& v : line.configuration->volumes) volumes.push_back(v.name);
  const mgmt::Node* node = line.configuration->node(line.side);
  return {{"side", mgmt::side_name(line.side)},
          {"node", node ? json(node->name) : json()},
          {"revision", line.state.head.n},
          {"decided_by", members_of(line.state.epoch)},
          {"forced", line.state.epoch.forced},
          {"volumes", volumes},
          {"lost_if_given_up", lost}};
}

const char* state_of(const mgmt::ConfigurationLines& lines) {
  if (!lines.there) return lines.why_not.empty() ? "one_node" : "partner_away";
  if (lines.parted()) return "parted";
  return lines.verdict == mgmt::RevisionVerdict::agree ? "one_line" : "being_taken_over";
}

/// Whoever may read may ask, as often as they like, and a partner that swallows what it is sent takes seconds: that
/// holds one of the server's workers, not all.
class PartnersLine {
 public:
  [[nodiscard]] mgmt::Outcome<mgmt::ConfigurationLines> ask(Controller& controller) {
    mgmt::ConfigurationOperator both(controller.core());
    if (const auto away = why_away(controller); !away.empty()) return both.lines(away);
    const std::unique_lock one(one_at_a_time_, std::chrono::seconds(1));
    return both.lines(one ? "" : "is being asked, and has not answered yet");
  }

 private:
  static std::string why_away(Controller& controller) {
    const mgmt::PairView view = controller.view();
    for (const auto& n : view.nodes)
      if (n.node && !n.local && n.asked && !n.reachable && n.trouble == mgmt::PartnerTrouble::away) return n.reason;
    return {};
  }
  std::timed_mutex one_at_a_time_;
};

Response show(Controller& controller, PartnersLine& partners) {
  const auto lines = partners.ask(controller);
  if (!lines) return problem(lines.error());
  json nodes = json::array();
  const auto add = [&](const mgmt::ConfigurationLine& one, const mgmt::ConfigurationLine* other) {
    const bool here = one.side == lines->here.side;
    const std::filesystem::path folder = here ? controller.core().local.volume_folder : "volume_folder";
    nodes.push_back(line_json(one, other && lines->parted()
                                       ? mgmt::lost_with(*one.configuration, *other->configuration, one.side, folder)
                                       : std::vector<std::string>{}));
  };
  add(lines->here, lines->there ? &*lines->there : nullptr);
  if (lines->there) add(*lines->there, &lines->here);
  if (nodes.size() == 2 && lines->here.side == mgmt::NodeSide::b) std::swap(nodes[0], nodes[1]);
  return ok({{"state", state_of(*lines)},
             {"partner_problem", lines->why_not.empty() ? json() : json("The partner " + lines->why_not + ".")},
             {"nodes", nodes}});
}

Response force(Controller& controller, const Call& call) {
  const auto confirm = confirm_of(call.request);
  if (!confirm) return problem(confirm.error());
  const auto done = mgmt::ConfigurationOperator(controller.core()).force(*confirm);
  if (!done) return problem(done.error());
  return ok({{"message", *done}, {"lost", json::array()}});
}

Response give_up(Controller& controller, const Call& call) {
  const auto confirm = confirm_of(call.request);
  if (!confirm) return problem(confirm.error());
  const auto lost = mgmt::ConfigurationOperator(controller.core()).give_up(*confirm);
  if (!lost) return problem(lost.error());
  return ok({{"message", "This node has the other one's configuration now."}, {"lost", *lost}});
}

}  // namespace

void add_configuration_resources(Router& router, Controller& controller) {
  router.add({"GET", "/api/v1/pair/configuration", Access::viewer, false,
              [&controller, partners = std::make_shared<PartnersLine>()](const Call&) {
                return show(controller, *partners);
              }});
  // Not ordered: they are about the node that is asked.
  router.add({"POST", "/api/v1/pair/configuration/force", Access::admin, false,
              [&controller](const Call& call) { return force(controller, call); }});
  router.add({"POST", "/api/v1/pair/configuration/give-up", Access::admin, false,
              [&controller](const Call& call) { return give_up(controller, call); }});
}

}  // namespace lockstep::ui_api
