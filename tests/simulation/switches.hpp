#pragma once
// Kinds of trouble that have a name: what hosts do when they lose patience, what links and stores may do, what
// operators order. Whether a seed knows one is drawn from a stream of the name's own, so that a new name changes no
// other draw.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/simulation/scenario.hpp"

namespace lockstep::simulation {

struct Switch {
  std::string_view name;
  bool& (*of)(Scenario&);
  std::uint32_t parts;  ///< the chance in a million that a seed knows it
  bool drawn;           ///< by every seed; otherwise only when it is asked for
};

[[nodiscard]] const std::vector<Switch>& switches();

/// What a command line says of them.
struct SwitchOrders {
  bool draw_all = false;                              ///< also those that seeds do not draw by themselves
  std::vector<std::pair<std::string, bool>> settled;  ///< by name: on or off in every seed

  /// False when there is no such name.
  [[nodiscard]] bool settle(std::string_view name, bool on);
  /// The same on a command line.
  [[nodiscard]] std::string text() const;
};

/// Draws the switches of a seed, and the values that go with them.
void draw_switches(Scenario& scenario, const SwitchOrders& orders);
/// Those that a command line settles; they stay so in worlds without faults.
void settle_switches(Scenario& scenario, const SwitchOrders& orders);

}  // namespace lockstep::simulation
