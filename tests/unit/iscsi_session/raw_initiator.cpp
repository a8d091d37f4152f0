#include "tests/unit/iscsi_session/raw_initiator.hpp"

#include <stdexcept>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/crc32c.hpp"
#include "engine/net/socket_address.hpp"
#include "engine/runtime/system_random.hpp"

namespace lockstep::test {

using namespace iscsi;

namespace {

constexpr int kPatience = 10'000;  // ms

void append_digest(std::vector<std::byte>& out, std::uint32_t crc) {
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<std::byte>(crc >> (8 * i)));
}

std::uint32_t digest_at(const std::byte* at) {
  std::uint32_t crc = 0;
  for (int i = 0; i < 4; ++i) crc |= std::to_integer<std::uint32_t>(at[i]) << (8 * i);
  return crc;
}

}  // namespace

std::vector<std::byte> bytes_pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> out(size);
  std::uint32_t state = seed * 2654435761u + 1;
  for (auto& b : out) {
    state = state * 1664525u + 1013904223u;
    b = static_cast<std::byte>(state >> 24);
  }
  return out;
}

RawInitiator::RawInitiator(const std::string& address, const std::string& from) {
  const auto to = engine::parse_address(address);
  if (!to) throw std::runtime_error(to.error().message);
  socket_ = ::socket(to->family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (!from.empty()) {
    const auto local = engine::parse_address(from + ":0");
    if (!local || ::bind(socket_, local->get(), local->length) != 0) throw std::runtime_error("cannot bind " + from);
  }
  if (::connect(socket_, to->get(), to->length) != 0) throw std::runtime_error("cannot connect to " + address);
}

RawInitiator::~RawInitiator() { close(); }

void RawInitiator::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

std::string RawInitiator::log_in(const RawOptions& options) {
  engine::SystemRandom random;
  InitiatorLoginSettings settings;
  settings.initiator_name = options.initiator;
  settings.target_name = options.target;
  settings.isid = options.isid;
  settings.cmd_sn = cmd_sn;
  settings.offers = options.offers;
  settings.chap = options.chap;
  InitiatorLogin login(settings, random);
  auto step = login.start();
  while (step.next == InitiatorLogin::Step::Next::send) {
    send(step.header, std::as_bytes(std::span(step.text)));
    const auto answer = receive();
    if (!answer) return "the target closed the connection";
    step = login.on_response(answer->as<LoginResponseHeader>(), answer->data);
  }
  if (step.next == InitiatorLogin::Step::Next::failed) return step.error.message;
  parameters = login.parameters();
  exp_stat_sn = login.exp_stat_sn();
  tsih = login.tsih();
  header_digest_ = parameters.header_digest;
  data_digest_ = parameters.data_digest;
  return {};
}

void RawInitiator::send_bytes(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t gone = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (gone <= 0) return;  // the target has closed: the test will see
    bytes = bytes.subspan(static_cast<std::size_t>(gone));
  }
}

void RawInitiator::send(Bhs header, std::span<const std::byte> data, std::span<const std::byte> ahs) {
  auto any = header_as<AnyHeader>(header);
  any.ahs_words = static_cast<std::uint8_t>(ahs.size() / 4);
  any.data_length = static_cast<std::uint32_t>(data.size());
  header = bytes_of(any);
  std::vector<std::byte> out(header.begin(), header.end());
  out.insert(out.end(), ahs.begin(), ahs.end());
  if (header_digest_) append_digest(out, engine::crc32c(out));
  if (!data.empty()) {
    const std::size_t from = out.size();
    out.insert(out.end(), data.begin(), data.end());
    out.resize(out.size() + padding_of(data.size()));
    if (data_digest_) append_digest(out, engine::crc32c(std::span(out).subspan(from)));
  }
  send_bytes(out);
}

bool RawInitiator::read_exactly(std::span<std::byte> into) {
  while (!into.empty()) {
    pollfd fd{.fd = socket_, .events = POLLIN, .revents = 0};
    if (::poll(&fd, 1, kPatience) == 0) {
      timed_out_ = true;
      return false;
    }
    const ssize_t got = ::recv(socket_, into.data(), into.size(), 0);
    if (got <= 0) return false;
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

std::optional<ReceivedPdu> RawInitiator::receive() {
  ReceivedPdu pdu;
  if (!read_exactly(pdu.header)) return std::nullopt;
  const auto any = pdu.as<AnyHeader>();
  EXPECT_EQ(any.ahs_words, 0);  // no target of ours sends any
  std::array<std::byte, 4> digest{};
  if (header_digest_) {
    if (!read_exactly(digest)) return std::nullopt;
    EXPECT_EQ(engine::crc32c(pdu.header), digest_at(digest.data()));
  }
  const std::size_t length = any.data_length;
  if (length != 0) {
    std::vector<std::byte> padded(length + padding_of(length));
    if (!read_exactly(padded)) return std::nullopt;
    if (data_digest_) {
      if (!read_exactly(digest)) return std::nullopt;
      EXPECT_EQ(engine::crc32c(padded), digest_at(digest.data()));
    }
    padded.resize(length);
    pdu.data = std::move(padded);
  }
  return pdu;
}

bool RawInitiator::is_closed() {
  for (int i = 0; i < 3; ++i) {
    const auto pdu = receive();
    if (!pdu) return !timed_out_;
    if (pdu->opcode() != Opcode::reject && pdu->opcode() != Opcode::login_response) {
      ADD_FAILURE() << "unexpected opcode " << static_cast<int>(pdu->opcode());
    }
  }
  return false;
}

ScsiCommandHeader RawInitiator::command(std::uint8_t opcode, std::uint32_t lba, std::uint16_t blocks,
                                        std::uint8_t flags, std::uint32_t expected, bool immediate) {
  auto header = make_header<ScsiCommandHeader>(Opcode::scsi_command, flags);
  if (immediate) header.opcode |= kImmediate;
  header.task_tag = next_tag++;
  header.expected_length = expected;
  header.cmd_sn = cmd_sn.value();
  if (!immediate) ++cmd_sn;
  header.exp_stat_sn = exp_stat_sn.value();
  header.cdb[0] = opcode;
  engine::store_be<std::uint32_t>(header.cdb.data() + 2, lba);
  engine::store_be<std::uint16_t>(header.cdb.data() + 7, blocks);
  return header;
}

DataOutHeader RawInitiator::data_out(std::uint32_t task_tag, std::uint32_t transfer_tag, std::uint32_t data_sn,
                                     std::uint32_t offset, bool final) const {
  auto header = make_header<DataOutHeader>(Opcode::scsi_data_out, final ? kFinal : 0);
  header.task_tag = task_tag;
  header.transfer_tag = transfer_tag;
  header.exp_stat_sn = exp_stat_sn.value();
  header.data_sn = data_sn;
  header.buffer_offset = offset;
  return header;
}

TaskManagementRequestHeader RawInitiator::task_management(scsi::TaskManagement function, std::uint32_t referenced,
                                                          std::uint32_t ref_cmd_sn) {
  auto header = make_header<TaskManagementRequestHeader>(Opcode::task_management_request);
  header.opcode |= kImmediate;
  header.function = static_cast<std::uint8_t>(kFinal | static_cast<std::uint8_t>(function));
  header.task_tag = next_tag++;
  header.referenced_tag = referenced;
  header.ref_cmd_sn = ref_cmd_sn;
  header.cmd_sn = cmd_sn.value();
  header.exp_stat_sn = exp_stat_sn.value();
  return header;
}

NopOutHeader RawInitiator::nop() {
  auto header = make_header<NopOutHeader>(Opcode::nop_out, kFinal);
  header.opcode |= kImmediate;
  header.task_tag = next_tag++;
  header.transfer_tag = kReservedTag;
  header.cmd_sn = cmd_sn.value();
  header.exp_stat_sn = exp_stat_sn.value();
  return header;
}

}  // namespace lockstep::test
