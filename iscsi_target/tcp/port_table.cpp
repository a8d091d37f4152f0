#include "iscsi_target/tcp/port_table.hpp"

namespace lockstep::iscsi_target {

PortTable::Entry PortTable::enter(const Key& key, ConnectionRef who) {
  const auto [at, fresh] = ports_.try_emplace(key, Port{who, {}});
  if (fresh) return {.admitted = true, .in_the_way = std::nullopt};
  at->second.waiting.push_back(who);
  return {.admitted = false, .in_the_way = at->second.current};
}

std::optional<ConnectionRef> PortTable::leave(const Key& key, ConnectionRef who) {
  const auto at = ports_.find(key);
  if (at == ports_.end()) return std::nullopt;
  Port& port = at->second;
  std::erase(port.waiting, who);
  if (port.current != who) return std::nullopt;
  if (port.waiting.empty()) {
    ports_.erase(at);
    return std::nullopt;
  }
  port.current = port.waiting.front();
  port.waiting.pop_front();
  return port.current;
}

}  // namespace lockstep::iscsi_target
