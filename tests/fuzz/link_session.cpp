// The way out to a partner that answers anything: each task ends once with an answer that fits, or the session stops
// and every task is still there to be called back.
#include "replication/link/link_session.hpp"

#include <cassert>
#include <cstring>
#include <memory>
#include <set>

#include "engine/base/crc32c.hpp"
#include "engine/iscsi/login_target.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/unit/iscsi_session/fake_stream.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::fuzz;
using namespace lockstep::iscsi;
using namespace lockstep::replication;

class OpenDoor final : public LoginAuthority {
 public:
  LoginDecision decide(const LoginIdentity&) override { return {}; }
};

struct Kept {
  LinkTask task;
  std::vector<std::byte> out, in;
};

class Partner final : public LinkSessionOwner {
 public:
  explicit Partner(Input& from) : input(from), session({.ours = ours(), .chap = {}}, random, *this) {}

  static Hello ours() { return {.pair = {}, .process = {}, .side = engine::NodeSide::a}; }
  void on_session_ready() override { ready = true; }
  void on_session_room() override {}
  void on_task_done(LinkTask& task, AnswerStart answer) override {
    assert(outstanding.erase(&task) == 1);
    assert(answer.payload <= task.payload_in.size() && answer.header <= kMaxLinkAnswerHeader);
  }
  void on_session_failed(const std::string& why) override {
    assert(!failed && !why.empty());
    failed = true;
  }
  void on_session_silent() override {
    assert(!silent);
    silent = true;
  }

  void run() {
    session.start(transport);
    log_in();
    for (int n = 0; n < 200 && !input.empty() && !failed; ++n) step();
    session.stop();
    assert(silent);
    LinkTaskList left;
    session.take_tasks(left);
    assert(left.size() == outstanding.size());
    while (LinkTask* task = left.pop()) assert(outstanding.erase(task) == 1);
  }

  // ---- what we, the partner, send ----

  void feed(std::span<const std::byte> bytes) {
    while (!bytes.empty() && !failed && !stream_state.closed) {
      const auto place = transport.receive_place();
      const std::size_t direct = std::min(place.direct.size(), bytes.size());
      std::copy_n(bytes.begin(), direct, place.direct.begin());
      const std::size_t room = direct < place.direct.size() ? 0 : place.scratch;
      const std::size_t scratch = std::min(room, bytes.size() - direct);
      if (direct + scratch == 0) return;
      transport.received(direct, bytes.subspan(direct, scratch));
      bytes = bytes.subspan(direct + scratch);
    }
  }

  void put(Bhs header, std::span<const std::byte> data) {
    auto any = header_as<AnyHeader>(header);
    any.ahs_words = 0;
    any.data_length = static_cast<std::uint32_t>(data.size());
    header = bytes_of(any);
    std::vector<std::byte> out(header.begin(), header.end());
    if (digests) digest(out, 0);
    if (!data.empty()) {
      const std::size_t from = out.size();
      out.insert(out.end(), data.begin(), data.end());
      out.resize(out.size() + padding_of(data.size()));
      if (digests) digest(out, from);
    }
    feed(out);
  }
  static void digest(std::vector<std::byte>& out, std::size_t from) {
    const std::uint32_t crc = engine::crc32c(std::span(out).subspan(from));
    for (int i = 0; i < 4; ++i) out.push_back(static_cast<std::byte>(crc >> (8 * i)));
  }

  void log_in() {
    OpenDoor door;
    Offers offers;
    TargetLogin login(door, random, offers);
    for (int n = 0; n < 8 && !failed; ++n) {
      const auto request = take_all();
      if (request.size() < kBhsSize) return;
      Bhs header;
      std::copy_n(request.begin(), kBhsSize, header.begin());
      const auto asked = header_as<LoginRequestHeader>(header);
      auto answer = login.on_request(asked, std::span(request).subspan(kBhsSize, asked.data_length));
      if (answer.next == TargetLogin::Step::Next::admit) answer = login.admit(1, 64);
      put(bytes_of(answer.header), std::as_bytes(std::span(answer.text)));
      if (answer.next != TargetLogin::Step::Next::answer) break;
    }
    stat_sn = login.next_stat_sn();
    window = Serial(login.exp_cmd_sn()) + 64;
    digests = true;
    if (input.u8() & 1) return;  // the greeting's answer is the input's
    HelloAnswer welcome{.message = {}};
    welcome.version = kPartnerVersions.highest;
    welcome.side = engine::NodeSide::b;
    std::array<std::byte, kMaxLinkAnswerHeader> bytes;
    const std::size_t size = encode_hello_answer(welcome, bytes);
    AnswerPrefix prefix;
    const std::size_t length = encode_answer(std::span(bytes).first(size), 0, prefix);
    data_in(0x10000, 0, std::span(prefix).first(length), true);
  }

  template <class T>
  void stamp(T& header, bool counts) {
    header.stat_sn = stat_sn.value();
    if (counts) ++stat_sn;
    header.max_cmd_sn = window.value();
  }

  void data_in(std::uint32_t tag, std::uint32_t offset, std::span<const std::byte> bytes, bool last) {
    auto header = make_header<DataInHeader>(Opcode::scsi_data_in, last ? kFinal | kDataInStatus : 0);
    header.task_tag = tag;
    header.transfer_tag = kReservedTag;
    header.buffer_offset = offset;
    stamp(header, last);
    put(bytes_of(header), bytes);
  }

  // ---- steps ----

  LinkTask* some_task() {
    if (outstanding.empty()) return nullptr;
    auto at = outstanding.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(input.u8() % outstanding.size()));
    return *at;
  }

  void issue() {
    auto kept = std::make_unique<Kept>();
    kept->out.resize(input.u16());
    kept->in.resize(input.u16());
    kept->task.header_size = input.u8() % (kMaxLinkHeader + 1);
    kept->task.payload_out = kept->out;
    kept->task.payload_in = kept->in;
    if (!ready || failed || tasks.size() > 64 || !session.has_room(kept->task)) return;
    LinkTask& task = kept->task;
    tasks.push_back(std::move(kept));
    outstanding.insert(&task);
    session.issue(task);
  }

  void right_answer() {
    LinkTask* const task = some_task();
    if (task == nullptr) return;
    const std::size_t payload = std::min<std::size_t>(input.u16(), task->payload_in.size());
    const auto header = input.bytes(input.u8() % (kMaxLinkAnswerHeader + 1));
    AnswerPrefix prefix;
    const std::size_t length = encode_answer(header, payload, prefix);
    std::vector<std::byte> all(prefix.begin(), prefix.begin() + static_cast<std::ptrdiff_t>(length));
    all.resize(length + payload);
    data_in(task->tag, 0, all, true);
  }

  void some_data_in() {
    LinkTask* const task = some_task();
    const std::uint8_t how = input.u8();
    const std::uint32_t offset = how & 1 || task == nullptr ? input.u16() : task->received;
    data_in(task ? task->tag : 0x10000, offset, input.bytes(input.u16() % 4096), how & 2);
  }

  void response() {
    auto header = make_header<ScsiResponseHeader>(Opcode::scsi_response, kFinal);
    LinkTask* const task = some_task();
    header.task_tag = task ? task->tag : input.u32();
    const std::uint8_t how = input.u8();
    if (how & 1) header.status = how;
    stamp(header, true);
    put(bytes_of(header), input.bytes(how & 2 ? input.u16() % 9000 : 0));
  }

  void r2t() {
    auto header = make_header<R2tHeader>(Opcode::r2t, kFinal);
    LinkTask* const task = some_task();
    header.task_tag = task ? task->tag : 0x10000;
    header.transfer_tag = input.u8();
    const std::uint8_t how = input.u8();
    header.buffer_offset = how & 1 ? input.u32() : 0;
    header.desired_length =
        how & 2 || task == nullptr ? input.u32() : static_cast<std::uint32_t>(task->payload_out.size());
    stamp(header, false);
    put(bytes_of(header), {});
  }

  void nop_in() {
    auto header = make_header<NopInHeader>(Opcode::nop_in, kFinal);
    const std::uint8_t how = input.u8();
    header.task_tag = how & 1 ? input.u32() : kReservedTag;
    header.transfer_tag = how & 2 ? kReservedTag : 7;
    if (how & 4) window = window + input.u8();
    stamp(header, header.task_tag != kReservedTag);
    put(bytes_of(header), input.bytes(how >> 4));
  }

  void anything() {
    Bhs header{};
    input.fill(header);
    auto numbers = header_as<NopInHeader>(header);
    if (input.u8() & 1) stamp(numbers, true);
    put(bytes_of(numbers), input.bytes(input.u16() % 4096));
  }

  std::vector<std::byte> take_all() {
    std::vector<std::byte> all;
    for (;;) {
      std::array<std::span<const std::byte>, 32> pieces;
      const std::size_t count = stream_state.closed ? 0 : transport.gather(pieces);
      if (count == 0) return all;
      std::size_t total = 0;
      for (const auto& piece : std::span(pieces).first(count)) {
        all.insert(all.end(), piece.begin(), piece.end());
        total += piece.size();
      }
      transport.sent(total);
    }
  }

  void step() {
    switch (input.u8() % 12) {
      case 0:
      case 1:
        return issue();
      case 2:
      case 3:
        return right_answer();
      case 4:
        return some_data_in();
      case 5:
        return response();
      case 6:
        return r2t();
      case 7:
        return nop_in();
      case 8:
        return anything();
      case 9:
        return feed(input.bytes(input.u16() % 512));
      case 10:
        return session.ping();
      default:
        return void(take_all());
    }
  }

  Input& input;
  test::SeededRandom random{1};
  test::FakeStream::State stream_state;
  OutPduPool pdus;
  std::vector<std::unique_ptr<Kept>> tasks;
  std::set<LinkTask*> outstanding;
  LinkSession session;
  StreamTransport transport{std::make_unique<test::FakeStream>(stream_state), pdus};
  Serial stat_sn, window;
  bool ready = false, failed = false, silent = false, digests = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  Partner(input).run();
  return 0;
}
