#include "ui-api/rest/doorkeeper.hpp"

#include <algorithm>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v6.hpp>

namespace lockstep::ui_api {
namespace {

namespace ip = boost::asio::ip;

std::optional<ip::address> parsed(const std::string& text) {
  boost::system::error_code error;
  const auto address = ip::make_address(text, error);
  if (error) return std::nullopt;
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return ip::address(ip::make_address_v4(ip::v4_mapped, address.to_v6()));
  return address;
}

}  // namespace

std::string network_of(const std::string& address) {
  const auto known = parsed(address);
  if (!known) return address;
  if (known->is_v4()) return known->to_string();
  return ip::network_v6(known->to_v6(), 64).canonical().to_string();
}

bool is_local(const std::string& address) {
  const auto known = parsed(address);
  return known &&
         (*known == ip::address(ip::address_v4::loopback()) || *known == ip::address(ip::address_v6::loopback()));
}

std::optional<std::uint64_t> Doorkeeper::enter(std::uint64_t id, Entrance entrance, const std::string& address) {
  Guest guest{.entrance = entrance, .network = network_of(address)};
  const auto gives_way = who_gives_way(entrance, guest.network);
  if (gives_way) guests_.erase(*gives_way);
  guests_.emplace(id, std::move(guest));
  return gives_way;
}

std::optional<std::uint64_t> Doorkeeper::who_gives_way(Entrance entrance, const std::string& network) const {
  std::map<std::string, std::size_t> networks;
  std::size_t all = 0;
  for (const auto& [id, guest] : guests_) {
    if (guest.entrance != entrance || guest.standing != Standing::stranger) continue;
    ++networks[guest.network];
    ++all;
  }
  const std::size_t most = entrance == Entrance::outside ? limits_.strangers
                           : entrance == Entrance::local ? limits_.local_strangers
                                                         : limits_.partner_strangers;
  if (entrance == Entrance::outside && networks[network] >= limits_.strangers_of_a_network)
    return oldest_stranger(entrance, network);
  if (all < most) return std::nullopt;
  const auto fullest = std::ranges::max_element(networks, {}, [](const auto& each) { return each.second; });
  return oldest_stranger(entrance, fullest->first);
}

std::uint64_t Doorkeeper::oldest_stranger(Entrance entrance, const std::string& network) const {
  return std::ranges::find_if(guests_,
                              [&](const auto& each) {
                                const Guest& guest = each.second;
                                return guest.entrance == entrance && guest.standing == Standing::stranger &&
                                       guest.network == network;
                              })
      ->first;
}

std::size_t Doorkeeper::count(Entrance entrance, Standing standing) const {
  return static_cast<std::size_t>(std::ranges::count_if(guests_, [&](const auto& each) {
    return each.second.standing == standing &&
           (standing == Standing::partner ||
            (each.second.entrance == Entrance::local) == (entrance == Entrance::local));
  }));
}

bool Doorkeeper::recognize(std::uint64_t id, Standing standing) {
  const auto at = guests_.find(id);
  if (at == guests_.end()) return false;
  Guest& guest = at->second;
  if (standing == Standing::stranger || guest.standing == standing) return true;
  const std::size_t most = standing == Standing::partner       ? limits_.partner
                           : guest.entrance == Entrance::local ? limits_.local_known
                                                               : limits_.known;
  if (count(guest.entrance, standing) >= most) return false;
  guest.standing = standing;
  return true;
}

void Doorkeeper::leave(std::uint64_t id) { guests_.erase(id); }

Standing Doorkeeper::standing(std::uint64_t id) const {
  const auto at = guests_.find(id);
  return at == guests_.end() ? Standing::stranger : at->second.standing;
}

}  // namespace lockstep::ui_api
