#pragma once
// Somebody else's array with one unit at LUN 0, as far as an import asks it: on a port of its own, without CHAP and
// digests, one connection at a time. What it tells, and how it fails, is set by the test, also between connections.
#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "mgmt/control/lun_session.hpp"

namespace lockstep::test {

/// What a command ends with; status 0: it went well.
struct ArrayFailure {
  std::uint8_t status = 0x02;  ///< CHECK CONDITION
  std::uint8_t key = 0;
  std::uint16_t code = 0;  ///< ASC and ASCQ
};

struct ArrayUnit {
  std::vector<std::uint8_t> bytes;
  std::optional<std::uint64_t> last_block{};        ///< that it tells of; nothing: the last of `bytes`
  std::optional<std::uint8_t> provisioning{};       ///< of all of it, in GET LBA STATUS; nothing: the unit is not thin
  std::vector<std::uint8_t> designators{};          ///< of VPD 83h; empty: there is no such page
  std::string serial{};                             ///< of VPD 80h; empty: there is no such page
  std::uint16_t login_refusal = 0;                  ///< status class and detail
  std::map<std::uint8_t, ArrayFailure> failures{};  ///< by opcode
};

class ForeignArray {
 public:
  static constexpr std::uint64_t kBlock = 512;  ///< bytes
  using Bytes = std::vector<std::uint8_t>;
  using Failure = ArrayFailure;
  using Unit = ArrayUnit;

  explicit ForeignArray(Unit unit);
  ~ForeignArray();
  ForeignArray(const ForeignArray&) = delete;
  ForeignArray& operator=(const ForeignArray&) = delete;

  [[nodiscard]] mgmt::LunAddress address(const std::string& what) const;
  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] Unit get();
  void set(Unit unit);

 private:
  struct Request {
    std::array<std::uint8_t, 48> header{};
    Bytes data;
    [[nodiscard]] std::span<const std::uint8_t> cdb() const { return std::span(header).subspan(32, 16); }
  };
  struct Answer {
    Failure failure{.status = 0};
    Bytes data;
  };
  void serve();
  void serve_one(int connection);
  [[nodiscard]] static bool take(int connection, Request& request);
  [[nodiscard]] bool log_in(int connection, const Request& request);
  [[nodiscard]] bool answer(int connection, const Request& request);
  [[nodiscard]] Answer carry_out(const Request& request);
  [[nodiscard]] Answer inquire(std::uint8_t page) const;
  [[nodiscard]] Answer tell_capacity() const;
  [[nodiscard]] Answer tell_provisioning() const;
  [[nodiscard]] bool send(int connection, const Request& request, std::array<std::uint8_t, 48> header,
                          const Bytes& data);

  int listener_ = -1, port_ = 0;
  std::mutex mutex_;
  Unit unit_;
  int connection_ = -1;
  bool stopping_ = false;
  std::uint32_t answers_ = 0;
  std::thread thread_;
};

}  // namespace lockstep::test
