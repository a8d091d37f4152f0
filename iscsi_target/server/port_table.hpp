#pragma once
// One session for each initiator port and target at a time (RFC 7143 6.3.5): a new login with the same initiator name,
// ISID and target first ends the old session, wherever it lives, and waits until it has drained.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "engine/iscsi/login_target.hpp"

namespace lockstep::iscsi_target {

/// Which connection of which worker.
struct ConnectionRef {
  std::size_t worker = 0;
  std::uint64_t id = 0;
  bool operator==(const ConnectionRef&) const = default;
};

/// Not thread-safe: the server locks around it.
class PortTable {
 public:
  using Key = std::tuple<std::string, iscsi::Isid, std::string>;
  [[nodiscard]] static Key key_of(const iscsi::LoginIdentity& who) {
    return {who.initiator_name, who.isid, who.target_name};
  }

  struct Entry {
    bool admitted = false;                    ///< at once; otherwise it waits
    std::optional<ConnectionRef> in_the_way;  ///< whom to end
  };
  Entry enter(const Key& key, ConnectionRef who);
  [[nodiscard]] bool has(const Key& key) const { return ports_.contains(key); }
  struct Succession {
    std::optional<ConnectionRef> next;      ///< who may come in now
    std::vector<ConnectionRef> superseded;  ///< who waited as well, but for nothing: a later login replaces them
  };
  Succession leave(const Key& key, ConnectionRef who);

 private:
  struct Port {
    ConnectionRef current;
    std::vector<ConnectionRef> waiting;  // oldest first
  };
  std::map<Key, Port> ports_;
};

}  // namespace lockstep::iscsi_target
