#include "replication/link/partner_service.hpp"

#include <array>
#include <cassert>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/scsi/sense.hpp"
#include "replication/core/messages.hpp"
#include "replication/link/channel/channel_frames.hpp"

namespace lockstep::replication {

namespace {

// How often sessions that died are looked for while commands of theirs are out.
constexpr engine::Duration kSweep = std::chrono::milliseconds(10);
// Bytes of a heartbeat that are kept beside its request: the reserve may be full of data that a disk does not take.
constexpr std::size_t kMaxOwn = std::size_t{64} << 10;

std::span<const std::byte> cdb_of(const scsi::Command& command) {
  return std::as_bytes(std::span(command.cdb)).first(command.cdb_length);
}

}  // namespace

struct PartnerService::Impl : std::enable_shared_from_this<Impl> {
  // One command on its way: pulled, delivered in order, answered. It outlives its command when the session dies first.
  struct Request final : InboundRequest {
    enum class Stage : std::uint8_t { free, no_buffer, pulling, pulled, delivered, answering };

    Impl* service = nullptr;
    scsi::Command* command = nullptr;  ///< null: the session is gone
    std::uint64_t session = 0;
    Stage stage = Stage::free;
    std::array<std::byte, kMaxLinkHeader> header_bytes;
    std::size_t header_size = 0;
    std::size_t payload_size = 0;
    std::size_t answer_room = 0;
    std::optional<std::uint32_t> crc;  ///< of a path without digests of its own
    std::span<std::byte> place;        ///< of the payload
    engine::Buffer buffer;
    bool goes_ahead = false;       ///< a heartbeat: delivered as soon as it is there
    std::vector<std::byte> own;    ///< its payload, instead of a buffer
    engine::Callback<> when_sent;  ///< while answering
    Request* prev = nullptr;
    Request* next = nullptr;

    [[nodiscard]] std::span<const std::byte> header() const override {
      return std::span(header_bytes).first(header_size);
    }
    [[nodiscard]] std::span<std::byte> payload() const override { return place; }
    [[nodiscard]] std::size_t max_answer_payload() const override { return answer_room; }
    void answer(std::span<const std::byte> header, std::span<const std::byte> payload,
                engine::Callback<> sent) override {
      service->answer(*this, header, payload, std::move(sent));
    }
    void answer_early(std::span<const std::byte> header) override { service->answer_early(*this, header); }
  };

  Impl(engine::Clock& c, engine::BufferPool& b, Hello hello, LinkEvents& e)
      : clock(c), buffers(b), ours(hello), events(&e) {}

  engine::Clock& clock;
  engine::BufferPool& buffers;
  Hello ours;
  LinkEvents* events;  ///< null after stop()
  engine::Callback<const std::string&> tell_refused;
  std::uint64_t sessions = 0;  ///< numbers given so far
  std::uint64_t current = 0;   ///< the session that was greeted and is alive, 0: none
  scsi::Nexus* current_nexus = nullptr;
  std::vector<std::unique_ptr<Request>> pool;
  Request* free_requests = nullptr;
  Request* first = nullptr;  ///< all requests in order of arrival, until answered
  Request* last = nullptr;
  Request* undelivered = nullptr;  ///< the first of them that the mirror has not seen
  Request* waiting = nullptr;      ///< the first of them that needs a buffer and has none
  std::vector<Request*> ahead;     ///< those that go ahead and are to be delivered now
  bool delivering = false;
  engine::TimerId sweep_timer = engine::TimerId::none;
  bool sweeps_soon = false;  ///< at once, not when its time has come
  // Answers that have no payload left to send call back later, never from inside answer().
  std::vector<engine::Callback<>> to_release;
  engine::TimerId release_timer = engine::TimerId::none;

  // ---- requests ----

  Request& make(scsi::Command& command) {
    Request* request = free_requests;
    if (request) {
      free_requests = request->next;
    } else {
      pool.push_back(std::make_unique<Request>());
      request = pool.back().get();
      request->service = this;
    }
    request->command = &command;
    request->session = current;
    request->goes_ahead = false;
    request->prev = last;
    request->next = nullptr;
    (last ? last->next : first) = request;
    last = request;
    if (!undelivered) undelivered = request;
    return *request;
  }

  static Request* next_undelivered(Request* from) {
    while (from && from->stage >= Request::Stage::delivered) from = from->next;
    return from;
  }

  void drop(Request& request) {
    if (undelivered == &request) undelivered = next_undelivered(request.next);
    if (request.goes_ahead) std::erase(ahead, &request);
    if (waiting == &request) waiting = next_without_buffer(request.next);
    const bool gives_back = static_cast<bool>(request.buffer);
    (request.prev ? request.prev->next : first) = request.next;
    (request.next ? request.next->prev : last) = request.prev;
    request.buffer.reset();
    request.place = {};
    request.command = nullptr;
    request.stage = Request::Stage::free;
    request.next = free_requests;
    free_requests = &request;
    if (gives_back && waiting) sweep_now();
  }

  void execute(scsi::Command& command) {
    const auto decoded = decode_link_cdb(cdb_of(command));
    if (!decoded) return reject(command);
    if (decoded->opcode == LinkOpcode::hello) return greet(command, *decoded);
    const bool fits =
        decoded->payload_out == command.expected_out &&
        (decoded->crc ? sizeof(AnswerPrefix) : kAnswerPayloadOffset) + decoded->payload_in <= command.expected_in;
    if (!current || command.nexus != current_nexus || !fits || !events) return reject(command);
    Request& request = make(command);
    std::memcpy(request.header_bytes.data(), decoded->header.data(), decoded->header.size());
    request.header_size = decoded->header.size();
    request.payload_size = decoded->payload_out;
    request.answer_room = decoded->payload_in;
    request.crc = decoded->crc;
    const bool asks = is_heartbeat(request.header()) || frame_goes_ahead(request.header());
    request.goes_ahead = decoded->payload_out <= kMaxOwn && asks;
    find_place(request);
    sweep_later();
    deliver();
  }

  // ---- buffers: in order, so that what is delivered first is never short of what later requests hold ----

  void find_place(Request& request) {
    if (request.payload_size == 0) return is_there(request);
    // Over RDMA it has come where it can stay.
    if (request.crc) request.buffer = request.command->take(request.payload_size);
    if (request.buffer) {
      request.place = request.buffer.span();
      is_there(request);
    } else if (request.goes_ahead) {
      request.own.resize(request.payload_size);
      start_pull(request, request.own);
    } else {
      request.stage = Request::Stage::no_buffer;
      if (!waiting) waiting = &request;
      serve_waiting();
    }
  }

  void serve_waiting() {
    while (waiting) {
      Request& request = *waiting;
      request.buffer = buffers.allocate(request.payload_size);
      if (!request.buffer) return;  // again when one is given back; by the sweep, when somebody else gave it back
      waiting = next_without_buffer(request.next);
      start_pull(request, request.buffer.span());
    }
  }

  static Request* next_without_buffer(Request* from) {
    while (from && from->stage != Request::Stage::no_buffer) from = from->next;
    return from;
  }

  void start_pull(Request& request, std::span<std::byte> place) {
    request.place = place;
    request.stage = Request::Stage::pulling;
    request.command->pull(
        place, [self = shared_from_this(), &request](std::error_code error) { self->pulled(request, error); });
  }

  void pulled(Request& request, std::error_code error) {
    if (error) {
      abandon(request);
    } else {
      is_there(request);
    }
    deliver();
  }

  void is_there(Request& request) {
    if (request.crc && seal_of(request) != *request.crc) return damaged(request);
    request.stage = Request::Stage::pulled;
    if (request.goes_ahead) ahead.push_back(&request);
  }

  [[nodiscard]] static std::uint32_t seal_of(const Request& request) {
    return replication::seal_of({LinkOpcode::request,
                                 request.header(),
                                 static_cast<std::uint32_t>(request.payload_size),
                                 static_cast<std::uint32_t>(request.answer_room),
                                 {}},
                                request.place);
  }

  // The partner ends its session for that, and sends all of it again by another path.
  void damaged(Request& request) {
    if (tell_refused) tell_refused("A request of the partner's came damaged over RDMA: its path is given up.");
    scsi::Command& command = *std::exchange(request.command, nullptr);
    drop(request);
    reject(command);
  }

  // In order: what came first is handed over first, whatever was pulled first. A heartbeat waits for nothing that other
  // requests wait for.
  void deliver() {
    if (delivering) return;
    delivering = true;
    while (Request* request = next_to_deliver()) {
      request->stage = Request::Stage::delivered;
      if (request == undelivered) undelivered = next_undelivered(request->next);
      events->on_request(request->session, *request);
    }
    delivering = false;
  }

  Request* next_to_deliver() {
    if (!events) return nullptr;
    if (!ahead.empty()) {
      Request* const request = ahead.front();
      ahead.erase(ahead.begin());
      return request;
    }
    return undelivered && undelivered->stage == Request::Stage::pulled ? undelivered : nullptr;
  }

  void answer(Request& request, std::span<const std::byte> header, std::span<const std::byte> payload,
              engine::Callback<> sent) {
    assert(request.stage == Request::Stage::delivered);
    assert(payload.size() <= request.answer_room);
    scsi::Command* command = request.command;
    if (!command) {
      drop(request);
      return release_later(std::move(sent));
    }
    AnswerPrefix prefix;
    const bool sealed = request.crc.has_value();
    const std::size_t prefix_size = sealed ? encode_sealed_answer(header, payload, *request.crc, prefix)
                                           : encode_answer(header, payload.size(), prefix);
    command->wanted_out = command->expected_out;
    command->wanted_in = prefix_size + payload.size();
    command->is_control = !moves_blocks(header_behind_frame(request.header()));
    if (payload.empty()) {
      drop(request);
      complete(*command, std::span(prefix).first(prefix_size), sealed);
      return release_later(std::move(sent));
    }
    // The partner's own data may be what `payload` points at: the request stays until the answer is out.
    request.stage = Request::Stage::answering;
    request.command = nullptr;
    request.when_sent = std::move(sent);
    command->data_prefix = std::span(prefix).first(prefix_size);
    command->data_released = [&request] { request.service->released(request); };
    command->complete(payload);
  }

  // The request stays with the mirror as one whose session is gone.
  void answer_early(Request& request, std::span<const std::byte> header) {
    assert(request.stage == Request::Stage::delivered);
    scsi::Command* command = std::exchange(request.command, nullptr);
    if (!command) return;
    AnswerPrefix prefix;
    const bool sealed = request.crc.has_value();
    const std::size_t size =
        sealed ? encode_sealed_answer(header, {}, *request.crc, prefix) : encode_answer(header, 0, prefix);
    command->wanted_out = command->expected_out;
    command->wanted_in = size;
    complete(*command, std::span(prefix).first(size), sealed);
  }

  // An answer without payload. Over RDMA it goes with the status, and so it has to be a prefix.
  static void complete(scsi::Command& command, std::span<const std::byte> answer, bool sealed) {
    if (!sealed) return command.complete(answer);
    command.data_prefix = answer;
    command.complete();
  }

  void released(Request& request) {
    auto sent = std::move(request.when_sent);
    drop(request);
    release_later(std::move(sent));
  }

  void release_later(engine::Callback<> sent) {
    if (!sent) return;
    to_release.push_back(std::move(sent));
    if (release_timer != engine::TimerId::none) return;
    release_timer = clock.call_after(engine::Duration{0}, [self = shared_from_this()] {
      self->release_timer = engine::TimerId::none;
      for (auto& one : std::exchange(self->to_release, {})) one();
    });
  }

  // ---- the end of sessions ----

  // The session is gone or does not want the answer any more: the command is ended at once, so that the session can be
  // drained and the next one let in; the request stays with the mirror until it answers into the void.
  void abandon(Request& request) {
    scsi::Command* command = std::exchange(request.command, nullptr);
    if (request.stage != Request::Stage::delivered) drop(request);
    if (command) command->complete();
  }

  void sweep_later() {
    if (sweep_timer != engine::TimerId::none || !first) return;
    sweep_timer = clock.call_after(kSweep, [self = shared_from_this()] {
      self->sweep_timer = engine::TimerId::none;
      self->sweep();
    });
  }

  // A buffer came back. Later all the same: it comes back in the midst of whatever a session does with its commands.
  void sweep_now() {
    if (sweeps_soon) return;
    sweeps_soon = true;
    clock.cancel(sweep_timer);
    sweep_timer = clock.call_after(engine::Duration{0}, [self = shared_from_this()] {
      self->sweep_timer = engine::TimerId::none;
      self->sweep();
    });
  }

  void sweep() {
    sweeps_soon = false;
    for (Request* request = first; request;) {
      Request* const after = request->next;
      // A pull that is under way ends with an error of its own.
      if (request->command && request->stage != Request::Stage::pulling && request->command->aborted())
        abandon(*request);
      request = after;
    }
    serve_waiting();
    deliver();
    sweep_later();
  }

  void nexus_closed(scsi::Nexus& nexus) {
    if (&nexus != current_nexus) return;
    current_nexus = nullptr;
    const std::uint64_t gone = std::exchange(current, 0);
    if (events) events->on_inbound_down(gone);
  }

  // ---- greeting ----

  void greet(scsi::Command& command, const LinkCommand& decoded) {
    const auto hello = decode_hello(decoded.header);
    const bool whole = !decoded.crc || replication::seal_of(decoded, {}) == *decoded.crc;
    const std::size_t room = decoded.crc ? sizeof(AnswerPrefix) : kAnswerPayloadOffset;
    if (!hello || !whole || command.expected_out != 0 || command.expected_in < room) return reject(command);
    HelloAnswer verdict = judge_hello(*hello, ours);
    if (verdict.verdict == HelloVerdict::welcome && (current_nexus || !events)) {
      verdict.verdict = HelloVerdict::busy;
      verdict.message = events ? "Another session of the partner's is in; it ends first." : "The node is stopping.";
    }
    if (verdict.verdict == HelloVerdict::welcome) {
      current = ++sessions;
      current_nexus = command.nexus;
    } else if (tell_refused) {
      tell_refused("The partner's session was refused: " + verdict.message);
    }
    const std::uint64_t opened = verdict.verdict == HelloVerdict::welcome ? current : 0;
    std::array<std::byte, kMaxLinkAnswerHeader> header;
    AnswerPrefix prefix;
    const bool sealed = decoded.crc.has_value();
    const auto words = std::span<const std::byte>(header).first(encode_hello_answer(verdict, header));
    const std::size_t size =
        sealed ? encode_sealed_answer(words, {}, *decoded.crc, prefix) : encode_answer(words, 0, prefix);
    command.wanted_in = size;
    complete(command, std::span(prefix).first(size), sealed);
    if (opened && events) events->on_inbound_up(opened);
  }

  static void reject(scsi::Command& command) {
    const scsi::Sense sense{scsi::SenseKey::illegal_request, scsi::asc::kInvalidFieldInCdb};
    command.status = scsi::Status::check_condition;
    command.sense_length = scsi::build_sense(sense, scsi::SenseFormat::fixed, command.sense);
    command.complete();
  }
};

PartnerService::PartnerService(engine::Clock& clock, engine::BufferPool& buffers, Hello ours, LinkEvents& events)
    : impl_(std::make_shared<Impl>(clock, buffers, ours, events)) {}

PartnerService::~PartnerService() {
  stop();
  impl_->clock.cancel(impl_->release_timer);  // whom it would tell is gone, too
}

bool PartnerService::starves() const { return impl_->waiting != nullptr; }

void PartnerService::on_refused(engine::Callback<const std::string&> handler) {
  impl_->tell_refused = std::move(handler);
}

void PartnerService::stop() {
  impl_->events = nullptr;
  impl_->clock.cancel(std::exchange(impl_->sweep_timer, engine::TimerId::none));
  impl_->sweeps_soon = false;
}

void PartnerService::on_nexus_opened(scsi::Nexus&) {}
void PartnerService::on_nexus_closed(scsi::Nexus& nexus) { impl_->nexus_closed(nexus); }
void PartnerService::execute(scsi::Command& command) { impl_->execute(command); }
bool PartnerService::task_management(scsi::Nexus&, scsi::TaskManagement, std::uint64_t) { return true; }

}  // namespace lockstep::replication
