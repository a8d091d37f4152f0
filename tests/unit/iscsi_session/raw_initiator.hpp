#pragma once
// An initiator that sends what a test tells it to, well-formed or not, and shows every PDU that comes back.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/iscsi/login_initiator.hpp"
#include "engine/iscsi/pdu.hpp"
#include "tests/unit/iscsi_session/test_server.hpp"

namespace lockstep::test {

struct ReceivedPdu {
  iscsi::Bhs header{};
  std::vector<std::byte> data;
  [[nodiscard]] iscsi::Opcode opcode() const { return iscsi::opcode_of(static_cast<std::uint8_t>(header[0])); }
  template <class T>
  [[nodiscard]] T as() const {
    return iscsi::header_as<T>(header);
  }
};

struct RawOptions {
  std::string initiator = kInitiator;
  std::string target = kTarget;  ///< empty: discovery
  iscsi::Isid isid{0x80, 0, 0, 0, 0, 1};
  iscsi::Offers offers{.header_digest = iscsi::Offers::Digest::none, .data_digest = iscsi::Offers::Digest::none};
  std::optional<iscsi::ChapCredentials> chap{};
};

class RawInitiator {
 public:
  /// `from`: a local address, any when empty.
  explicit RawInitiator(const std::string& address, const std::string& from = {});
  ~RawInitiator();
  RawInitiator(const RawInitiator&) = delete;
  RawInitiator& operator=(const RawInitiator&) = delete;

  /// An empty string, or why it failed.
  std::string log_in(const RawOptions& options = {});

  void send_bytes(std::span<const std::byte> bytes);
  /// Sets the lengths, pads, and adds digests as agreed.
  void send(iscsi::Bhs header, std::span<const std::byte> data = {}, std::span<const std::byte> ahs = {});
  template <iscsi::Header T>
  void send(const T& header, std::span<const std::byte> data = {}, std::span<const std::byte> ahs = {}) {
    send(bytes_of(header), data, ahs);
  }
  /// Nothing when the target has closed the connection, or is silent for 10 s (then timed_out()).
  std::optional<ReceivedPdu> receive();
  /// True when the target closes the connection after at most a Reject or login failure or two.
  bool is_closed();
  [[nodiscard]] bool timed_out() const { return timed_out_; }
  void close();

  /// Takes the next CmdSN, unless `immediate`.
  iscsi::ScsiCommandHeader command(std::uint8_t opcode, std::uint32_t lba, std::uint16_t blocks, std::uint8_t flags,
                                   std::uint32_t expected, bool immediate = false);
  iscsi::ScsiCommandHeader read10(std::uint32_t lba, std::uint16_t blocks) {
    return command(0x28, lba, blocks, iscsi::kFinal | iscsi::kRead, blocks * kBlock);
  }
  iscsi::ScsiCommandHeader write10(std::uint32_t lba, std::uint16_t blocks, std::uint8_t final = iscsi::kFinal) {
    return command(0x2A, lba, blocks, static_cast<std::uint8_t>(final | iscsi::kWrite), blocks * kBlock);
  }
  iscsi::DataOutHeader data_out(std::uint32_t task_tag, std::uint32_t transfer_tag, std::uint32_t data_sn,
                                std::uint32_t offset, bool final) const;
  iscsi::TaskManagementRequestHeader task_management(scsi::TaskManagement function, std::uint32_t referenced = 0,
                                                     std::uint32_t ref_cmd_sn = 0);
  /// A NOP-Out that asks for an answer: what came before it has been dealt with when the answer is there.
  iscsi::NopOutHeader nop();

  std::uint32_t next_tag = 1;
  iscsi::Serial cmd_sn{1};
  iscsi::Serial exp_stat_sn;
  iscsi::Parameters parameters;
  std::uint16_t tsih = 0;

 private:
  bool read_exactly(std::span<std::byte> into);
  int socket_ = -1;
  bool timed_out_ = false;
  bool header_digest_ = false, data_digest_ = false;
};

[[nodiscard]] std::vector<std::byte> bytes_pattern(std::size_t size, unsigned seed);

}  // namespace lockstep::test
