// A whole connection: bytes from an initiator, right and wrong, into the session with live logical units behind it;
// time, the stores and the socket move on as the input says. Nobody gets at a unit without the secret, every command is
// completed, and when the connection is over nothing of it is left.
#include <cstring>

#include "engine/base/crc32c.hpp"
#include "engine/iscsi/login_initiator.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/scsi_world.hpp"
#include "tests/unit/iscsi_session/fake_stream.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::fuzz;
using namespace lockstep::iscsi;

const std::string kTarget = "iqn.2026-11.io.lockstep:fuzz";

/// Stands before the real one and counts.
class Watched final : public scsi::DeviceServer {
 public:
  explicit Watched(scsi::DeviceServer& real) : real_(real) {}
  void on_nexus_opened(scsi::Nexus& nexus) override { ++opened, ++open, real_.on_nexus_opened(nexus); }
  void on_nexus_closed(scsi::Nexus& nexus) override { --open, real_.on_nexus_closed(nexus); }
  void execute(scsi::Command& command) override { real_.execute(command); }
  void abort(scsi::Command& command) override { real_.abort(command); }
  bool task_management(scsi::Nexus& nexus, scsi::TaskManagement function, std::uint64_t lun) override {
    return real_.task_management(nexus, function, lun);
  }
  int opened = 0, open = 0;

 private:
  scsi::DeviceServer& real_;
};

class Machine {
 public:
  explicit Machine(Input& from) : input(from), options(input.u8()), shape(input.u8()) {
    iscsi_target::Target target;
    target.name = kTarget;
    target.device_servers = {&server};
    if (wants_chap()) {
      target.access = std::make_shared<iscsi_target::AccessList>(std::vector<iscsi_target::AccessList::Entry>{
          {.initiator = "iqn.2026-11.io.lockstep:one",
           .chap = ChapCredentials{.user = "someone", .secret = "a secret nobody guesses"}}});
    }
    registry.put(std::move(target));
    settings.queue_depth = 8;
    connection = std::make_unique<iscsi_target::TargetConnection>(
        test::fake_transport(stream, resources.pdus, protocol), std::make_unique<iscsi_target::StreamTransfers>(), host,
        resources, registry, settings);
  }

  ~Machine() {
    connection->reset("The input is used up.");
    world.run_stores();
    assert(host.closed_count == 1);
    connection.reset();
    assert(server.open == 0 && !(wants_chap() && server.opened != 0));
    assert(resources.commands.in_use() == 0 && resources.pdus.in_use() == 0);
  }

  [[nodiscard]] bool logs_in() const { return options & 1; }
  [[nodiscard]] bool wants_chap() const { return !logs_in() && (options & 2); }

  void log_in() {
    InitiatorLoginSettings as;
    as.initiator_name = "iqn.2026-11.io.lockstep:one";
    as.target_name = options & 0x80 ? "" : kTarget;
    const auto digest = [](bool yes) { return yes ? Offers::Digest::crc32c : Offers::Digest::none; };
    as.offers.header_digest = digest(options & 4);
    as.offers.data_digest = digest(options & 8);
    as.offers.initial_r2t = options & 16;
    as.offers.immediate_data = !(options & 32);
    as.offers.first_burst = 512u << (shape & 7);
    as.offers.max_burst = as.offers.first_burst << (shape >> 3 & 3);
    as.offers.max_recv = 512u << (shape >> 5);
    InitiatorLogin login(as, random);
    auto step = login.start();
    while (step.next == InitiatorLogin::Step::Next::send) {
      put(bytes_of(step.header), std::as_bytes(std::span(step.text)), {});
      const auto answer = take_all();
      if (answer.size() < kBhsSize) return;
      Bhs header;
      std::copy_n(answer.begin(), kBhsSize, header.begin());
      const auto response = header_as<LoginResponseHeader>(header);
      step = login.on_response(response, std::span(answer).subspan(kBhsSize, response.data_length));
    }
    header_digest = login.parameters().header_digest;
    data_digest = login.parameters().data_digest;
    cmd_sn = login.cmd_sn();
  }

  void feed(std::span<const std::byte> bytes) {
    while (!bytes.empty() && !stream.closed) {
      const auto place = protocol->receive_place();
      if (place.direct.empty() && place.scratch == 0) return;  // paused: the rest is lost, one more malformation
      const std::size_t direct = std::min({place.direct.size(), bytes.size(), piece});
      std::copy_n(bytes.begin(), direct, place.direct.begin());
      const std::size_t room = direct < place.direct.size() ? 0 : place.scratch;
      const std::size_t scratch = std::min({room, bytes.size() - direct, piece});
      if (direct + scratch == 0) return;
      protocol->received(direct, bytes.subspan(direct, scratch));
      bytes = bytes.subspan(direct + scratch);
    }
  }

  void put(Bhs header, std::span<const std::byte> data, std::span<const std::byte> ahs) {
    auto any = header_as<AnyHeader>(header);
    any.ahs_words = static_cast<std::uint8_t>(ahs.size() / 4);
    any.data_length = static_cast<std::uint32_t>(data.size());
    header = bytes_of(any);
    std::vector<std::byte> out(header.begin(), header.end());
    out.insert(out.end(), ahs.begin(), ahs.begin() + static_cast<std::ptrdiff_t>(ahs.size() / 4 * 4));
    if (header_digest) digest(out, engine::crc32c(out));
    if (!data.empty()) {
      const std::size_t from = out.size();
      out.insert(out.end(), data.begin(), data.end());
      out.resize(out.size() + padding_of(data.size()));
      if (data_digest) digest(out, engine::crc32c(std::span(out).subspan(from)));
    }
    feed(out);
  }

  static void digest(std::vector<std::byte>& out, std::uint32_t crc) {
    for (int i = 0; i < 4; ++i) out.push_back(static_cast<std::byte>(crc >> (8 * i)));
  }

  std::vector<std::byte> take_all() {
    std::vector<std::byte> all;
    while (!stream.closed) {
      std::array<std::span<const std::byte>, 32> pieces;
      const std::size_t count = protocol->gather(pieces);
      if (count == 0) break;
      std::size_t total = 0;
      for (const auto& sent : std::span(pieces).first(count)) {
        note(sent);
        all.insert(all.end(), sent.begin(), sent.end());
        total += sent.size();
      }
      protocol->sent(total);
    }
    return all;
  }

  void take_some(std::size_t bytes) {
    std::array<std::span<const std::byte>, 4> pieces;
    const std::size_t count = stream.closed ? 0 : protocol->gather(pieces);
    if (count == 0 || stream.closed) return;
    std::size_t total = 0;
    for (const auto& sent : std::span(pieces).first(count)) note(sent), total += sent.size();
    protocol->sent(std::min(total, bytes + 1));
  }

  void note(std::span<const std::byte> sent) {
    if (sent.size() < kBhsSize || r2ts.size() > 32) return;
    Bhs header;
    std::copy_n(sent.begin(), kBhsSize, header.begin());
    if (opcode_of(header_as<AnyHeader>(header).opcode) == Opcode::r2t) r2ts.push_back(header_as<R2tHeader>(header));
  }

  std::uint32_t next_cmd_sn(bool immediate, std::uint8_t skew) {
    const std::uint32_t now = cmd_sn.value() + (skew & 0x80 ? skew % 8 : 0);
    if (!immediate && now == cmd_sn.value()) ++cmd_sn;
    return now;
  }

  void any_pdu() {
    Bhs header{};
    input.fill(header);
    const std::uint8_t how = input.u8();
    if (how & 1) {
      auto nop = header_as<NopOutHeader>(header);  // CmdSN is at one place in all requests but Data-Out
      nop.cmd_sn = next_cmd_sn(nop.opcode & kImmediate, 0);
      header = bytes_of(nop);
    }
    const auto ahs = input.bytes(how >> 2);
    const auto data = input.bytes(input.u16() % 8192);
    put(header, data, ahs);
  }

  void command() {
    auto header = make_header<ScsiCommandHeader>(Opcode::scsi_command);
    const std::uint8_t how = input.u8();
    if (how & 1) header.opcode |= kImmediate;
    header.flags = static_cast<std::uint8_t>((how & 2 ? 0 : kFinal) | (how & 4 ? kWrite : 0) | (how & 8 ? kRead : 0) |
                                             (how >> 4 & 3));
    header.task_tag = how & 0x40 ? input.u8() % 8 : ++tag;
    header.cmd_sn = next_cmd_sn(how & 1, how & 0x80 ? input.u8() : 0);
    header.expected_length = input.u16();
    input.fill(header.cdb);
    put(bytes_of(header), input.bytes(input.u16() % 4096), {});
  }

  void solicited_data() {
    const std::uint8_t how = input.u8();
    if (r2ts.empty()) return;
    const std::size_t at = (how >> 4) % r2ts.size();
    const R2tHeader r2t = r2ts[at];
    if (!(how & 1)) r2ts.erase(r2ts.begin() + static_cast<std::ptrdiff_t>(at));
    const std::uint32_t wanted = std::min<std::uint32_t>(r2t.desired_length, 65536);
    const std::uint32_t length = how & 2 ? input.u16() : wanted;
    std::uint32_t sent = 0, data_sn = how & 4 ? input.u8() : 0;
    const std::uint32_t each = how & 8 ? 512 + input.u8() * 16u : 8192;
    while (sent < length && !stream.closed) {
      const std::uint32_t part = std::min(length - sent, each);
      auto header = make_header<DataOutHeader>(Opcode::scsi_data_out, sent + part == length ? kFinal : 0);
      header.task_tag = r2t.task_tag;
      header.transfer_tag = r2t.transfer_tag;
      header.data_sn = data_sn++;
      header.buffer_offset = r2t.buffer_offset + sent;
      put(bytes_of(header), std::span(noise).first(part), {});
      sent += part;
    }
  }

  void unsolicited_data() {
    auto header = make_header<DataOutHeader>(Opcode::scsi_data_out, input.u8() & 1 ? kFinal : 0);
    header.task_tag = tag - input.u8() % 4;
    header.transfer_tag = kReservedTag;
    header.data_sn = input.u8();
    header.buffer_offset = input.u16();
    put(bytes_of(header), std::span(noise).first(input.u16() % 8192), {});
  }

  void management() {
    auto header = make_header<TaskManagementRequestHeader>(Opcode::task_management_request);
    header.opcode |= kImmediate;
    header.function = static_cast<std::uint8_t>(kFinal | (input.u8() % 10));
    header.task_tag = ++tag;
    header.referenced_tag = tag - input.u8() % 8;
    header.cmd_sn = cmd_sn.value();
    header.ref_cmd_sn = cmd_sn.value() + 4 - input.u8() % 8;
    header.lun = input.u8() % 8 == 7 ? std::uint64_t{5} << 48 : 0;
    put(bytes_of(header), {}, {});
  }

  void text() {
    auto header = make_header<TextRequestHeader>(Opcode::text_request, input.u8() & 0xC0);
    header.opcode |= kImmediate;
    header.task_tag = ++tag;
    header.transfer_tag = input.u8() % 2 ? 1 : kReservedTag;
    header.cmd_sn = cmd_sn.value();
    put(bytes_of(header), input.bytes(input.u16() % 2048), {});
  }

  void login_request() {
    auto header = make_header<LoginRequestHeader>(Opcode::login_request, input.u8());
    header.opcode |= kImmediate;
    header.isid = {0x80, 0, 0, 0, 0, 1};
    header.cmd_sn = cmd_sn.value();
    put(bytes_of(header), input.bytes(input.u16() % 4096), {});
  }

  void from_the_node() {
    switch (input.u8() % 5) {
      case 0:
        return connection->request_logout(3);
      case 1:
        return connection->quiesce({}, [] {});
      case 2:
        return world.unit().set_use(input.u8() & 1, input.u8() & 1);
      case 3:
        return world.fail_next();
      default:
        return;
    }
  }

  void step() {
    switch (input.u8() % 16) {
      case 0:
        return feed(input.bytes(input.u16() % 4096));
      case 1:
        return any_pdu();
      case 2:
      case 3:
      case 4:
        return command();
      case 5:
        return solicited_data();
      case 6:
        return unsolicited_data();
      case 7:
        return management();
      case 8:
        return text();
      case 9:
        return login_request();
      case 10:
        return from_the_node();
      case 11:
        return void(take_all());
      case 12:
        return take_some(input.u8());
      case 13:
        return world.step_store();
      case 14:
        piece = 1 + std::size_t{input.u8()} * 16;
        return;
      default:
        return clock.advance(std::chrono::milliseconds(100) * input.u8());
    }
  }

  Input& input;
  const std::uint8_t options, shape;
  ScsiWorld world{{}};
  Watched server{world.device};
  test::FakeHost host{server};
  test::FakeClock clock;
  test::SeededRandom random{1};
  iscsi_target::TargetRegistry registry;
  iscsi_target::SessionSettings settings;
  iscsi_target::SessionResources resources{clock, random, buffers()};
  test::FakeStream::State stream;
  engine::StreamProtocol* protocol = nullptr;
  std::unique_ptr<iscsi_target::TargetConnection> connection;
  std::vector<std::byte> noise{std::vector<std::byte>(65536, std::byte{0x5A})};
  std::vector<R2tHeader> r2ts;
  std::size_t piece = 65536;
  bool header_digest = false, data_digest = false;
  Serial cmd_sn;
  std::uint32_t tag = 10;
};

}  // namespace

// Input: options, shape of the session, then steps.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  Input input(data, size);
  Machine machine(input);
  if (machine.logs_in()) machine.log_in();
  for (int n = 0; n < 256 && !input.empty() && !machine.stream.closed; ++n) machine.step();
  return 0;
}
