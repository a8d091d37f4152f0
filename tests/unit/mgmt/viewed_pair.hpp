#pragma once
// A pair with a volume in sync, as side A sees it.
#include <memory>

#include "mgmt/control/pair_view.hpp"
#include "mgmt/control/secrets.hpp"

namespace lockstep::mgmt {

struct Pairs {
  std::shared_ptr<Configuration> configuration = std::make_shared<Configuration>();
  PairView view;

  Pairs() {
    configuration->pair = Pair{.id = random_uuid(),
                               .name = "pair1",
                               .target_name = "",
                               .arbiter = {},
                               .settings = {},
                               .link = {},
                               .link_mutual = {},
                               .link_protection = LinkProtection::required};
    configuration->nodes = {{random_uuid(), NodeSide::a, "node-a", {}, "", "", ""},
                            {random_uuid(), NodeSide::b, "node-b", {}, "", "", ""}};
    Volume v;
    v.id = random_uuid();
    v.name = "vm1";
    v.lifecycle = Lifecycle::ready;
    configuration->volumes = {v};
    view.configuration = configuration;
    view.local_side = NodeSide::a;
    for (int i = 0; i < 2; ++i) {
      NodeView& n = view.nodes[i];
      n.node = &configuration->nodes[i];
      n.local = i == 0;
      n.report.running = true;
      n.report.at_ms = 1;
      n.report.status = DataPlaneStatus{};
      n.report.status->partner_connected = true;
      ReplicaStatus r;
      r.volume = v.id;
      r.serving = true;
      r.state = "in_sync";
      n.report.status->volumes = {r};
    }
  }
  ReplicaStatus& a() { return view.nodes[0].report.status->volumes[0]; }
  ReplicaStatus& b() { return view.nodes[1].report.status->volumes[0]; }
  void states(const char* of_a, bool a_serves, const char* of_b, bool b_serves) {
    a().state = of_a;
    a().serving = a_serves;
    b().state = of_b;
    b().serving = b_serves;
  }
  VolumeVerdict volume() { return judge_volume(view, configuration->volumes[0]); }
  Health health() { return judge_pair(view); }
};

}  // namespace lockstep::mgmt
