#include "iscsi_target/server/port_table.hpp"

#include <utility>

namespace lockstep::iscsi_target {

PortTable::Entry PortTable::enter(const Key& key, ConnectionRef who) {
  const auto [at, fresh] = ports_.try_emplace(key, Port{who, {}});
  if (fresh) return {.admitted = true, .in_the_way = std::nullopt};
  at->second.waiting.push_back(who);
  return {.admitted = false, .in_the_way = at->second.current};
}

PortTable::Succession PortTable::leave(const Key& key, ConnectionRef who) {
  const auto at = ports_.find(key);
  if (at == ports_.end()) return {};
  Port& port = at->second;
  std::erase(port.waiting, who);
  if (port.current != who) return {};
  if (port.waiting.empty()) {
    ports_.erase(at);
    return {};
  }
  Succession succession;
  succession.superseded = std::move(port.waiting);
  port.waiting.clear();
  port.current = succession.superseded.back();
  succession.superseded.pop_back();
  succession.next = port.current;
  return succession;
}

}  // namespace lockstep::iscsi_target
