#pragma once
// A session with one logical unit of any iSCSI target, as an initiator (libiscsi). Used by one thread, which calls
// turn() for as long as it waits for anything. Nothing is tried again in here: a session that broke is thrown away.
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "mgmt/control/configuration.hpp"

namespace lockstep::mgmt {

struct LunAddress {
  std::string what;    ///< begins sentences: "The source", "The new volume"
  std::string portal;  ///< host:port
  std::string target;
  int lun = 0;
  std::string initiator;
  std::optional<Chap> chap;
};

struct LunFault {
  bool passing = false;  ///< trying again later may help: the connection was lost, the unit is not ready
  std::string sentence;
};

struct LunShape {
  std::uint64_t size = 0;          ///< bytes
  std::uint32_t block_size = 0;    ///< bytes
  bool tells_holes = false;        ///< GET LBA STATUS names what is not there, and that reads as zeros
  std::uint32_t max_transfer = 0;  ///< bytes of one command; 0: not said
  std::string identity;            ///< names the unit wherever it is mapped (VPD 83h or 80h); empty: it has no name
};

class LunSession {
 public:
  using Done = std::function<void(std::optional<LunFault>)>;

  /// Connects, logs in, waits until the unit is ready and asks for its shape. `stop` set ends it early, as a passing
  /// fault.
  [[nodiscard]] static std::expected<std::unique_ptr<LunSession>, LunFault> open(const LunAddress& address,
                                                                                 const std::atomic<bool>& stop);
  /// Calls nobody back any more.
  ~LunSession();
  LunSession(const LunSession&) = delete;
  LunSession& operator=(const LunSession&) = delete;

  [[nodiscard]] const LunShape& shape() const { return shape_; }

  // Offsets and lengths in bytes, multiples of the block size. `done` runs within turn(); buffers live until then.
  void read(std::uint64_t offset, std::span<std::byte> into, Done done);
  void write(std::uint64_t offset, std::span<const std::byte> from, Done done);
  /// The range reads as zeros afterwards; its space is given back where the unit is thin.
  void write_zeroes(std::uint64_t offset, std::uint64_t length, Done done);
  void flush(Done done);
  /// How far from `offset` the unit holds nothing (0: something is there), and how far that answer goes.
  struct Hole {
    bool empty = false;
    std::uint64_t end = 0;  ///< bytes; where the next question starts
  };
  void find_hole(std::uint64_t offset, std::function<void(std::optional<Hole>)> done);

  /// For poll(); then turn() with what came. A fault means that the session is over.
  [[nodiscard]] int descriptor() const;
  [[nodiscard]] short wanted() const;
  [[nodiscard]] std::optional<LunFault> turn(short came);

 private:
  struct Impl;
  LunSession(const LunAddress& address, std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
  LunShape shape_;
};

}  // namespace lockstep::mgmt
