#include "tests/load/initiator.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/byte_order.hpp"
#include "engine/net/socket_address.hpp"
#include "engine/runtime/system_random.hpp"

namespace lockstep::load {

using namespace iscsi;

namespace {

constexpr int kPatience = 20'000;  // ms
constexpr std::uint32_t kBlock = 512;

[[noreturn]] void fail(const std::string& what) { throw Failure{what + ": " + std::strerror(errno)}; }

std::string name_of(std::uint32_t number) { return "iqn.2026-11.io.lockstep:load-" + std::to_string(number); }

}  // namespace

Connection::Connection(const std::string& to, const std::string& from) {
  const auto address = engine::parse_address(to);
  if (!address) throw Failure{address.error().message};
  socket_ = ::socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) fail("no socket");
  if (!from.empty()) {
    const auto local = engine::parse_address(from + ":0");
    if (!local || ::bind(socket_, local->get(), local->length) != 0) fail("cannot bind to " + from);
  }
  if (::connect(socket_, address->get(), address->length) != 0) fail("cannot connect to " + to);
  const int on = 1;
  (void)::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Connection::Connection(Connection&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}

Connection::~Connection() {
  if (socket_ >= 0) ::close(socket_);
}

void Connection::send(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t gone = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (gone <= 0) fail("the target took no more");
    bytes = bytes.subspan(static_cast<std::size_t>(gone));
  }
}

void Connection::send(const Bhs& header, std::span<const std::byte> data) {
  auto any = header_as<AnyHeader>(header);
  any.data_length = static_cast<std::uint32_t>(data.size());
  const Bhs whole = bytes_of(any);
  std::vector<std::byte> out(whole.begin(), whole.end());
  out.insert(out.end(), data.begin(), data.end());
  out.resize(out.size() + padding_of(data.size()));
  send(out);
}

void Connection::receive_exactly(std::span<std::byte> into) {
  while (!into.empty()) {
    pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, kPatience) == 0) throw Failure{"the target is silent"};
    const ssize_t got = ::recv(socket_, into.data(), into.size(), 0);
    if (got == 0) throw Failure{"the target closed the connection"};
    if (got < 0) fail("the connection broke");
    into = into.subspan(static_cast<std::size_t>(got));
  }
}

Connection::Pdu Connection::receive() {
  Pdu pdu;
  receive_exactly(pdu.header);
  const std::uint32_t length = header_as<AnyHeader>(pdu.header).data_length;
  pdu.data.resize(length + padding_of(length));
  receive_exactly(pdu.data);
  pdu.data.resize(length);
  return pdu;
}

bool Connection::ends_within(int patience) {
  for (;;) {
    pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, patience) == 0) return false;
    char some[512];
    if (::recv(socket_, some, sizeof some, 0) <= 0) return true;
  }
}

std::string login_text(const Initiator::Who& who) {
  std::string text;
  add_pair(text, "InitiatorName", name_of(who.number));
  add_pair(text, "SessionType", who.target.empty() ? "Discovery" : "Normal");
  if (!who.target.empty()) add_pair(text, "TargetName", who.target);
  return text;
}

Initiator::Initiator(const Who& who) : connection_(who.portal, who.from) {
  engine::SystemRandom random;
  InitiatorLoginSettings settings;
  settings.initiator_name = name_of(who.number);
  settings.target_name = who.target;
  settings.isid = {0x80, 0, 0, 0, 0, 1};
  settings.cmd_sn = cmd_sn_;
  settings.offers.header_digest = settings.offers.data_digest = Offers::Digest::none;
  InitiatorLogin login(settings, random);
  auto step = login.start();
  while (step.next == InitiatorLogin::Step::Next::send) {
    connection_.send(bytes_of(step.header), std::as_bytes(std::span(step.text)));
    const auto answer = connection_.receive();
    step = login.on_response(header_as<LoginResponseHeader>(answer.header), answer.data);
  }
  if (step.next == InitiatorLogin::Step::Next::failed) throw Failure{step.error.message};
  exp_stat_sn_ = login.exp_stat_sn();
}

ScsiCommandHeader Initiator::command(std::uint8_t flags, std::uint32_t bytes) {
  auto header = make_header<ScsiCommandHeader>(Opcode::scsi_command, static_cast<std::uint8_t>(kFinal | flags));
  header.task_tag = ++tag_;
  header.expected_length = bytes;
  header.cmd_sn = cmd_sn_.value();
  ++cmd_sn_;
  header.exp_stat_sn = exp_stat_sn_.value();
  return header;
}

void Initiator::begin_test_unit_ready() { connection_.send(bytes_of(command(0, 0))); }

void Initiator::begin_write(std::uint32_t lba, std::span<const std::byte> data) {
  auto header = command(kWrite, static_cast<std::uint32_t>(data.size()));
  header.cdb[0] = 0x2A;
  engine::store_be<std::uint32_t>(header.cdb.data() + 2, lba);
  engine::store_be<std::uint16_t>(header.cdb.data() + 7, static_cast<std::uint16_t>(data.size() / kBlock));
  connection_.send(bytes_of(header), data);
}

void Initiator::begin_read(std::uint32_t lba, std::uint32_t bytes) {
  auto header = command(kRead, bytes);
  header.cdb[0] = 0x28;
  engine::store_be<std::uint32_t>(header.cdb.data() + 2, lba);
  engine::store_be<std::uint16_t>(header.cdb.data() + 7, static_cast<std::uint16_t>(bytes / kBlock));
  connection_.send(bytes_of(header));
}

void Initiator::answer_ping(const Bhs& ping) {
  const auto in = header_as<NopInHeader>(ping);
  if (in.transfer_tag == kReservedTag) return;
  auto out = make_header<NopOutHeader>(Opcode::nop_out, kFinal);
  out.opcode |= kImmediate;
  out.task_tag = kReservedTag;
  out.transfer_tag = in.transfer_tag;
  out.cmd_sn = cmd_sn_.value();
  out.exp_stat_sn = exp_stat_sn_.value();
  connection_.send(bytes_of(out));
}

std::vector<std::byte> Initiator::finish() {
  std::vector<std::byte> data;
  for (;;) {
    const auto pdu = connection_.receive();
    switch (opcode_of(header_as<AnyHeader>(pdu.header).opcode)) {
      case Opcode::nop_in:
        answer_ping(pdu.header);
        continue;
      case Opcode::scsi_data_in: {
        const auto header = header_as<DataInHeader>(pdu.header);
        data.insert(data.end(), pdu.data.begin(), pdu.data.end());
        if (!(header.flags & kDataInStatus)) continue;
        ++exp_stat_sn_;
        if (header.status != 0) throw Failure{"a read ended with status " + std::to_string(header.status)};
        return data;
      }
      case Opcode::scsi_response: {
        const auto header = header_as<ScsiResponseHeader>(pdu.header);
        ++exp_stat_sn_;
        if (header.status != 0) throw Failure{"a command ended with status " + std::to_string(header.status)};
        return data;
      }
      default:
        throw Failure{"the target sent something that was not asked for"};
    }
  }
}

void Initiator::begin_logout() {
  auto header = make_header<LogoutRequestHeader>(Opcode::logout_request);
  header.opcode |= kImmediate;
  header.reason = kFinal;
  header.task_tag = ++tag_;
  header.cmd_sn = cmd_sn_.value();
  header.exp_stat_sn = exp_stat_sn_.value();
  connection_.send(bytes_of(header));
}

void Initiator::finish_logout() {
  for (;;) {
    const auto pdu = connection_.receive();
    const Opcode opcode = opcode_of(header_as<AnyHeader>(pdu.header).opcode);
    if (opcode == Opcode::nop_in) continue;
    if (opcode != Opcode::logout_response) throw Failure{"the logout was answered with something else"};
    break;
  }
  if (!connection_.ends_within(kPatience)) throw Failure{"the target did not close the connection after a logout"};
}

}  // namespace lockstep::load
