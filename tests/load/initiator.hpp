#pragma once
// One session over a blocking socket: small enough to have a thousand of them in one thread, since a target answers
// while the others are being asked.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/iscsi/login_initiator.hpp"
#include "engine/iscsi/pdu.hpp"

namespace lockstep::load {

/// What went wrong, a whole sentence.
struct Failure {
  std::string what;
};

/// A connected socket; throws Failure.
class Connection {
 public:
  /// `from`: a local address without a port, empty for any.
  Connection(const std::string& to, const std::string& from);
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&&) = delete;
  ~Connection();

  void send(std::span<const std::byte> bytes);
  void send(const iscsi::Bhs& header, std::span<const std::byte> data = {});
  struct Pdu {
    iscsi::Bhs header{};
    std::vector<std::byte> data;
  };
  Pdu receive();
  /// The target has closed it, or does so within `patience` ms.
  [[nodiscard]] bool ends_within(int patience);

 private:
  void receive_exactly(std::span<std::byte> into);
  int socket_ = -1;
};

class Initiator {
 public:
  struct Who {
    std::string portal, target;  ///< target empty: discovery
    std::string from;            ///< local address
    std::uint32_t number = 0;    ///< tells its name from the others'
  };
  /// Logs in; throws Failure.
  explicit Initiator(const Who& who);

  // Each is sent at once and answered later, so that many sessions are at work together.
  void begin_test_unit_ready();
  void begin_write(std::uint32_t lba, std::span<const std::byte> data);
  void begin_read(std::uint32_t lba, std::uint32_t bytes);
  void begin_logout();
  /// The answer to what was begun: the data of a read. Throws Failure for anything but GOOD.
  std::vector<std::byte> finish();
  void finish_logout();

 private:
  iscsi::ScsiCommandHeader command(std::uint8_t flags, std::uint32_t bytes);
  void answer_ping(const iscsi::Bhs& ping);

  Connection connection_;
  iscsi::Serial cmd_sn_{1}, exp_stat_sn_;
  std::uint32_t tag_ = 0;
};

/// Text of a login request, as far as it goes.
[[nodiscard]] std::string login_text(const Initiator::Who& who);

}  // namespace lockstep::load
