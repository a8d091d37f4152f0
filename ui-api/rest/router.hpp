#pragma once
// Which function answers which method of which path.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mgmt/control/configuration.hpp"
#include "ui-api/rest/http.hpp"

namespace lockstep::ui_api {

/// A request that was let in.
struct Call {
  const Request& request;
  std::vector<std::string> parameters;  ///< what stood in place of {…}, in order
  mgmt::Token token;                    ///< whose it is; meaningless on open routes
};

enum class Access : std::uint8_t {
  open,    ///< anyone
  viewer,  ///< any token
  admin,
  partner,  ///< the partner's certificate
  joining,  ///< any node's certificate
};

struct Route {
  std::string method;
  std::string pattern;  ///< "/api/v1/volumes/{id}"
  Access access = Access::viewer;
  bool ordered = false;  ///< changes the configuration: carried out by the node that orders changes
  std::function<Response(const Call&)> answer;
  bool alone = false;  ///< ordered, but made here where the orderer is away and the arbiter lets this node go on
  std::function<bool(const Call&)> here{};  ///< ordered, but about what is this node's alone
  std::function<void(const Call&)>
      before{};  ///< ordered: what is done here before the one that orders changes is asked
};

class Router {
 public:
  void add(Route route);
  struct Match {
    const Route* route = nullptr;  ///< null: no such path, or no such method
    std::vector<std::string> parameters;
    std::string allow;  ///< the path's methods; empty: there is no such path
  };
  [[nodiscard]] Match match(const Request& request) const;

 private:
  struct Entry {
    std::vector<std::string> segments;
    Route route;
  };
  std::vector<Entry> entries_;
};

}  // namespace lockstep::ui_api
