// The partner link's frames: any bytes are refused, or read such that writing them gives the same bytes; and the way in
// from the partner takes any commands in any order, answers each once and keeps nothing.
#include <cassert>
#include <cstring>
#include <deque>
#include <set>
#include <vector>

#include "replication/link/channel/channel_frames.hpp"
#include "replication/link/link_format.hpp"
#include "replication/link/partner_service.hpp"
#include "replication/link/paths_service.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/scsi_world.hpp"
#include "tests/unit/iscsi_session/fake_stream.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::fuzz;
using namespace lockstep::replication;

void formats(std::span<const std::byte> bytes) {
  if (const auto command = decode_link_cdb(bytes)) {
    LinkCdb again;
    const std::size_t length = encode_link_cdb(*command, again);
    // Not byte for byte: CDBs come padded, and greetings in every version.
    const auto same = decode_link_cdb(std::span(again).first(length));
    assert(same && same->opcode == command->opcode && std::ranges::equal(same->header, command->header));
    assert(same->payload_out == command->payload_out && same->payload_in == command->payload_in);
  }
  if (const auto start = decode_answer(bytes)) {
    assert(start->header <= kMaxLinkAnswerHeader && kAnswerFixed + start->header <= bytes.size());
    assert(start->payload <= kMaxLinkPayload);
  }
  if (const auto hello = decode_hello(bytes)) {
    // One of a later version may be longer, and use what is reserved in this one: it is told so by its version.
    const auto again = decode_hello(encode_hello(*hello));
    assert(again && again->versions == hello->versions && again->pair == hello->pair && again->side == hello->side &&
           again->process == hello->process);
    (void)judge_hello(*hello, Hello{});
  }
  if (const auto answer = decode_hello_answer(bytes)) {
    std::array<std::byte, kMaxLinkAnswerHeader> again;
    (void)encode_hello_answer(*answer, again);
  }
}

void several_paths(std::span<const std::byte> bytes) {
  if (const auto frame = decode_request_frame(bytes)) {
    assert(std::ranges::equal(encode_request_frame(*frame), bytes.first(kRequestFrame)));
    assert(is_channel_frame(bytes) && frame_goes_ahead(bytes) == (frame->kind != FrameKind::numbered));
  }
  if (const auto frame = decode_answer_frame(bytes)) {
    assert(std::ranges::equal(encode_answer_frame(*frame), bytes.first(kAnswerFrame)));
  }
  if (const auto join = decode_join(bytes)) {
    assert(std::ranges::equal(encode_join(*join), bytes.first(kJoinFrame)) && is_join(bytes));
    (void)judge_join(*join, {}, {});
  }
  if (const auto answer = decode_join_answer(bytes)) {
    std::array<std::byte, kMaxLinkAnswerHeader> again;
    assert(std::ranges::equal(std::span(again).first(encode_join_answer(*answer, again)), bytes));
  }
}

/// The mirror's place: holds requests until it is told to answer them.
class Mirror final : public LinkEvents {
 public:
  void on_link_up() override {}
  void on_link_down() override {}
  void on_inbound_up(std::uint64_t session) override {
    assert(alive_ == 0 && session > last_);
    alive_ = last_ = session;
  }
  void on_inbound_down(std::uint64_t session) override {
    assert(session == alive_);
    alive_ = 0;
  }
  void on_request(std::uint64_t session, InboundRequest& request) override {
    assert(session == last_);
    // What is announced is there to be read.
    volatile unsigned sum = 0;
    for (const std::byte b : request.header()) sum = sum + static_cast<unsigned>(b);
    for (const std::byte b : request.payload()) sum = sum + static_cast<unsigned>(b);
    requests.push_back(&request);
  }
  void answer_early(std::size_t which) {
    InboundRequest*& request = requests[which % requests.size()];
    if (early_.insert(request).second) request->answer_early(std::span(bytes_).first(8));
  }
  void answer_one(std::size_t which, std::size_t header, std::size_t payload) {
    if (requests.empty()) return;
    const auto at = requests.begin() + static_cast<std::ptrdiff_t>(which % requests.size());
    InboundRequest& request = **at;
    requests.erase(at);
    early_.erase(&request);
    payload = std::min(payload, request.max_answer_payload());
    request.answer(std::span(bytes_).first(std::min(header, kMaxLinkAnswerHeader)), std::span(bytes_).first(payload),
                   [this] { ++sent; });
    ++answered;
  }
  std::deque<InboundRequest*> requests;
  int answered = 0, sent = 0;

 private:
  std::vector<std::byte> bytes_{std::vector<std::byte>(kMaxLinkPayload, std::byte{7})};
  std::set<InboundRequest*> early_;
  std::uint64_t alive_ = 0, last_ = 0;
};

const Hello kOurs{.pair = {}, .process = {}, .side = engine::NodeSide::b};

std::unique_ptr<CheckedCommand> next_command(Input& input) {
  auto command = std::make_unique<CheckedCommand>();
  const std::uint8_t how = input.u8();
  command->data_out.resize(input.u16());
  command->expected_out = static_cast<std::uint32_t>(command->data_out.size());
  command->expected_in = kAnswerPayloadOffset + input.u16();
  if (how % 4 == 3) {  // any CDB, of any length that a PDU may bring
    const auto any = input.bytes(std::min<std::size_t>(input.u16(), command->cdb.size()));
    if (!any.empty()) std::memcpy(command->cdb.data(), any.data(), any.size());
    command->cdb_length = std::max<std::size_t>(any.size(), 16);
    return command;
  }
  LinkCdb cdb{};
  if (how % 4 == 0) {  // a greeting, right but for the pair
    Hello hello{.pair = {}, .process = {}, .side = engine::NodeSide::a};
    if (how & 16) input.fill(hello.pair.bytes);
    const auto greeting = encode_hello(hello);
    command->cdb_length = encode_link_cdb({LinkOpcode::hello, greeting, 0, 0}, cdb);
    command->expected_out = 0;
    command->data_out.clear();
  } else {  // a request, right but for what it says of its lengths
    const auto header = input.bytes(how >> 2);
    const auto out = command->expected_out + (how & 128 ? input.u8() : 0);
    command->cdb_length = encode_link_cdb({LinkOpcode::request, header, out, command->expected_in - 200}, cdb);
  }
  std::memcpy(command->cdb.data(), cdb.data(), cdb.size());
  return command;
}

void way_in(Input& input) {
  test::FakeClock clock;
  Mirror mirror;
  std::array<scsi::Nexus, 2> nexuses;
  std::deque<std::unique_ptr<CheckedCommand>> commands;
  {
    PartnerService service(clock, buffers(), kOurs, mirror);
    // A nexus closes when all its commands are aborted and completed.
    const auto close = [&](scsi::Nexus& nexus) {
      for (const auto& command : commands) command->is_aborted |= command->nexus == &nexus;
      for (bool moved = true; std::exchange(moved, false);) {
        for (const auto& command : commands) {
          if (command->nexus != &nexus) continue;
          command->pull_error = make_error_code(engine::Errc::aborted);
          moved |= command->answer_pull();
        }
        clock.advance(std::chrono::milliseconds(20));
      }
      for (const auto& command : commands) assert(command->nexus != &nexus || command->completions == 1);
      std::erase_if(commands, [](const auto& command) { return command->completions != 0; });
      service.on_nexus_closed(nexus);
    };
    for (auto& nexus : nexuses) service.on_nexus_opened(nexus);
    for (int n = 0; n < 64 && !input.empty(); ++n) {
      const std::uint8_t what = input.u8();
      switch (what % 6) {
        case 0:
        case 1:
          commands.push_back(next_command(input));
          commands.back()->nexus = &nexuses[what >> 7];
          service.execute(*commands.back());
          break;
        case 2:
          if (!commands.empty()) commands[(what >> 3) % commands.size()]->answer_pull();
          break;
        case 3:
          mirror.answer_one(what >> 3, input.u8(), input.u16());
          break;
        case 4:
          clock.advance(std::chrono::milliseconds(what >> 3));
          break;
        default:
          close(nexuses[what >> 7]);
          service.on_nexus_opened(nexuses[what >> 7]);
          break;
      }
    }
    for (auto& nexus : nexuses) close(nexus);
    while (!mirror.requests.empty()) mirror.answer_one(0, 8, 0);
    clock.advance(std::chrono::seconds(1));
    assert(mirror.sent == mirror.answered);
  }
  assert(buffers().in_use() == 0);
}

/// What a path of several brings: answered once, and not before its time.
struct PathRequest final : InboundRequest {
  std::vector<std::byte> bytes, data;
  std::size_t room = 0;
  int answers = 0, early = 0;
  [[nodiscard]] std::span<const std::byte> header() const override { return bytes; }
  [[nodiscard]] std::span<std::byte> payload() const override {
    return {const_cast<std::byte*>(data.data()), data.size()};
  }
  [[nodiscard]] std::size_t max_answer_payload() const override { return room; }
  void answer_early(std::span<const std::byte> header) override {
    assert(answers == 0 && early == 0 && header.size() <= kMaxLinkAnswerHeader);
    ++early;
  }
  void answer(std::span<const std::byte> header, std::span<const std::byte> payload, engine::Callback<> sent) override {
    assert(answers == 0 && header.size() <= kMaxLinkAnswerHeader && payload.size() <= room);
    ++answers;
    when_sent = std::move(sent);
  }
  engine::Callback<> when_sent;
};

std::vector<std::byte> next_frame(Input& input) {
  const std::uint8_t how = input.u8();
  std::vector<std::byte> header;
  const auto put = [&](auto bytes) { header.assign(bytes.begin(), bytes.end()); };
  if (how % 8 == 7) {
    put(input.bytes(input.u8()));
  } else if (how % 8 == 6) {
    JoinFrame join{1u + input.u8() % 4, {}, {}};
    join.process.bytes[0] = static_cast<std::uint8_t>(1 + (how >> 3) % 3);
    if (how & 128) join.partner.bytes[0] = 9;
    put(encode_join(join));
  } else {
    const std::uint64_t number = how & 64 ? input.u32() : input.u8(),
                        acknowledged = how & 32 ? input.u32() : input.u8();
    const FrameKind kinds[] = {FrameKind::numbered, FrameKind::numbered, FrameKind::ahead, FrameKind::probe};
    put(encode_request_frame({kinds[how % 4], {number}, {acknowledged}}));
    header.resize(header.size() + how % 8, std::byte{5});
  }
  header.resize(std::min(header.size(), kMaxLinkHeader));
  return header;
}

/// The way in over several paths takes any frames in any order by any path.
void frames_in(Input& input) {
  test::FakeClock clock;
  Mirror mirror;
  std::deque<PathRequest> requests;
  engine::Uuid ours;
  ours.bytes[0] = 9;
  PathsService service(clock, ours, mirror);
  for (std::uint8_t p = 0; p < 4; ++p) service.on_path_up(PathSlot{p});
  for (int n = 0; n < 200 && !input.empty(); ++n) {
    const std::uint8_t what = input.u8();
    const PathSlot path{static_cast<std::uint8_t>(what >> 6)};
    if (what % 8 < 4) {
      requests.emplace_back();
      requests.back().bytes = next_frame(input);
      requests.back().room = what & 32 ? 64 : 0;
      service.on_request(path, requests.back());
    } else if (what % 8 == 4) {
      mirror.answer_one(what >> 3, 8, what & 8 ? 16 : 0);
    } else if (what % 8 == 5) {
      if (!mirror.requests.empty()) mirror.answer_early(what >> 3);
    } else if (what % 8 == 6) {
      clock.advance(std::chrono::milliseconds(what));
    } else {
      service.on_path_down(path);
      service.on_path_up(path);
    }
    for (PathRequest& r : requests) {
      if (r.when_sent && what & 16) std::exchange(r.when_sent, {})();
    }
  }
  for (std::uint8_t p = 0; p < 4; ++p) service.on_path_down(PathSlot{p});
  clock.advance(std::chrono::seconds(1));
  while (!mirror.requests.empty()) mirror.answer_one(0, 8, 0);
  for (PathRequest& r : requests) {
    if (r.when_sent) std::exchange(r.when_sent, {})();
  }
  clock.advance(std::chrono::seconds(1));
  assert(mirror.sent == mirror.answered);
  for (const PathRequest& r : requests) assert(r.answers == 1);
}

}  // namespace

// Input: a byte that says which, then a frame, or commands and what the mirror does, or what several paths bring.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::uint8_t which = input.u8();
  if (which & 128) {
    frames_in(input);
  } else if (which & 1) {
    const auto frame = input.bytes(size);
    formats(frame);
    several_paths(frame);
  } else {
    way_in(input);
  }
  return 0;
}
