#include "replication/link/iscsi_link.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/iscsi/stream_transport.hpp"
#include "engine/net/open_stream.hpp"
#include "replication/core/messages.hpp"
#include "replication/link/channel/channel_frames.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::TimePoint;

struct IscsiLink::Impl final : LinkSessionOwner {
  enum class State : std::uint8_t { idle, waiting, connecting, logging_in, up, failing, breaking, stopped };

  Impl(engine::Reactor& r, engine::Random& random_source, IscsiLinkSettings s)
      : reactor(r), random(random_source), settings(std::move(s)), retry(settings.first_retry) {}

  engine::Reactor& reactor;
  engine::Random& random;
  IscsiLinkSettings settings;
  LinkEvents* events = nullptr;
  State state = State::idle;
  std::unique_ptr<engine::TcpConnector> connector;
  iscsi::OutPduPool pdus;
  std::unique_ptr<iscsi::PduTransport> transport;
  engine::TcpStream* tcp = nullptr;  ///< below the transport
  iser::Transport* iser = nullptr;   ///< the transport, where it is RDMA
  engine::TlsStream* tls = nullptr;  ///< between them, where it has TLS
  std::unique_ptr<LinkSession> session;
  engine::TimerId timer = engine::TimerId::none;        // of the state: retry, login
  engine::TimerId break_timer = engine::TimerId::none;  // the break that is to come
  engine::TimerId watch = engine::TimerId::none;
  engine::TimerId late_timer = engine::TimerId::none;
  engine::Duration retry;
  std::size_t turn = 0;  ///< which way is tried next
  LinkWay taken;         ///< by the session, or the last attempt
  bool at_once = false;  ///< the session is given up for another, which need not wait
  bool wants_renewal = false;
  TimePoint up_since;
  std::uint64_t heard = 0;
  TimePoint heard_at, looked_at;

  LinkTaskList waiting_tasks;
  LinkTaskList waiting_ahead;  ///< before all of these
  LinkTaskList late_tasks;     ///< that failed in send()
  LinkTaskList free_tasks;
  std::vector<std::unique_ptr<LinkTask>> pool;
  std::string problem;
  engine::Callback<const std::string&> tell_problem;
  engine::Callback<> tell_stopped;

  // ---- the connection ----

  void connect() {
    if (settings.address.empty()) {
      state = State::idle;
      return;
    }
    state = State::connecting;
    const std::size_t which = turn++ % (1 + settings.others.size());
    taken = which == 0 ? LinkWay{settings.address, settings.from} : settings.others[which - 1];
    assert(!session && !transport);
    cancel(timer);
    at_once = false;
    if (settings.rdma != nullptr) return call_over_rdma(*settings.rdma);
    connector = std::make_unique<engine::TcpConnector>(reactor, taken.from, taken.address, settings.connect_timeout,
                                                       [this](engine::Result<engine::TcpSocket> socket) {
                                                         if (socket) return log_in(std::move(*socket));
                                                         note_problem(socket.error().message);
                                                         try_again();
                                                       });
  }

  /// By the settings as they are now; no session is there.
  void connect_anew() {
    if (state != State::idle && state != State::connecting && state != State::waiting) return;
    cancel(timer);
    connector.reset();
    connect();
  }

  void log_in(engine::TcpSocket socket) {
    state = State::logging_in;
    session = std::make_unique<LinkSession>(settings.identity, random, *this);
    auto opened = engine::open_stream(reactor, std::move(socket), {settings.tls, engine::TlsRole::client});
    tcp = opened.tcp;
    tls = opened.tls;
    auto pdus_on_it = std::make_unique<iscsi::StreamTransport>(std::move(opened.stream), pdus);
    opened.start(*pdus_on_it);
    transport = std::move(pdus_on_it);
    limit_login();
    session->start(*transport);
  }

  void call_over_rdma(const LinkRdma& by) {
    auto call =
        iser::Transport::make({&by.fabric, taken.from, taken.address},
                              {.completions = by.completions,
                               .pool = by.pool,
                               .messages = by.messages,
                               .pdus = pdus,
                               .clock = reactor,
                               .figures = by.figures,
                               .domain = rdma::Domain::link,
                               .shape = kLinkCallerShape,
                               .tls = settings.tls,
                               .at_end_of_turn = [this](engine::TurnHook& hook) { reactor.at_end_of_turn(hook); }});
    if (!call) {
      note_problem("No memory is left for messages over RDMA.");
      return try_again();
    }
    state = State::logging_in;
    session = std::make_unique<LinkSession>(settings.identity, random, *this, true);
    iser = call.get();
    transport = std::move(call);
    limit_login();
    session->start(*iser);
  }

  void limit_login() {
    timer = reactor.call_after(settings.login_timeout, [this] {
      timer = engine::TimerId::none;
      fail(why_too_late());
    });
  }

  [[nodiscard]] std::string why_too_late() const {
    if (iser != nullptr && !iser->is_established()) return "Nobody answers at " + taken.address + " over RDMA.";
    if (iser != nullptr && iser->shakes_hands())
      return "The partner took the connection over RDMA and then did not prove itself in time.";
    return "The partner took the connection and then did not answer the login in time.";
  }

  void end_transport() {
    tcp = nullptr;
    tls = nullptr;
    iser = nullptr;
    transport.reset();
  }

  void try_again() {
    state = State::waiting;
    cancel(timer);
    timer = reactor.call_after(retry, [this] {
      timer = engine::TimerId::none;
      connect();
    });
    retry = std::min(retry * 2, settings.last_retry);
  }

  void on_session_ready() override {
    cancel(timer);
    state = State::up;
    turn = 0;
    problem.clear();
    wants_renewal = false;
    up_since = heard_at = looked_at = reactor.now();
    heard = session->heard();
    watch_over();
    events->on_link_up();
    pump();
  }

  void on_session_failed(const std::string& why) override {  // it stops itself
    note_problem(why);
    failing();
  }

  // ---- silence ----

  /// This program stood still: what has come meanwhile waits in its sockets, unread.
  void forgive_own_gap(TimePoint now) {
    const auto gap = now - std::exchange(looked_at, now);
    if (gap > settings.ping_after) heard_at = std::min(heard_at + gap, now);
  }

  void watch_over() {
    watch = reactor.call_after(settings.ping_after / 2, [this] {
      watch = engine::TimerId::none;
      if (state != State::up) return;
      const TimePoint now = reactor.now();
      forgive_own_gap(now);
      if (session->heard() != heard) {
        heard = session->heard();
        heard_at = now;
      } else if (now - heard_at >= settings.broken_after) {
        return fail("The partner has been silent for " +
                    std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(now - heard_at).count()) +
                    " ms.");
      } else if (now - heard_at >= settings.ping_after) {
        session->ping();
      }
      watch_keys();
      watch_over();
    });
  }

  /// Whose keys are used up is over at that moment, whatever is under way.
  void watch_keys() {
    if (wants_renewal || !tls || tls->cipher().empty()) return;
    const auto figures = tcp->figures();
    wants_renewal = figures && std::max(figures->bytes_in, figures->bytes_out) >= settings.renewal_after_bytes;
  }

  // ---- the end of a session ----
  // Its tasks are called back when nothing can touch their buffers, and never from inside whatever noticed the end.

  void fail(const std::string& why) {
    if (!session || session->stopped()) return;
    note_problem(why);
    failing();
    session->stop();
  }

  // What was not issued yet need not wait until nothing can touch the buffers of what was.
  void failing() {
    if (state != State::up) return;
    state = State::failing;
    break_timer = reactor.call_after(engine::Duration{0}, [this] {
      break_timer = engine::TimerId::none;
      end_waiting();
      if (state == State::failing) events->on_link_failing();
    });
  }

  void end_waiting() {
    while (LinkTask* task = next_waiting()) end(*task, std::unexpected(make_error_code(Errc::unknown_outcome)));
  }

  void on_session_silent() override {
    if (state == State::stopped) return iser != nullptr ? stopped_later() : void();
    cancel(break_timer);
    break_timer = reactor.call_after(engine::Duration{0}, [this] {
      break_timer = engine::TimerId::none;
      end_session();
    });
  }

  void end_session() {
    cancel(timer);
    cancel(watch);
    const bool was_up = state == State::failing;
    if (was_up && reactor.now() - up_since > settings.last_retry) retry = settings.first_retry;
    if (was_up) {
      state = State::breaking;
      LinkTaskList orphans;
      session->take_tasks(orphans);
      while (LinkTask* task = orphans.pop()) end(*task, std::unexpected(make_error_code(Errc::unknown_outcome)));
      end_late();
      // Answers to these may send anew: that ends here, too.
      end_waiting();
    }
    session.reset();
    end_transport();
    if (state == State::stopped) return;  // by one of those
    state = State::waiting;
    if (was_up) events->on_link_down();
    if (state != State::waiting) return;
    std::exchange(at_once, false) ? connect() : try_again();
  }

  void note_problem(const std::string& why) {
    const bool is_new = why != problem;
    problem = why;
    if (is_new && tell_problem) tell_problem(problem);
  }

  void cancel(engine::TimerId& which) {
    reactor.cancel(which);
    which = engine::TimerId::none;
  }

  void stop(engine::Callback<> stopped) {
    state = State::stopped;
    tell_stopped = std::move(stopped);
    cancel(timer);
    cancel(watch);
    cancel(break_timer);
    cancel(late_timer);
    connector.reset();
    const bool waits = iser != nullptr && !session->is_silent();
    if (session) session->stop();
    if (!waits) end_all();  // a stream waits for silence
  }

  void stopped_later() {
    break_timer = reactor.call_after(engine::Duration{0}, [this] {
      break_timer = engine::TimerId::none;
      end_all();
    });
  }

  void end_all() {
    end_transport();
    session.reset();
    if (tell_stopped) std::exchange(tell_stopped, nullptr)();
  }

  // ---- tasks ----

  LinkTask& make_task() {
    if (free_tasks.empty()) {
      pool.push_back(std::make_unique<LinkTask>());
      return *pool.back();
    }
    return *free_tasks.pop();
  }

  void send(std::span<const std::byte> header, std::span<const std::byte> payload_out, std::span<std::byte> payload_in,
            engine::Callback<engine::IoResult<LinkAnswer>>& done) {
    assert(header.size() <= kMaxLinkHeader && payload_out.size() <= kMaxLinkPayload &&
           payload_in.size() <= kMaxLinkPayload);
    LinkTask& task = make_task();
    std::memcpy(task.header.data(), header.data(), header.size());
    task.header_size = header.size();
    task.payload_out = payload_out;
    task.payload_in = payload_in;
    task.done = std::move(done);
    task.goes_ahead = is_heartbeat(header) || frame_goes_ahead(header);
    if (state != State::up && state != State::breaking) return end_later(task, Errc::unknown_outcome);
    LinkTaskList& line = task.goes_ahead ? waiting_ahead : waiting_tasks;
    if (line.size() >= kMaxWaiting) return end_later(task, Errc::resource_exhausted);
    line.push(task);
    pump();
  }

  void pump() {
    for (LinkTaskList* line : {&waiting_ahead, &waiting_tasks}) {
      while (state == State::up && session->ready() && !line->empty() && session->has_room(*line->front())) {
        session->issue(*line->pop());
      }
    }
  }

  LinkTask* next_waiting() { return waiting_ahead.empty() ? waiting_tasks.pop() : waiting_ahead.pop(); }

  void on_session_room() override { pump(); }

  void on_task_done(LinkTask& task, AnswerStart answer) override {
    const LinkAnswer given{std::span(task.prefix).subspan(kAnswerFixed, answer.header), answer.payload};
    end(task, given);
  }

  void end(LinkTask& task, engine::IoResult<LinkAnswer> outcome) {
    auto done = std::move(task.done);
    done(outcome);  // the answer's header lies in the task: it goes back to the pool after
    task.copy_out.reset();
    task.copy_in.reset();
    task.windows = 0;
    free_tasks.push(task);
  }

  // `done` never runs from inside send().
  void end_later(LinkTask& task, Errc code) {
    task.failure = code;
    late_tasks.push(task);
    if (late_timer != engine::TimerId::none) return;
    late_timer = reactor.call_after(engine::Duration{0}, [this] {
      late_timer = engine::TimerId::none;
      end_late();
    });
  }

  void end_late() {
    LinkTaskList late = std::exchange(late_tasks, {});
    while (LinkTask* one = late.pop()) end(*one, std::unexpected(make_error_code(one->failure)));
  }
};

IscsiLink::IscsiLink(engine::Reactor& reactor, engine::Random& random, IscsiLinkSettings settings)
    : impl_(std::make_unique<Impl>(reactor, random, std::move(settings))) {}

IscsiLink::~IscsiLink() { impl_->stop({}); }

void IscsiLink::start(LinkEvents& events) {
  assert(!impl_->events);
  impl_->events = &events;
  impl_->connect();
}

void IscsiLink::use_from_next_login(IscsiLinkSettings settings) { impl_->settings = std::move(settings); }

void IscsiLink::change(IscsiLinkSettings settings) {
  use_from_next_login(std::move(settings));
  impl_->turn = 0;
  impl_->retry = impl_->settings.first_retry;
  if (impl_->session) {
    impl_->at_once = true;
    return impl_->fail("The partner's address or credentials were changed.");
  }
  if (impl_->events) impl_->connect_anew();
}

void IscsiLink::try_at_once() {
  if (impl_->state == Impl::State::waiting && !impl_->session) impl_->connect_anew();
}

void IscsiLink::stop(engine::Callback<> stopped) { impl_->stop(std::move(stopped)); }

bool IscsiLink::is_rdma() const { return impl_->settings.rdma != nullptr; }

bool IscsiLink::is_up() const {
  using enum Impl::State;
  return impl_->state == up || impl_->state == failing || impl_->state == breaking;
}

std::uint16_t IscsiLink::version() const { return impl_->session ? impl_->session->version() : std::uint16_t{0}; }

void IscsiLink::send(std::span<const std::byte> header, std::span<const std::byte> payload_out,
                     std::span<std::byte> payload_in, engine::Callback<engine::IoResult<LinkAnswer>> done) {
  impl_->send(header, payload_out, payload_in, done);
}

bool IscsiLink::wants_renewal() const { return is_up() && impl_->wants_renewal; }

void IscsiLink::reset() {
  impl_->at_once |= wants_renewal();
  impl_->fail(wants_renewal() ? "Its keys have carried nearly as much as they may. It is made anew."
                              : "The session was given up to begin anew.");
}

const LinkWay& IscsiLink::way() const { return impl_->taken; }

const std::string& IscsiLink::problem() const { return impl_->problem; }

std::string_view IscsiLink::cipher() const {
  if (!is_up()) return {};
  if (impl_->iser != nullptr) return impl_->iser->is_protected_rdma() ? "AES-256-GCM" : std::string_view{};
  return impl_->tls ? impl_->tls->cipher() : std::string_view{};
}

bool IscsiLink::is_encrypted_by_kernel() const { return is_up() && impl_->tls && impl_->tls->is_encrypted_by_kernel(); }

std::optional<engine::TcpFigures> IscsiLink::figures() const {
  return is_up() && impl_->tcp ? impl_->tcp->figures() : std::nullopt;
}

void IscsiLink::on_problem(engine::Callback<const std::string&> handler) { impl_->tell_problem = std::move(handler); }

}  // namespace lockstep::replication
