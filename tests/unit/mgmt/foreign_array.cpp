#include "tests/unit/mgmt/foreign_array.hpp"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/byte_order.hpp"

namespace lockstep::test {
namespace {

using engine::load_be;
using engine::store_be;

// Of iSCSI (RFC 7143, 11.2).
constexpr std::uint8_t kScsiCommand = 0x01, kLogin = 0x03;
constexpr std::uint8_t kScsiResponse = 0x21, kLoginResponse = 0x23, kDataIn = 0x25;
constexpr std::uint8_t kFinal = 0x80, kHasStatus = 0x01;
constexpr std::uint32_t kWindow = 64;  // commands

// Of SCSI.
constexpr std::uint8_t kIllegalRequest = 0x05;
constexpr ForeignArray::Failure kUnknownCommand{.key = kIllegalRequest, .code = 0x2000};
constexpr ForeignArray::Failure kUnknownField{.key = kIllegalRequest, .code = 0x2400};

bool receive_all(int connection, std::span<std::uint8_t> into) {
  while (!into.empty()) {
    const ssize_t n = ::recv(connection, into.data(), into.size(), 0);
    if (n <= 0) return false;
    into = into.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

bool send_all(int connection, std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

std::size_t padded(std::size_t size) { return (size + 3) / 4 * 4; }

ForeignArray::Bytes sense_of(const ForeignArray::Failure& failure) {
  ForeignArray::Bytes out(2 + 18);
  out[1] = 18;
  out[2] = 0x70;
  out[4] = failure.key;
  out[9] = 10;
  store_be<std::uint16_t>(&out[14], failure.code);
  return out;
}

}  // namespace

ForeignArray::ForeignArray(Unit unit) : unit_(std::move(unit)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  auto* address = reinterpret_cast<sockaddr*>(&at);
  if (::bind(listener_, address, size) != 0 || ::listen(listener_, 8) != 0 ||
      ::getsockname(listener_, address, &size) != 0)
    throw std::runtime_error("no port for an array");
  port_ = ntohs(at.sin_port);
  thread_ = std::thread([this] { serve(); });
}

ForeignArray::~ForeignArray() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    if (connection_ >= 0) ::shutdown(connection_, SHUT_RDWR);
  }
  thread_.join();
  ::close(listener_);
}

mgmt::LunAddress ForeignArray::address(const std::string& what) const {
  return {what, fmt::format("127.0.0.1:{}", port_), "iqn.2005-10.org.example:array",
          0,    "iqn.2026-11.io.lockstep:import",   {}};
}

ForeignArray::Unit ForeignArray::get() {
  const std::lock_guard lock(mutex_);
  return unit_;
}

void ForeignArray::set(Unit unit) {
  const std::lock_guard lock(mutex_);
  unit_ = std::move(unit);
}

void ForeignArray::serve() {
  for (;;) {
    const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) return;
    {
      const std::lock_guard lock(mutex_);
      connection_ = connection;
      if (stopping_) ::shutdown(connection, SHUT_RDWR);
    }
    serve_one(connection);
    const std::lock_guard lock(mutex_);
    connection_ = -1;
    ::close(connection);
  }
}

void ForeignArray::serve_one(int connection) {
  for (;;) {
    Request request;
    if (!take(connection, request)) return;
    const std::uint8_t opcode = request.header[0] & 0x3F;
    const std::lock_guard lock(mutex_);
    const bool goes_on =
        opcode == kLogin ? log_in(connection, request) : opcode == kScsiCommand && answer(connection, request);
    if (!goes_on) return;
  }
}

bool ForeignArray::take(int connection, Request& request) {
  if (!receive_all(connection, request.header)) return false;
  const std::size_t size = load_be<std::uint32_t>(&request.header[4]) & 0xFFFFFF;
  request.data.resize(padded(size));
  if (!receive_all(connection, request.data)) return false;
  request.data.resize(size);
  return true;
}

bool ForeignArray::send(int connection, const Request& request, std::array<std::uint8_t, 48> header,
                        const Bytes& data) {
  const auto size = static_cast<std::uint32_t>(data.size());
  header[5] = static_cast<std::uint8_t>(size >> 16);
  store_be<std::uint16_t>(&header[6], static_cast<std::uint16_t>(size));
  std::ranges::copy(std::span(request.header).subspan(16, 4), &header[16]);  // the task's tag
  const auto command = load_be<std::uint32_t>(&request.header[24]);
  const bool immediate = request.header[0] & 0x40;
  store_be<std::uint32_t>(&header[24], answers_++);
  store_be<std::uint32_t>(&header[28], command + (immediate ? 0 : 1));
  store_be<std::uint32_t>(&header[32], command + kWindow);
  Bytes out(header.begin(), header.end());
  out.insert(out.end(), data.begin(), data.end());
  out.resize(padded(out.size()));
  return send_all(connection, out);
}

// All that is asked for is agreed to, at once.
bool ForeignArray::log_in(int connection, const Request& request) {
  std::array<std::uint8_t, 48> header{kLoginResponse, request.header[1]};
  std::ranges::copy(std::span(request.header).subspan(8, 6), &header[8]);  // the initiator's part of the session's id
  header[15] = 1;
  store_be<std::uint16_t>(&header[36], unit_.login_refusal);
  if (unit_.login_refusal != 0) {
    (void)send(connection, request, header, {});
    return false;
  }
  Bytes keys;
  for (const std::string_view key :
       {"HeaderDigest=None", "DataDigest=None", "InitialR2T=No", "ImmediateData=Yes", "MaxBurstLength=262144",
        "FirstBurstLength=262144", "MaxRecvDataSegmentLength=262144", "DefaultTime2Wait=0", "DefaultTime2Retain=0"}) {
    keys.insert(keys.end(), key.begin(), key.end());
    keys.push_back(0);
  }
  return send(connection, request, header, keys);
}

bool ForeignArray::answer(int connection, const Request& request) {
  const Answer told = carry_out(request);
  const bool has_data = told.failure.status == 0 && !told.data.empty();
  std::array<std::uint8_t, 48> header{has_data ? kDataIn : kScsiResponse, kFinal};
  header[3] = told.failure.status;
  if (has_data) {
    header[1] |= kHasStatus;
    store_be<std::uint32_t>(&header[20], ~0u);
  }
  return send(connection, request, header, told.failure.status == 0x02 ? sense_of(told.failure) : told.data);
}

ForeignArray::Answer ForeignArray::carry_out(const Request& request) {
  const auto cdb = request.cdb();
  if (const auto failure = unit_.failures.find(cdb[0]); failure != unit_.failures.end()) return {failure->second, {}};
  const std::uint64_t offset = load_be<std::uint64_t>(&cdb[2]) * kBlock;
  const std::uint64_t length = load_be<std::uint32_t>(&cdb[10]) * kBlock;
  const bool fits = offset <= unit_.bytes.size() && length <= unit_.bytes.size() - offset;
  const auto range = [&] { return std::span(unit_.bytes).subspan(offset, length); };
  switch (cdb[0]) {
    case 0x00:  // TEST UNIT READY
    case 0x91:  // SYNCHRONIZE CACHE(16)
      return {};
    case 0x12:  // INQUIRY
      return cdb[1] & 1 ? inquire(cdb[2]) : Answer{kUnknownField, {}};
    case 0x9E:  // SERVICE ACTION IN(16)
      if ((cdb[1] & 0x1F) == 0x10) return tell_capacity();
      if ((cdb[1] & 0x1F) == 0x12) return tell_provisioning();
      break;
    case 0x88:  // READ(16)
      if (!fits) break;
      return {{.status = 0}, Bytes(range().begin(), range().end())};
    case 0x8A:  // WRITE(16), whose data have come with it
      if (!fits || request.data.size() != length) break;
      std::ranges::copy(request.data, range().begin());
      return {};
    case 0x93:  // WRITE SAME(16), of zeros
      if (!fits) break;
      std::ranges::fill(range(), std::uint8_t{0});
      return {};
    default:
      break;
  }
  return {kUnknownCommand, {}};
}

ForeignArray::Answer ForeignArray::inquire(std::uint8_t page) const {
  Bytes told;
  if (page == 0x83) told = unit_.designators;
  if (page == 0x80) told.assign(unit_.serial.begin(), unit_.serial.end());
  if (told.empty()) return {kUnknownField, {}};
  Bytes out{0, page, 0, 0};
  store_be<std::uint16_t>(&out[2], static_cast<std::uint16_t>(told.size()));
  out.insert(out.end(), told.begin(), told.end());
  return {{.status = 0}, out};
}

ForeignArray::Answer ForeignArray::tell_capacity() const {
  Bytes out(32);
  store_be<std::uint64_t>(out.data(), unit_.last_block.value_or(unit_.bytes.size() / kBlock - 1));
  store_be<std::uint32_t>(&out[8], kBlock);
  if (unit_.provisioning) out[14] = 0xC0;  // LBPME, LBPRZ
  return {{.status = 0}, out};
}

ForeignArray::Answer ForeignArray::tell_provisioning() const {
  if (!unit_.provisioning) return {kUnknownCommand, {}};
  Bytes out(24);
  out[3] = 20;
  store_be<std::uint32_t>(&out[16], static_cast<std::uint32_t>(unit_.bytes.size() / kBlock));
  out[20] = *unit_.provisioning;
  return {{.status = 0}, out};
}

}  // namespace lockstep::test
