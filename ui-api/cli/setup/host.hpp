#pragma once
// The machine that set-up runs on, as far as it looks at it and changes it. The real one is in local_host.hpp; tests
// bring their own.
#include <cstdint>
#include <string>
#include <vector>

#include "mgmt/control/address.hpp"
#include "mgmt/control/network_interface.hpp"
#include "ui-api/cli/outcome.hpp"

namespace lockstep::cli::setup {

using Interface = mgmt::NetworkInterface;

struct PortState {
  enum class Use { free, taken, not_here, unknown };
  Use use = Use::unknown;
  std::string holder;  ///< taken: the program, such as "lockstepd"; empty when it can't be seen
};

struct ClockState {
  enum class Synchronised { yes, no, unknown };
  Synchronised synchronised = Synchronised::unknown;
  std::int64_t seconds = 0;  ///< since 1970
};

struct FolderState {
  bool there = false;
  bool in_memory = false;              ///< tmpfs, ramfs
  bool user_gets_there = true;         ///< each folder above it lets the user lockstep pass
  std::string why_no_writes;           ///< empty: files can be made there
  std::string why_no_direct_io;        ///< empty: files can be written past the page cache
  std::vector<std::string> strangers;  ///< some names in it that are not the user lockstep's
  bool is_users = true;                ///< it belongs to the user lockstep
  std::uint64_t free_bytes = 0;
};

struct PacketState {
  enum class Outcome { reached, only_small, silent, not_tried };
  Outcome outcome = Outcome::not_tried;
};

struct Finished {
  int status = 0;
  std::string output;  ///< standard output and error; at most 64 KiB
};

/// Where things are on a node.
struct Places {
  std::string configuration = "/etc/lockstep/mgmtd.toml";
  std::string state_folder = "/var/lib/lockstep";
  std::string certificate = "/var/lib/lockstep/mgmt/tls.crt";
  std::string shown_certificate = "/var/lib/lockstep/mgmt/page.crt";
  std::string prepare_state = "/usr/lib/lockstep/prepare-state";
  std::string mgmtd = "/usr/sbin/lockstep-mgmtd";
};

class Host {
 public:
  virtual ~Host() = default;
  [[nodiscard]] virtual Places places() const { return {}; }
  [[nodiscard]] virtual bool is_root() = 0;
  [[nodiscard]] virtual bool has_systemd() = 0;
  [[nodiscard]] virtual std::vector<Interface> interfaces() = 0;
  [[nodiscard]] virtual PortState port(const mgmt::Address& address) = 0;
  [[nodiscard]] virtual ClockState clock() = 0;
  /// Makes and removes a file there, if the folder is there.
  [[nodiscard]] virtual FolderState folder(const std::string& path) = 0;
  /// Sends echo requests of `bytes` (the whole packet of IP) that may not be cut up, and small ones beside them.
  [[nodiscard]] virtual PacketState packets(const mgmt::Address& from, const mgmt::Address& to, unsigned bytes) = 0;
  /// Runs a program to its end; the first word is its path, or a name to be looked for. No shell sees the words.
  [[nodiscard]] virtual Outcome<Finished> run(const std::vector<std::string>& words) = 0;
};

}  // namespace lockstep::cli::setup
