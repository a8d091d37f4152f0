// A session under a hail of PDUs that are almost right: whatever comes, nothing crashes, nothing is left behind, and
// every command that was begun is completed. The core alone: no sockets, no threads, one seed.
#include <algorithm>
#include <deque>

#include "engine/base/crc32c.hpp"
#include "engine/iscsi/login_initiator.hpp"
#include "tests/unit/iscsi_session/fake_stream.hpp"
#include "tests/unit/iscsi_session/test_server.hpp"

namespace lockstep::test {
namespace {

using namespace iscsi;

/// Completes commands in any order and late, pulls late, or not at all, or less than it could.
class MoodyDevice final : public scsi::DeviceServer {
 public:
  MoodyDevice(SeededRandom& random, engine::BufferPool& pool) : random_(random), pool_(pool) {}
  void on_nexus_opened(scsi::Nexus&) override { ++nexuses; }
  void on_nexus_closed(scsi::Nexus&) override {
    EXPECT_EQ(begun, ended);
    --nexuses;
  }
  void execute(scsi::Command& command) override {
    ++begun;
    waiting_.push_back({&command, {}, false, false});
    if (random_.one_in(3)) step_one();
  }
  bool task_management(scsi::Nexus&, scsi::TaskManagement, std::uint64_t lun) override { return lun == 0; }
  /// Told only of what it is at work on, and once; ends some of it at once.
  void abort(scsi::Command& command) override {
    const auto work = std::ranges::find(waiting_, &command, &Work::command);
    ASSERT_NE(work, waiting_.end());
    EXPECT_FALSE(std::exchange(work->given_up, true));
    ++given_up;
    if (random_.one_in(2)) return;
    waiting_.erase(work);
    end(command);
  }

  /// Moves one command along.
  void step_one() {
    if (waiting_.empty()) return;
    const std::size_t at = random_.below(static_cast<std::uint32_t>(waiting_.size()));
    Work work = std::move(waiting_[at]);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(at));
    scsi::Command& command = *work.command;
    if (!work.pulled && command.expected_out != 0 && !random_.one_in(4)) return pull(std::move(work));
    end(command);
  }
  void finish_all() {
    while (!waiting_.empty()) end(*std::exchange(waiting_.back().command, nullptr)), waiting_.pop_back();
  }
  [[nodiscard]] bool idle() const { return waiting_.empty(); }

  int begun = 0, ended = 0, given_up = 0, nexuses = 0;

 private:
  struct Work {
    scsi::Command* command;
    engine::Buffer buffer;
    bool pulled;
    bool given_up;
  };

  void pull(Work work) {
    scsi::Command& command = *work.command;
    std::size_t size = std::min<std::uint32_t>(command.expected_out, 1 << 20);
    if (random_.one_in(4)) size = random_.below(static_cast<std::uint32_t>(size) + 1);
    work.buffer = scsi::take_buffer(command, std::max<std::size_t>(size, 1), pool_);
    if (!work.buffer) return end(command);
    const auto into = work.buffer.span().first(size);
    auto* const kept = new Work(std::move(work));
    command.pull(into, [this, kept](std::error_code) {
      kept->pulled = true;
      waiting_.push_back(std::move(*kept));
      delete kept;
    });
  }

  void end(scsi::Command& command) {
    ++ended;
    if (random_.one_in(5)) {
      command.status = scsi::Status::check_condition;
      command.sense_length = 18;
    }
    command.wanted_in = random_.one_in(3) ? random_.below(100000) : command.expected_in;
    const std::size_t size = std::min<std::size_t>(random_.below(70000), command.expected_in + random_.below(100));
    if (random_.one_in(2) || size > 4096) {
      engine::Buffer buffer = pool_.allocate(size);
      const auto data = buffer ? buffer.span() : std::span<std::byte>{};
      if (random_.one_in(2)) command.data_prefix = std::as_bytes(std::span(prefix_)).first(random_.below(256));
      return command.complete(data, std::move(buffer));
    }
    command.complete(std::as_bytes(std::span(prefix_)).first(std::min<std::size_t>(size, prefix_.size())), {});
  }

  SeededRandom& random_;
  engine::BufferPool& pool_;
  std::deque<Work> waiting_;
  std::array<char, 4096> prefix_{};
};

class Noise {
 public:
  explicit Noise(std::uint64_t seed) : random(seed), device(random, pool), host(device) {
    iscsi_target::Target target;
    target.name = kTarget;
    target.device_servers = {&device};
    registry.put(std::move(target));
    settings.queue_depth = 16;
    if (random.one_in(2)) resources.data_buffers = std::make_unique<iscsi_target::DataBuffers>(clock, pool);
    connection = std::make_unique<iscsi_target::TargetConnection>(fake_transport(stream, resources.pdus, protocol),
                                                                  std::make_unique<iscsi_target::StreamTransfers>(),
                                                                  host, resources, registry, settings);
  }

  void log_in() {
    InitiatorLoginSettings login_settings;
    login_settings.initiator_name = kInitiator;
    login_settings.target_name = kTarget;
    const auto digest = [&] { return random.one_in(3) ? Offers::Digest::crc32c : Offers::Digest::none; };
    login_settings.offers.header_digest = digest();
    login_settings.offers.data_digest = digest();
    login_settings.offers.initial_r2t = random.one_in(4);
    login_settings.offers.first_burst = 512u << random.below(8);
    login_settings.offers.max_burst = login_settings.offers.first_burst << random.below(4);
    login_settings.offers.max_recv = 512u << random.below(8);
    InitiatorLogin login(login_settings, random);
    auto step = login.start();
    while (step.next == InitiatorLogin::Step::Next::send) {
      put(bytes_of(step.header), std::as_bytes(std::span(step.text)), {});
      const auto answer = take_all();
      ASSERT_GE(answer.size(), kBhsSize);
      Bhs header;
      std::copy_n(answer.begin(), kBhsSize, header.begin());
      const auto response = header_as<LoginResponseHeader>(header);
      step = login.on_response(response, std::span(answer).subspan(kBhsSize, response.data_length));
    }
    ASSERT_EQ(step.next, InitiatorLogin::Step::Next::done) << step.error.message;
    header_digest = login.parameters().header_digest;
    data_digest = login.parameters().data_digest;
    cmd_sn = login.cmd_sn();
    logged_in = true;
  }

  /// In pieces, as a stream would.
  void feed(std::span<const std::byte> bytes) {
    while (!bytes.empty() && !stream.closed) {
      const auto place = protocol->receive_place();
      if (place.direct.empty() && place.scratch == 0)
        return;  // paused: the rest is lost, which is one more malformation
      const std::size_t piece = random.one_in(3) ? 1 + random.below(200) : bytes.size();
      const std::size_t direct = std::min({place.direct.size(), bytes.size(), piece});
      std::copy_n(bytes.begin(), direct, place.direct.begin());
      const std::size_t scratch =
          direct < place.direct.size() ? 0 : std::min({place.scratch, bytes.size() - direct, piece});
      protocol->received(direct, bytes.subspan(direct, scratch));
      if (direct + scratch == 0) return;
      bytes = bytes.subspan(direct + scratch);
    }
  }

  void put(Bhs header, std::span<const std::byte> data, std::span<const std::byte> ahs) {
    auto any = header_as<AnyHeader>(header);
    any.ahs_words = static_cast<std::uint8_t>(ahs.size() / 4);
    any.data_length = static_cast<std::uint32_t>(data.size());
    header = bytes_of(any);
    std::vector<std::byte> out(header.begin(), header.end());
    out.insert(out.end(), ahs.begin(), ahs.end());
    if (header_digest) digest(out, engine::crc32c(out));
    if (!data.empty()) {
      const std::size_t from = out.size();
      out.insert(out.end(), data.begin(), data.end());
      out.resize(out.size() + padding_of(data.size()));
      if (data_digest) digest(out, engine::crc32c(std::span(out).subspan(from)));
    }
    if (logged_in && random.one_in(2000)) out[random.below(static_cast<std::uint32_t>(out.size()))] ^= std::byte{0x10};
    feed(out);
  }

  /// Sends what there is to send, some of it; looks at the R2Ts and tags in it.
  std::vector<std::byte> take_all() {
    std::vector<std::byte> all;
    while (!stream.closed) {
      std::array<std::span<const std::byte>, 32> pieces;
      const std::size_t count = protocol->gather(pieces);
      if (count == 0) break;
      std::size_t total = 0;
      for (std::size_t i = 0; i < count; ++i) {
        note(pieces[i]);
        all.insert(all.end(), pieces[i].begin(), pieces[i].end());
        total += pieces[i].size();
      }
      protocol->sent(total);
    }
    return all;
  }

  void note(std::span<const std::byte> piece) {
    if (piece.size() < kBhsSize) return;
    Bhs header;
    std::copy_n(piece.begin(), kBhsSize, header.begin());
    if (header_as<AnyHeader>(header).opcode == static_cast<std::uint8_t>(Opcode::r2t)) {
      r2ts.push_back(header_as<R2tHeader>(header));
    }
  }

  void one_pdu() {
    switch (random.below(12)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return command();
      case 4:
      case 5:
        return solicited();
      case 6:
        return unsolicited();
      case 7:
        return management();
      case 8:
        return nop();
      case 9:
        return text();
      case 10:
        return random.one_in(40) ? anything() : nop();
      default:
        return take_some();
    }
  }

  std::span<const std::byte> some_data(std::uint32_t most) { return std::span(noise).first(random.below(most + 1)); }
  std::uint8_t maybe_immediate() { return random.one_in(10) ? kImmediate : 0; }
  std::uint32_t next_cmd_sn(std::uint8_t immediate) {
    const auto now = cmd_sn.value();
    if (!immediate) ++cmd_sn;
    if (random.one_in(400)) return now + random.below(40) - 20;
    return now;
  }

  void command() {
    auto header = make_header<ScsiCommandHeader>(Opcode::scsi_command);
    const std::uint8_t immediate = maybe_immediate();
    header.opcode |= immediate;
    const bool write = random.one_in(2);
    header.flags = static_cast<std::uint8_t>((random.one_in(3) ? 0 : kFinal) | (write ? kWrite : 0) |
                                             (random.one_in(write ? 10 : 1) ? kRead : 0));
    header.task_tag = random.one_in(20) ? random.below(4) : ++tag;
    header.expected_length = random.one_in(4) ? random.below(200000) : 512 * random.below(64);
    header.cmd_sn = next_cmd_sn(immediate);
    header.lun = random.one_in(10) ? std::uint64_t{1} << 48 : 0;
    std::vector<std::byte> ahs;
    if (random.one_in(8)) ahs.assign(noise.begin(), noise.begin() + 4 * (1 + random.below(20)));
    const bool fits = !random.one_in(15);
    put(bytes_of(header),
        write && random.one_in(2) ? some_data(fits ? std::min<std::uint32_t>(header.expected_length, 512) : 9000)
                                  : std::span<const std::byte>{},
        ahs);
  }

  void solicited() {
    if (r2ts.empty()) return;
    const std::size_t at = random.below(static_cast<std::uint32_t>(r2ts.size()));
    const R2tHeader r2t = r2ts[at];
    r2ts.erase(r2ts.begin() + static_cast<std::ptrdiff_t>(at));
    if (random.one_in(20)) return;
    const std::uint32_t length = std::min<std::uint32_t>(r2t.desired_length, static_cast<std::uint32_t>(noise.size()));
    std::uint32_t sent = 0, data_sn = random.one_in(30) ? 1 : 0;
    while (sent < length) {
      const std::uint32_t part = std::min(length - sent, 1 + random.below(8192));
      auto header = make_header<DataOutHeader>(Opcode::scsi_data_out, sent + part == length ? kFinal : 0);
      header.task_tag = r2t.task_tag;
      header.transfer_tag = random.one_in(60) ? r2t.transfer_tag + 256 : r2t.transfer_tag.value();
      header.data_sn = data_sn++;
      header.buffer_offset = r2t.buffer_offset + sent + (random.one_in(100) ? 4 : 0);
      put(bytes_of(header), std::span(noise).first(part), {});
      sent += part;
      if (random.one_in(20)) management();
    }
  }

  void unsolicited() {
    auto header = make_header<DataOutHeader>(Opcode::scsi_data_out, random.one_in(2) ? kFinal : 0);
    header.task_tag = tag - random.below(6);
    header.transfer_tag = kReservedTag;
    header.data_sn = random.below(2);
    header.buffer_offset = random.one_in(2) ? 0 : random.below(2000);
    put(bytes_of(header), some_data(3000), {});
  }

  void management() {
    auto header = make_header<TaskManagementRequestHeader>(Opcode::task_management_request);
    header.opcode |= kImmediate;
    header.function = static_cast<std::uint8_t>(kFinal | (random.one_in(3) ? random.below(10) : 1));
    if ((header.function & 0x7F) == 7 && !random.one_in(10)) header.function = kFinal | 1;  // it ends the session
    header.task_tag = ++tag;
    header.referenced_tag = tag - random.below(12);
    header.cmd_sn = cmd_sn.value();
    header.ref_cmd_sn = cmd_sn.value() - random.below(12);
    put(bytes_of(header), {}, {});
  }

  void nop() {
    auto header = make_header<NopOutHeader>(Opcode::nop_out, kFinal);
    const std::uint8_t immediate = random.one_in(5) ? 0 : kImmediate;
    header.opcode |= immediate;
    header.task_tag = random.one_in(5) ? kReservedTag : ++tag;
    header.transfer_tag = kReservedTag;
    header.cmd_sn = cmd_sn.value();
    if (!immediate) ++cmd_sn;
    put(bytes_of(header), some_data(600), {});
  }

  void text() {
    auto header = make_header<TextRequestHeader>(Opcode::text_request, random.one_in(3) ? kContinue : kFinal);
    header.opcode |= kImmediate;
    header.task_tag = ++tag;
    header.transfer_tag = random.one_in(2) ? kReservedTag : 1;
    header.cmd_sn = cmd_sn.value();
    std::string keys = random.one_in(2) ? "SendTargets=All" : "X-y=z";
    if (!random.one_in(5)) keys.push_back('\0');
    put(bytes_of(header), std::as_bytes(std::span(keys)), {});
  }

  void anything() {
    Bhs header;
    for (auto& b : header) b = static_cast<std::byte>(random.next());
    put(header, some_data(1000), {});
  }

  void take_some() {
    if (random.one_in(2)) return void(take_all());
    std::array<std::span<const std::byte>, 8> pieces;
    const std::size_t count = protocol->gather(pieces);
    if (count == 0 || stream.closed) return;
    note(pieces[0]);  // may be cut: then it is looked at no more
    protocol->sent(std::min<std::size_t>(pieces[0].size(), 1 + random.below(60)));
  }

  static void digest(std::vector<std::byte>& out, std::uint32_t crc) {
    for (int i = 0; i < 4; ++i) out.push_back(static_cast<std::byte>(crc >> (8 * i)));
  }

  /// Takes all the memory there is, or gives it back.
  void change_shortage() {
    if (!taken.empty()) return taken.clear();
    for (std::size_t size = engine::BufferPool::kMaxBuffer; size >= 4096; size /= 2) {
      while (auto buffer = pool.allocate(size)) taken.push_back(std::move(buffer));
    }
  }

  SeededRandom random;
  engine::BufferPool pool{std::size_t{16} << 20};
  std::vector<engine::Buffer> taken;
  MoodyDevice device;
  FakeHost host;
  FakeClock clock;
  iscsi_target::TargetRegistry registry;
  iscsi_target::SessionSettings settings;
  iscsi_target::SessionResources resources{clock, random, pool};
  FakeStream::State stream;
  engine::StreamProtocol* protocol = nullptr;
  std::unique_ptr<iscsi_target::TargetConnection> connection;
  std::vector<std::byte> noise{std::vector<std::byte>(65536, std::byte{0x5A})};
  std::vector<R2tHeader> r2ts;
  bool logged_in = false, header_digest = false, data_digest = false;
  Serial cmd_sn;
  std::uint32_t tag = 10;
};

class NoisySession : public testing::TestWithParam<int> {};

TEST_P(NoisySession, LeavesNothingBehind) {
  int commands = 0, given_up = 0, long_lived = 0;
  for (int i = 0; i < 25; ++i) {
    Noise noise(static_cast<std::uint64_t>(GetParam()) * 1000 + static_cast<std::uint64_t>(i));
    ASSERT_NO_FATAL_FAILURE(noise.log_in());
    int pdus = 0;
    for (; pdus < 600 && !noise.stream.closed; ++pdus) {
      noise.one_pdu();
      while (noise.random.one_in(2)) noise.device.step_one();
      if (noise.random.one_in(200)) noise.clock.advance(std::chrono::seconds(1));
      if (noise.random.one_in(50)) noise.change_shortage();
    }
    commands += noise.device.begun;
    given_up += noise.device.given_up;
    long_lived += pdus > 100;
    noise.connection->reset("The test is over.");
    noise.device.finish_all();
    noise.taken.clear();
    EXPECT_EQ(noise.host.closed_count, 1);
    EXPECT_EQ(noise.device.begun, noise.device.ended);
    noise.connection.reset();
    EXPECT_EQ(noise.device.nexuses, 0);
    EXPECT_EQ(noise.resources.commands.in_use(), 0u);
    EXPECT_EQ(noise.resources.pdus.in_use(), 0u);
    EXPECT_EQ(noise.pool.in_use(), 0u);
  }
  EXPECT_GT(commands, 500);  // the hail does get through
  EXPECT_GT(given_up, 5);
  EXPECT_GT(long_lived, 5);
}

INSTANTIATE_TEST_SUITE_P(Seeds, NoisySession, testing::Range(1, 21));

}  // namespace
}  // namespace lockstep::test
