#pragma once
// Either end of a link session over several paths, alone: the test plays the partner, and says what it likes.
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "replication/core/messages.hpp"
#include "replication/link/paths_link.hpp"
#include "replication/link/paths_service.hpp"
#include "tests/unit/iscsi_session/fake_stream.hpp"

namespace lockstep::replication::test {

inline engine::Uuid process(std::uint8_t n) {
  engine::Uuid id;
  id.bytes[0] = n;
  return id;
}
const engine::Uuid kOurs = process(200);
constexpr PathSlot slot(std::size_t n) { return static_cast<PathSlot>(n); }

inline std::vector<std::byte> bytes(std::span<const std::byte> b) { return {b.begin(), b.end()}; }

inline std::vector<std::byte> plain_frame(MessageType type) {
  Message m;
  m.type = type;
  return bytes(encode(m));
}

inline std::vector<std::byte> framed(const RequestFrame& request) {
  auto frame = bytes(encode_request_frame(request));
  Message m;
  m.type = request.kind == FrameKind::ahead ? MessageType::heartbeat : MessageType::copy;
  m.number = request.number.value;
  const auto header = encode(m);
  frame.insert(frame.end(), header.begin(), header.end());
  return frame;
}
inline std::vector<std::byte> numbered(std::uint64_t number, std::uint64_t acknowledged = 0) {
  return framed({FrameKind::numbered, {number}, {acknowledged}});
}
inline std::vector<std::byte> probe(std::uint64_t acknowledged) {
  return bytes(encode_request_frame({FrameKind::probe, {}, {acknowledged}}));
}

// ---- the way in ----

class Copy final : public InboundRequest {
 public:
  Copy(std::vector<std::byte> header, std::size_t room = 0) : header_(std::move(header)), room_(room) {}
  [[nodiscard]] std::span<const std::byte> header() const override { return header_; }
  [[nodiscard]] std::span<std::byte> payload() const override { return {}; }
  [[nodiscard]] std::size_t max_answer_payload() const override { return room_; }
  void answer(std::span<const std::byte> header, std::span<const std::byte> payload, engine::Callback<> sent) override {
    EXPECT_FALSE(answered);
    EXPECT_LE(payload.size(), room_) << "which PartnerService::answer() asserts";
    answered = true;
    if (!early) said = bytes(header);
    on_its_way = std::move(sent);
    if (!slow && on_its_way) std::exchange(on_its_way, nullptr)();
  }
  void answer_early(std::span<const std::byte> header) override {
    early = true;
    said = bytes(header);
  }
  [[nodiscard]] AnswerKind kind() const {
    const auto frame = decode_answer_frame(said);
    EXPECT_TRUE(frame);
    return frame->kind;
  }
  bool answered = false, early = false;
  bool slow = false;              ///< the answer's payload is on its way
  engine::Callback<> on_its_way;  ///< … until this is called
  std::vector<std::byte> said;

 private:
  std::vector<std::byte> header_;
  std::size_t room_;
};

struct Mirror final : LinkEvents {
  void on_link_up() override { ++ups; }
  void on_link_down() override { ++downs; }
  void on_inbound_up(std::uint64_t session) override {
    EXPECT_EQ(alive, 0u) << "only one session is alive at a time";
    alive = session;
  }
  void on_inbound_down(std::uint64_t session) override {
    EXPECT_EQ(session, alive);
    alive = 0;
    if (gives_up) {
      for (auto* request : std::exchange(held, {})) request->answer({}, {}, {});
    }
  }
  void on_request(std::uint64_t, InboundRequest& request) override { held.push_back(&request); }
  void on_set_back() override { ++set_backs; }
  void on_partner_set_back(const engine::Uuid& process) override { set_back_partner = process; }
  unsigned set_backs = 0;
  engine::Uuid set_back_partner;
  unsigned ups = 0, downs = 0;
  std::uint64_t alive = 0;
  bool gives_up = false;  ///< answers what it has when it hears that the session is over
  std::vector<InboundRequest*> held;
};

constexpr std::size_t kMiB = std::size_t{1} << 20;

struct WayIn : testing::Test {
  JoinVerdict join(std::size_t path, const JoinFrame& frame) {
    auto& request = *copies.emplace_back(std::make_unique<Copy>(bytes(encode_join(frame))));
    service.on_request(slot(path), request);
    const auto answer = decode_join_answer(request.said);
    EXPECT_TRUE(answer);
    return answer->verdict;
  }
  /// Session 1 of process 1, with that many paths.
  void begin(std::size_t paths) {
    for (std::size_t path = 0; path < paths; ++path) {
      service.on_path_up(slot(path));
      ASSERT_EQ(join(path, {1, process(1), path == 0 ? engine::Uuid{} : kOurs}), JoinVerdict::welcome);
    }
  }
  Copy& send(std::size_t path, std::vector<std::byte> header, std::size_t room = 0) {
    auto& request = *copies.emplace_back(std::make_unique<Copy>(std::move(header), room));
    service.on_request(slot(path), request);
    return request;
  }
  /// What no sender says.
  Copy& send_nonsense(std::size_t path) { return send(path, numbered(kNumberedWindow + 1)); }
  /// The mirror answers the first request with 1 MiB.
  void answer_at_length() {
    mirror.held[0]->answer({}, long_answer, [this] { sent = true; });
  }
  lockstep::test::FakeClock clock;
  Mirror mirror;
  std::vector<std::unique_ptr<Copy>> copies;
  const std::vector<std::byte> long_answer = std::vector<std::byte>(kMiB);
  bool sent = false;  ///< nobody reads it any more
  PathsService service{clock, kOurs, mirror};
};

// ---- the way out ----

class Path final : public Link {
 public:
  struct Sent {
    std::vector<std::byte> header;
    std::span<const std::byte> out;
    std::span<std::byte> in;
    engine::Callback<engine::IoResult<LinkAnswer>> done;
    [[nodiscard]] RequestFrame frame() const { return decode_request_frame(header).value_or(RequestFrame{}); }
  };
  [[nodiscard]] bool is_up() const override { return up; }
  [[nodiscard]] std::uint16_t version() const override { return speaks; }
  void send(std::span<const std::byte> header, std::span<const std::byte> out, std::span<std::byte> in,
            engine::Callback<engine::IoResult<LinkAnswer>> done) override {
    sent.push_back({bytes(header), out, in, std::move(done)});
  }
  void reset() override { ++resets; }
  [[nodiscard]] bool wants_renewal() const override { return renewal; }
  void answer_first(std::span<const std::byte> header) {
    Sent first = std::move(sent.front());
    sent.pop_front();
    first.done(LinkAnswer{header, first.in.size()});
  }
  void answer_first(const AnswerFrame& frame) { answer_first(encode_answer_frame(frame)); }
  void answer_first(const JoinAnswer& answer) {
    std::array<std::byte, kMaxLinkAnswerHeader> into;
    const std::size_t size = encode_join_answer(answer, into);
    answer_first(std::span(into).first(size));
  }
  /// Of the proof that is under way, if there is one.
  void answer_proof(AnswerKind with = AnswerKind::alive) { end_proof(LinkAnswer{encode_answer_frame({with, {}}), 0}); }
  void end_proof(const engine::IoResult<LinkAnswer>& result) { end_first(FrameKind::measure, result); }
  /// Of the question that is under way, if there is one.
  void answer_probe() { end_first(FrameKind::probe, LinkAnswer{encode_answer_frame({AnswerKind::alive, {}}), 0}); }
  void end_first(FrameKind kind, const engine::IoResult<LinkAnswer>& result) {
    const auto first = std::ranges::find_if(sent, [kind](const Sent& one) { return one.frame().kind == kind; });
    if (first == sent.end()) return;
    auto done = std::move(first->done);
    sent.erase(first);
    done(result);
  }
  /// Without a word of the path itself.
  void fail_first() {
    Sent first = std::move(sent.front());
    sent.pop_front();
    first.done(std::unexpected(make_error_code(engine::Errc::unknown_outcome)));
  }
  [[nodiscard]] std::size_t count(FrameKind kind) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(sent, [kind](const Sent& one) { return one.frame().kind == kind; }));
  }
  bool up = false, renewal = false;
  std::uint16_t speaks = kSeveralPaths;
  unsigned resets = 0;
  std::deque<Sent> sent;
};

struct WayOut : testing::Test {
  void start(std::size_t count) {
    std::vector<PathOut> out;
    for (std::size_t i = 0; i < count; ++i) {
      paths.push_back(std::make_unique<Path>());
      out.push_back({*paths.back(), rank_of(PathTransport::tcp, 0, 0)});
    }
    link = std::make_unique<PathsLink>(clock, process(1), std::move(out));
    link->start(mirror);
  }
  void come_up(std::size_t path) {
    paths[path]->up = true;
    link->on_path_up(slot(path));
  }
  void join(std::size_t path) {
    come_up(path);
    paths[path]->answer_first(JoinAnswer{JoinVerdict::welcome, kOurs, {}});
  }
  /// Path 0, within the session's time.
  void come_up_again_and_hear(JoinVerdict verdict) {
    lose(0);
    come_up(0);
    paths[0]->answer_first(JoinAnswer{verdict, kOurs, {}});
  }
  void start_and_join(std::size_t count) {
    start(count);
    for (std::size_t path = 0; path < count; ++path) join(path);
  }
  void lose(std::size_t path) {
    for (auto& one : std::exchange(paths[path]->sent, {})) {
      one.done(std::unexpected(make_error_code(engine::Errc::unknown_outcome)));
    }
    paths[path]->up = false;
    link->on_path_down(slot(path));
  }
  void send(std::span<std::byte> in = {}, MessageType type = MessageType::copy) {
    link->send(plain_frame(type), {}, in, [this](const auto& result) { ++(result ? done : failed); });
  }
  void pass(engine::Duration time) {
    for (engine::Duration gone{0}; gone < time; gone += std::chrono::milliseconds(5)) {
      clock.advance(std::chrono::milliseconds(5));
    }
  }
  /// Each path says that it is alive.
  void pass_and_hear(engine::Duration time) {
    for (engine::Duration gone{0}; gone < time; gone += std::chrono::milliseconds(25)) {
      pass(std::chrono::milliseconds(25));
      for (auto& path : paths) path->answer_probe();
    }
  }
  lockstep::test::FakeClock clock;
  Mirror mirror;
  std::vector<std::unique_ptr<Path>> paths;
  std::unique_ptr<PathsLink> link;
  unsigned done = 0, failed = 0;
};

}  // namespace lockstep::replication::test
