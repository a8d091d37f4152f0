#pragma once
// What etcd is spoken to with, beside its addresses: whom to trust, and who asks. It stands in the pair's configuration
// and nowhere else; `key` and `password` are secrets. One set of rules for management and the data plane.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe/class.hpp>

namespace lockstep::replication {

constexpr std::size_t kMaxPem = std::size_t{64} << 10;  ///< bytes of each PEM text
constexpr std::size_t kMaxWitnessUser = 255;            ///< bytes of the user and of the password

struct WitnessAccess {
  std::string ca;           ///< PEM: who must have signed etcd's certificate; nobody else is trusted
  std::string certificate;  ///< PEM, with its chain: what this side shows; may be empty
  std::string key;          ///< PEM, without a passphrase: of that certificate
  std::string user;         ///< of etcd's authentication; may be empty
  std::string password;
  bool operator==(const WitnessAccess&) const = default;
  [[nodiscard]] bool empty() const { return *this == WitnessAccess(); }
};
BOOST_DESCRIBE_STRUCT(WitnessAccess, (), (ca, certificate, key, user, password))

struct WitnessAccessProblem {
  std::string_view field;  ///< a member's name, or "endpoints"
  std::string message;     ///< a sentence about that field, without a subject: "Is required ..."
};

/// Everything that is wrong with it and can be known without asking etcd. `endpoints` are well-formed addresses.
[[nodiscard]] std::vector<WitnessAccessProblem> problems_of(std::span<const std::string> endpoints,
                                                            const WitnessAccess& access);

}  // namespace lockstep::replication
