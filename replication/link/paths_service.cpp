#include "replication/link/paths_service.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "engine/base/copy_bytes.hpp"
#include "replication/core/marks.hpp"
#include "replication/link/channel/channel_receiver.hpp"

namespace lockstep::replication {

using engine::Callback;
using engine::Duration;
using engine::TimerId;

struct PathsService::Impl {
  struct Copy {
    InboundRequest* request;
    PathSlot path;
  };
  /// One request of the partner's, from its first copy until it is answered, acknowledged, and no path reads its
  /// answer.
  struct Request final : InboundRequest {
    Impl* service = nullptr;
    RequestHandle handle{};
    std::uint64_t session = 0;  ///< whose it is
    FrameKind kind{};
    RequestNumber number;
    std::array<std::byte, kMaxLinkHeader> header_bytes;
    std::size_t header_size = 0;
    InboundRequest* first = nullptr;  ///< the copy whose payload the mirror reads; null: answered for good
    PathSlot first_path{};
    std::size_t answer_room = 0;
    std::vector<Copy> others;  ///< that wait for the answer
    std::array<std::byte, kMaxLinkAnswerHeader> answer_bytes;
    std::size_t answer_size = 0;
    std::span<const std::byte> answer_payload;
    Callback<> sent;
    unsigned sending = 0;   ///< copies whose answer is on its way out
    bool answered = false;  ///< perhaps early,
    bool finished = false;  ///< … and by answer()
    bool released = false;  ///< the answer needs not be kept
    bool delivered = false;

    [[nodiscard]] std::span<const std::byte> header() const override {
      return std::span(header_bytes).first(header_size).subspan(kRequestFrame);
    }
    [[nodiscard]] std::span<std::byte> payload() const override { return first->payload(); }
    [[nodiscard]] std::size_t max_answer_payload() const override { return first->max_answer_payload(); }
    void answer_early(std::span<const std::byte> header) override { service->answer_early(*this, header); }
    void answer(std::span<const std::byte> header, std::span<const std::byte> payload, Callback<> when_sent) override {
      service->answer(*this, header, payload, std::move(when_sent));
    }
  };
  struct Session {
    Session(std::uint64_t number, const engine::Uuid& partner, std::optional<KnownSession> known_before)
        : id(number), sender(partner), before(std::move(known_before)) {}
    std::uint64_t id;     ///< for the mirror
    engine::Uuid sender;  ///< the partner's process
    /// What was known of another process: its join may be what a process that is gone had left in a socket, until it
    /// sends what only one that heard the answer sends.
    std::optional<KnownSession> before;
    ChannelReceiver ahead{kAheadWindow};
    ChannelReceiver numbered{kNumberedWindow};
  };

  Impl(engine::Clock& c, const engine::Uuid& own, LinkEvents& m, std::vector<PathAddress> a)
      : clock(c), process(own), mirror(m), addresses(std::move(a)) {}

  engine::Clock& clock;
  engine::Uuid process;
  LinkEvents& mirror;
  std::vector<PathAddress> addresses;
  std::optional<Session> session;
  KnownSession known;
  std::uint64_t sessions = 0;                     ///< ids given so far
  std::optional<PathSlot> plain;                  ///< the path of a partner that knows no numbers,
  std::uint64_t plain_id = 0;                     ///< … and its session
  PathSet overtaken;                              ///< plain paths whose session another one has ended
  std::array<std::uint64_t, kMaxPaths> joined{};  ///< which session each path belongs to, 0: none
  std::vector<std::unique_ptr<Request>> pool;
  std::vector<RequestHandle> free_requests;
  std::vector<Callback<>> to_release;
  TimerId without_path = TimerId::none, release_timer = TimerId::none, stall_timer = TimerId::none;
  std::move_only_function<bool()> starves;
  std::size_t bytes_kept = 0;  ///< of answers
  std::string problem;
  unsigned faults = 0;

  // ---- paths and sessions ----

  void on_path_up(PathSlot path) {
    joined[index_of(path)] = 0;
    overtaken.remove(path);
  }

  void on_path_down(PathSlot path) {
    if (plain == path) return end_plain();
    const std::uint64_t was = std::exchange(joined[index_of(path)], 0);
    drop_copies_by(path);
    if (!session || was != session->id || std::ranges::find(joined, was) != joined.end()) return;
    clock.cancel(without_path);
    without_path = clock.call_after(kWithoutPath, [this] {
      without_path = TimerId::none;
      end_session();
    });
  }

  /// They hold buffers, and nobody hears their answer. What is with the mirror stays.
  void drop_copies_by(PathSlot path) {
    for (const auto& request : pool) {
      drop_first(*request, path);
      std::erase_if(request->others, [path](const Copy& copy) {
        if (copy.path != path) return false;
        say_over(*copy.request);
        return true;
      });
    }
  }

  /// Of a request that waits for its turn: another copy takes its place, or it has not come.
  void drop_first(Request& request, PathSlot path) {
    if (request.first == nullptr || request.first_path != path || request.delivered || !is_of_today(request)) return;
    InboundRequest& lost = *std::exchange(request.first, nullptr);
    const auto other = std::ranges::find_if(request.others, [path](const Copy& copy) { return copy.path != path; });
    if (other != request.others.end()) {
      request.first = other->request;
      request.first_path = other->path;
      request.others.erase(other);
      return say_over(lost);
    }
    mark<"paths.waiting_copy_lost">();
    receiver_of(request.kind).forget_waiting(request.number);
    request.finished = request.released = true;
    answer_nobody(request);
    say_over(lost);
    give_back_if_over(request);
  }

  void end_plain() {
    overtaken.add(*plain);
    plain.reset();
    mirror.on_inbound_down(plain_id);
  }

  void join(PathSlot path, InboundRequest& request) {
    const auto join = decode_join(request.header());
    if (!join) return refuse(request, join.error().message);
    const JoinVerdict verdict = judge(*join);
    if (verdict == JoinVerdict::welcome) {
      if (join->partner.is_nil()) {
        begin_session(*join);
      } else {
        session->before.reset();
      }
      joined[index_of(path)] = session->id;
      clock.cancel(std::exchange(without_path, TimerId::none));
    }
    std::array<std::byte, kMaxLinkAnswerHeader> answer;
    const bool welcome = verdict == JoinVerdict::welcome;
    const std::size_t size =
        encode_join_answer({verdict, process, welcome ? addresses : std::vector<PathAddress>{}}, answer);
    request.answer(std::span(answer).first(size), {}, {});
  }

  [[nodiscard]] JoinVerdict judge(const JoinFrame& join) const {
    const JoinVerdict verdict = judge_join(join, known, process);
    if (verdict != JoinVerdict::overtaken || !session || !session->before) return verdict;
    return judge_join(join, *session->before, process);
  }

  void begin_session(const JoinFrame& join) {
    end_session();
    if (plain) end_plain();
    std::optional<KnownSession> before;
    if (join.process != known.last_process && !known.last_process.is_nil()) {
      before = known;
      note_replaced(known.last_process);
    }
    known = {join, join.session, join.process, std::move(known.replaced)};
    session.emplace(++sessions, join.process, std::move(before));
    mirror.on_inbound_up(session->id);
  }

  void note_replaced(const engine::Uuid& gone) {
    if (known.replaced.size() == kMaxReplaced) known.replaced.erase(known.replaced.begin());
    known.replaced.push_back(gone);
  }

  void end_session() {
    if (!session) return;
    clock.cancel(std::exchange(without_path, TimerId::none));
    clock.cancel(std::exchange(stall_timer, TimerId::none));
    Session gone = std::move(*session);
    session.reset();
    known.current.reset();
    if (gone.before) {
      mark<"paths.join_was_late">();
      known = *std::move(gone.before);
    }
    // Before the mirror hears of it, which may then answer some of them.
    for (ChannelReceiver* receiver : {&gone.ahead, &gone.numbered}) {
      release(*receiver);  // what the request acknowledged that is the reason for this
      for (const RequestHandle handle : receiver->handles()) forget(request_of(handle));
    }
    mirror.on_inbound_down(gone.id);
  }

  /// Its session is over. What the mirror has not seen ends now; what it has not answered, when it does.
  void forget(Request& request) {
    request.released = true;
    if (!request.answered && !request.finished && !request.delivered) request.finished = true;
    if (request.finished && !request.answered) answer_nobody(request);
    give_back_if_over(request);
  }

  // ---- requests ----

  [[nodiscard]] Request& request_of(RequestHandle handle) { return *pool[static_cast<std::size_t>(handle)]; }

  void on_request(PathSlot path, InboundRequest& request) {
    if (!is_channel_frame(request.header())) return plain_request(path, request);
    if (is_join(request.header())) return join(path, request);
    if (!session || joined[index_of(path)] != session->id) return say_over(request);
    session->before.reset();
    const auto frame = decode_request_frame(request.header());
    if (!frame) return refuse(request, frame.error().message);
    if (frame->kind == FrameKind::probe) return probe(*frame, request);
    if (frame->kind == FrameKind::measure) return say_alive(request);
    take(path, *frame, request);
  }

  void plain_request(PathSlot path, InboundRequest& request) {
    if (overtaken.contains(path)) return say_over(request);  // what its sender gave up, read late
    if (plain != path) {
      end_session();
      if (plain) end_plain();
      plain = path;
      plain_id = ++sessions;
      mirror.on_inbound_up(plain_id);
    }
    mirror.on_request(plain_id, request);
  }

  void probe(const RequestFrame& frame, InboundRequest& request) {
    if (auto told = session->numbered.acknowledge(frame.acknowledged); !told) {
      return refuse(request, told.error().message);
    }
    release(session->numbered);
    say_alive(request);
  }

  static void say_alive(InboundRequest& request) {
    request.answer(encode_answer_frame({AnswerKind::alive, {}}), {}, {});
  }

  void take(PathSlot path, const RequestFrame& frame, InboundRequest& copy) {
    ChannelReceiver& receiver = receiver_of(frame.kind);
    if (free_requests.empty()) {
      free_requests.push_back(static_cast<RequestHandle>(pool.size()));
      pool.push_back(std::make_unique<Request>());
    }
    const RequestHandle handle = free_requests.back();
    if (bytes_kept > kMaxBytesKept) return refuse(copy, "The partner does not tell which answers it has.");
    const auto arrival = receiver.arrived(frame.number, frame.acknowledged, handle);
    if (!arrival) return refuse(copy, arrival.error().message);
    if (std::holds_alternative<ChannelReceiver::NewRequest>(*arrival)) {
      free_requests.pop_back();
      fill(request_of(handle), handle, frame, copy);
      request_of(handle).first_path = path;
    } else if (const auto* twin = std::get_if<ChannelReceiver::UnderWay>(&*arrival)) {
      mark<"paths.copy_under_way">();
      if (!is_alike(request_of(twin->first), copy)) return contradict(copy);
      request_of(twin->first).others.push_back({&copy, path});
    } else if (const auto* known_answer = std::get_if<ChannelReceiver::Answered>(&*arrival)) {
      mark<"paths.answered_again">();
      if (!is_alike(request_of(known_answer->first), copy)) return contradict(copy);
      give_answer(request_of(known_answer->first), copy);
    } else {
      mark<"paths.copy_stale">();
      copy.answer(encode_answer_frame({AnswerKind::stale, {}}), {}, {});
    }
    release(receiver);
    deliver(frame.kind);
    watch_for_stall();
  }

  /// Copies are the same bytes, but for what the frame before them acknowledges.
  [[nodiscard]] static bool is_alike(const Request& request, const InboundRequest& copy) {
    return copy.max_answer_payload() == request.answer_room &&
           std::ranges::equal(header_behind_frame(copy.header()), request.header());
  }
  /// A number of the session was used twice: by a process whose machine was set back with its memory, and that has come
  /// back by another path. What either asked for is not answered to the other; and no session of that process is let in
  /// any more, by which it learns of it.
  void contradict(InboundRequest& copy) {
    mark<"paths.partner_was_set_back">();
    const engine::Uuid sender = session->sender;
    note_replaced(sender);
    refuse(copy, "Two copies of a request of the partner's are not alike: its machine was set back with its memory.");
    mirror.on_partner_set_back(sender);
  }

  /// What has come by other paths waits for a number whose request may find no buffer left, for ever.
  void watch_for_stall() {
    if (!session || !starves || stall_timer != TimerId::none || !session->numbered.has_gap()) return;
    stall_timer = clock.call_after(kStarved, [this, delivered = session->numbered.delivered()] {
      stall_timer = TimerId::none;
      if (!session->numbered.has_gap() || session->numbered.delivered() != delivered || !starves()) {
        return watch_for_stall();
      }
      mark<"paths.starved">();
      problem = "What the partner sent waits for a request for which no buffer was left.";
      end_session();
    });
  }

  [[nodiscard]] ChannelReceiver& receiver_of(FrameKind kind) {
    return kind == FrameKind::ahead ? session->ahead : session->numbered;
  }

  void fill(Request& request, RequestHandle handle, const RequestFrame& frame, InboundRequest& copy) {
    request.service = this;
    request.handle = handle;
    request.session = session->id;
    request.kind = frame.kind;
    request.number = frame.number;
    const auto header = copy.header();
    std::memcpy(request.header_bytes.data(), header.data(), header.size());
    request.header_size = header.size();
    request.first = &copy;
    request.answer_room = copy.max_answer_payload();
    request.answered = request.finished = request.released = request.delivered = false;
    assert(request.others.empty() && request.sending == 0 && !request.sent);
  }

  void deliver(FrameKind kind) {
    const std::uint64_t id = session->id;
    while (session && session->id == id) {
      const auto handle = receiver_of(kind).next_to_deliver();
      if (!handle) return;
      request_of(*handle).delivered = true;
      mirror.on_request(id, request_of(*handle));
    }
  }

  void release(ChannelReceiver& receiver) {
    while (const auto handle = receiver.next_released()) {
      Request& request = request_of(*handle);
      request.released = true;
      give_back_if_over(request);
    }
  }

  // ---- answers ----

  [[nodiscard]] bool is_of_today(const Request& request) const { return session && session->id == request.session; }

  void keep_answer(Request& request, std::span<const std::byte> header) {
    assert(header.size() + kAnswerFrame <= kMaxLinkAnswerHeader);
    const AnswerNumber number = receiver_of(request.kind).answered(request.number);
    const auto frame = encode_answer_frame({AnswerKind::answer, number});
    engine::copy_bytes(frame, request.answer_bytes);
    engine::copy_bytes(header, std::span(request.answer_bytes).subspan(frame.size()));
    request.answer_size = frame.size() + header.size();
    request.answer_payload = {};
    request.answered = true;
  }

  void answer_early(Request& request, std::span<const std::byte> header) {
    assert(!request.answered && !request.finished);
    if (!is_of_today(request)) return;
    keep_answer(request, header);
    request.first->answer_early(std::span(request.answer_bytes).first(request.answer_size));
    for (const Copy& copy : std::exchange(request.others, {})) give_answer(request, *copy.request);
  }

  void answer(Request& request, std::span<const std::byte> header, std::span<const std::byte> payload,
              Callback<> sent) {
    assert(!request.finished);
    request.finished = true;
    if (request.answered || !is_of_today(request)) {
      request.released |= !is_of_today(request);
      release_later(std::move(sent));
      answer_nobody(request);
      return give_back_if_over(request);
    }
    keep_answer(request, header);
    request.answer_payload = payload;
    bytes_kept += payload.size();
    request.sent = std::move(sent);
    give_answer(request, *std::exchange(request.first, nullptr));
    for (const Copy& copy : std::exchange(request.others, {})) give_answer(request, *copy.request);
  }

  void give_answer(Request& request, InboundRequest& copy) {
    const auto header = std::span(request.answer_bytes).first(request.answer_size);
    if (request.answer_payload.empty()) return copy.answer(header, {}, {});  // it is copied
    ++request.sending;
    copy.answer(header, request.answer_payload, [this, &request] {
      --request.sending;
      give_back_if_over(request);
    });
  }

  /// The copies of one whose answer is not wanted, or was given.
  void answer_nobody(Request& request) {
    if (request.first != nullptr) say_over(*std::exchange(request.first, nullptr));
    for (const Copy& copy : std::exchange(request.others, {})) say_over(*copy.request);
  }

  static void say_over(InboundRequest& copy) { copy.answer(encode_answer_frame({AnswerKind::over, {}}), {}, {}); }

  /// The partner said what makes no sense.
  void refuse(InboundRequest& copy, std::string why) {
    problem = std::move(why);
    ++faults;
    say_over(copy);
    end_session();
  }

  void give_back_if_over(Request& request) {
    if (!request.finished || !request.released || request.sending != 0) return;
    assert(request.first == nullptr && request.others.empty());
    request.released = false;  // it is given back once
    bytes_kept -= request.answer_payload.size();
    request.answer_payload = {};
    release_later(std::exchange(request.sent, {}));
    free_requests.push_back(request.handle);
  }

  void release_later(Callback<> sent) {
    if (!sent) return;
    to_release.push_back(std::move(sent));
    if (release_timer != TimerId::none) return;
    release_timer = clock.call_after(Duration{0}, [this] {
      release_timer = TimerId::none;
      for (auto& one : std::exchange(to_release, {})) one();
    });
  }
};

PathsService::PathsService(engine::Clock& clock, const engine::Uuid& process, LinkEvents& mirror,
                           std::vector<PathAddress> addresses)
    : impl_(std::make_unique<Impl>(clock, process, mirror, std::move(addresses))) {}

PathsService::~PathsService() {
  stop();
  impl_->clock.cancel(impl_->release_timer);
}

void PathsService::ask_for_starving(std::move_only_function<bool()> starves) { impl_->starves = std::move(starves); }

void PathsService::stop() {
  impl_->clock.cancel(std::exchange(impl_->without_path, TimerId::none));
  impl_->clock.cancel(std::exchange(impl_->stall_timer, TimerId::none));
}

void PathsService::on_path_up(PathSlot path) { impl_->on_path_up(path); }
void PathsService::on_path_down(PathSlot path) { impl_->on_path_down(path); }
void PathsService::on_request(PathSlot path, InboundRequest& request) { impl_->on_request(path, request); }
const std::string& PathsService::problem() const { return impl_->problem; }
unsigned PathsService::faults() const { return impl_->faults; }

}  // namespace lockstep::replication
