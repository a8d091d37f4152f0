#pragma once
// Who may have a connection. Strangers, who have not shown a token or the partner's certificate, get few, and one more
// of them takes the place of an older one: a crowd that only stands there keeps nobody out. The partner and this
// machine itself have places of their own.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace lockstep::ui_api {

/// Where a connection comes from.
enum class Entrance : std::uint8_t { outside, local, partner };
/// What is known of who is at its other end.
enum class Standing : std::uint8_t { stranger, known, partner };

struct DoorLimits {
  std::size_t strangers = 128;
  std::size_t strangers_of_a_network = 32;
  std::size_t local_strangers = 32;
  std::size_t partner_strangers = 32;  ///< from the partner's address
  std::size_t known = 256;             ///< whose token was good
  std::size_t local_known = 64;
  std::size_t partner = 64;
  [[nodiscard]] std::size_t all() const {
    return strangers + local_strangers + partner_strangers + known + local_known + partner;
  }
};

/// The network that an address is counted in: itself, of IPv6 its /64.
[[nodiscard]] std::string network_of(const std::string& address);
/// Whether it is this machine that calls itself.
[[nodiscard]] bool is_local(const std::string& address);

/// Not thread-safe.
class Doorkeeper {
 public:
  explicit Doorkeeper(DoorLimits limits) : limits_(limits) {}

  /// Lets a stranger in; the lower its id, the older it is. Gives the one that has left for it and is to be closed: the
  /// oldest of the same network when that has its share, else the oldest of the network that has most.
  [[nodiscard]] std::optional<std::uint64_t> enter(std::uint64_t id, Entrance entrance, const std::string& address);
  /// It has shown who it is, and leaves the crowd of strangers. False: there are as many such connections as may be.
  [[nodiscard]] bool recognize(std::uint64_t id, Standing standing);
  /// One that is not there is fine.
  void leave(std::uint64_t id);
  [[nodiscard]] Standing standing(std::uint64_t id) const;

 private:
  struct Guest {
    Entrance entrance{};
    Standing standing = Standing::stranger;
    std::string network;
  };
  [[nodiscard]] std::optional<std::uint64_t> who_gives_way(Entrance entrance, const std::string& network) const;
  [[nodiscard]] std::uint64_t oldest_stranger(Entrance entrance, const std::string& network) const;
  [[nodiscard]] std::size_t count(Entrance entrance, Standing standing) const;

  DoorLimits limits_;
  std::map<std::uint64_t, Guest> guests_;  // by id: by age; a few hundred
};

}  // namespace lockstep::ui_api
