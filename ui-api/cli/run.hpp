#pragma once
// The whole command, from its arguments to its exit code; everything of the outside world comes in here.
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "ui-api/cli/settings.hpp"
#include "ui-api/cli/transport.hpp"

namespace lockstep::cli {

namespace setup {
class Host;
}

struct World {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  bool terminal = false;
  Getenv getenv;
  std::function<std::unique_ptr<Transport>(const Settings&)> connect;
  std::function<void(unsigned ms)> sleep;
  setup::Host* host = nullptr;  ///< this machine, for `lockstep setup`
};

/// `arguments` without the program's name. The exit code is one of Exit's.
[[nodiscard]] int run(const std::vector<std::string>& arguments, World world);

}  // namespace lockstep::cli
