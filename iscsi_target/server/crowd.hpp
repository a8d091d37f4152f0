#pragma once
// A bounded crowd of connections that nobody vouches for: half-open logins, discovery sessions. Whoever comes when it
// is full takes the place of an older one, so that a crowd that only stands there keeps nobody out.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "iscsi_target/server/port_table.hpp"

namespace lockstep::iscsi_target {

/// Not thread-safe: the server locks around it.
class Crowd {
 public:
  Crowd(std::size_t most, std::size_t most_per_address) : most_(most), most_per_address_(most_per_address) {}

  /// Takes in a connection; the lower its id, the older it is. Gives the one that has left for it and is to be ended:
  /// the oldest from the same address when that has its share, or would have as many as any other; else the oldest of
  /// those whose address has most, whichever address that is.
  [[nodiscard]] std::optional<ConnectionRef> enter(ConnectionRef who, const std::string& address);
  /// It is no longer one of them. One that is not there is fine.
  void leave(std::uint64_t id);
  [[nodiscard]] std::size_t size() const { return all_.size(); }

 private:
  struct Member {
    ConnectionRef who;
    std::string address;
  };
  [[nodiscard]] std::size_t most_of_one_address() const;
  [[nodiscard]] std::optional<ConnectionRef> send_away_oldest(const std::function<bool(const Member&)>& eligible);

  std::size_t most_, most_per_address_;
  std::map<std::uint64_t, Member> all_;        // by id: by age
  std::map<std::string, std::size_t> counts_;  // by address
};

}  // namespace lockstep::iscsi_target
