#pragma once
// A target as its sessions know it: a name, a device server behind it, where it can be reached, and who may.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/iscsi/chap.hpp"
#include "engine/iscsi/login_target.hpp"
#include "engine/scsi/command.hpp"

namespace lockstep::iscsi_target {

/// One address at which the target is served, by this node or by its partner.
struct Portal {
  std::string address;      ///< "10.0.0.1:3260", "[fd00::1]:3260"
  std::uint16_t group = 1;  ///< target portal group tag: node A = 1, node B = 2
  bool operator==(const Portal&) const = default;
};

struct AccessAnswer {
  enum class Verdict : std::uint8_t {
    allowed,
    unknown,      ///< there is nothing here for that initiator to see: as if it had a secret and got it wrong, 0201h
    forbidden,    ///< not on the list: the same
    unavailable,  ///< this node may not serve now, the partner may: 0301h
    moved,        ///< go to `redirect` for now: 0101h
  };
  Verdict verdict = Verdict::unknown;
  std::string redirect;  ///< "address:port", with `moved`
  /// One of these must be proven; empty: no authentication.
  std::vector<iscsi::ChapCredentials> chap;
};

/// Who may log in. Implemented by the daemon; asked by several reactors at once, so it is immutable or locks inside.
/// Only logins and discoveries ask, never the data path.
class AccessPolicy {
 public:
  virtual ~AccessPolicy() = default;
  [[nodiscard]] virtual AccessAnswer may_log_in(std::string_view initiator, std::string_view target) const = 0;
};

struct Target {
  std::string name;                ///< iSCSI name
  std::string alias;               ///< shown to initiators, may be empty
  std::uint16_t portal_group = 1;  ///< this node's
  std::vector<Portal> portals;     ///< both nodes', for SendTargets
  /// One for each of the server's reactors, in their order, each called on its reactor only. They outlive the target's
  /// last session.
  std::vector<scsi::DeviceServer*> device_servers;
  std::shared_ptr<const AccessPolicy> access;
  std::string asker;         ///< its name in CHAP challenges (iscsi::is_asked_by()); empty: none
  bool discoverable = true;  ///< named by SendTargets
};

/// What logins and SendTargets ask. May be called from any reactor.
class TargetDirectory : public iscsi::LoginAuthority {
 public:
  virtual ~TargetDirectory() = default;
  /// Null when there is none of that name.
  [[nodiscard]] virtual std::shared_ptr<const Target> find(std::string_view name) const = 0;
  /// A login that ended with `proof` would end so again. Asked when a login ends and for each session whenever access
  /// has changed: a session has its rights from its proof, and from its name only as far as that was proven.
  [[nodiscard]] virtual bool still_admits(const iscsi::LoginIdentity& who,
                                          const std::optional<iscsi::ChapCredentials>& proof) const = 0;
  /// Those that are discoverable, in order of name; for everybody the same, so that asking for them under many names
  /// tells nothing of who is known here.
  [[nodiscard]] virtual std::vector<std::shared_ptr<const Target>> discoverable() const = 0;
};

}  // namespace lockstep::iscsi_target
