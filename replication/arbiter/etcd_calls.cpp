#include "replication/arbiter/etcd_calls.hpp"

#include <algorithm>
#include <cassert>
#include <functional>
#include <utility>

namespace lockstep::replication {

using engine::Duration;
using engine::Errc;
using engine::TimePoint;
using engine::TimerId;

namespace {

using Outcome = std::expected<HttpReply, HttpFailure>;
using namespace std::chrono_literals;

constexpr Duration kTokenLimit = 3s;     // checking a password takes etcd a while, on purpose
constexpr Duration kTokenPatience = 1s;  // a second try costs it as much again
constexpr Duration kPause = 250ms;       // before a try on a bad line on which the one before failed
constexpr unsigned kFailuresOnABadLine = 4;

// What to say of an outcome that is not a 200.
EtcdAnswer failed_answer(const HttpEndpoint& endpoint, const Outcome& outcome) {
  if (outcome)
    return {{},
            {make_error_code(Errc::io_error), endpoint.to_string() + ": etcd answered HTTP " +
                                                  std::to_string(outcome->status) + " " + outcome->body.substr(0, 200)},
            true};
  const HttpFailure& failure = outcome.error();
  return {{},
          {make_error_code(failure.timed_out ? Errc::timed_out : Errc::io_error), failure.message},
          failure.reached && !failure.timed_out};
}

}  // namespace

struct EtcdCalls::Call {
  struct UnderWay {
    std::size_t number;  ///< of the try
    std::size_t line;
    HttpLine::Try which;
  };
  std::string_view path;
  std::string body;
  EtcdCallKind kind = EtcdCallKind::idempotent;
  EtcdAnswered done;
  Duration patience{0};
  bool asks_for_token = false;
  TimePoint give_up{};
  TimerId overdue = TimerId::none, another = TimerId::none;
  std::vector<UnderWay> under_way{};  ///< tries without an outcome
  std::size_t tries = 0, failures = 0;
  bool maybe_done = false;     ///< a try failed after it was sent
  bool token_renewed = false;  ///< once is enough
  std::string token{};         ///< what the last try went with
  EtcdAnswer worst{};          ///< what the last try failed with
};

/// `then(self, …)` runs unless this is closed.
template <class Then>
auto EtcdCalls::unless_closed(Then then) {
  return [weak = weak_from_this(), then = std::move(then)]<class... Args>(Args&&... args) mutable {
    const auto self = weak.lock();
    if (self && !self->closed_) then(*self, std::forward<Args>(args)...);
  };
}

EtcdCalls::EtcdCalls(engine::Reactor& reactor, const std::vector<HttpEndpoint>& endpoints,
                     std::shared_ptr<TlsClient> tls, EtcdUser user, Duration patience)
    : reactor_(reactor), user_(std::move(user)), patience_(patience), login_(!user_.name.empty()) {
  assert(!endpoints.empty());
  for (const auto& endpoint : endpoints) lines_.push_back(std::make_unique<HttpLine>(reactor, endpoint, tls));
}

EtcdCalls::~EtcdCalls() = default;

void EtcdCalls::close() {
  closed_ = true;
  for (const CallPtr& call : live_) cancel_timers(*call);
  live_.clear();
  queue_.clear();
  without_token_.clear();
  lines_.clear();
}

void EtcdCalls::when_ended(std::function<void()> ended) {
  for (auto& line : lines_) line->when_ended(unless_closed([ended](EtcdCalls&) { ended(); }));
}

void EtcdCalls::tend() {
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    const std::size_t idle = lines_[i]->estimate().is_far() ? 3 : 1;
    lines_[i]->tend(i == preferred_ ? idle : 0);
  }
}

HttpLine& EtcdCalls::line_of(const Call& call) const { return *lines_[(preferred_ + call.tries) % lines_.size()]; }

// ---- a call ----

void EtcdCalls::submit(std::string_view path, std::string body, EtcdCallKind kind, EtcdAnswered done,
                       Duration patience) {
  auto call = std::make_shared<Call>(
      Call{.path = path, .body = std::move(body), .kind = kind, .done = std::move(done), .patience = patience});
  if (queue_.size() >= kMaxQueued)
    return reactor_.post(unless_closed([call](EtcdCalls&) {
      call->done({{}, {make_error_code(Errc::resource_exhausted), "too many requests wait for the witness"}});
    }));
  queue_.push_back(std::move(call));
  pump();
}

void EtcdCalls::pump() {
  while (!closed_ && live_.size() < kMaxUnderWay && !queue_.empty()) {
    const CallPtr call = std::move(queue_.front());
    queue_.pop_front();
    begin(call, std::max(patience_, call->patience));
    attempt(call);
  }
}

/// From now on its time runs, also while it waits for a token.
void EtcdCalls::begin(const CallPtr& call, Duration patience) {
  live_.push_back(call);
  const LineEstimate& line = lines_[preferred_]->estimate();
  Duration limit = std::max({line.limit(), patience, line.patience() * static_cast<int>(lines_.size() + 1)});
  call->give_up = reactor_.now() + limit;
  call->overdue = reactor_.call_after(limit, unless_closed([call](EtcdCalls& self) { self.on_overdue(call); }));
}

void EtcdCalls::attempt(const CallPtr& call) {
  if (call->kind == EtcdCallKind::as_nobody) return launch(call);
  switch (login_.next(reactor_.now())) {
    case EtcdLogin::Step::go:
      return launch(call);
    case EtcdLogin::Step::wait:
      without_token_.push_back(call);
      return;
    case EtcdLogin::Step::fail:
      return finish_later(call, {{}, {make_error_code(Errc::refused), login_.problem()}, true});
    case EtcdLogin::Step::ask:
      without_token_.push_back(call);
      return ask_for_token(call->give_up);
  }
}

/// A fifth of all packets may be lost on a long line: two tries at once arrive where one would cost a round trip more.
void EtcdCalls::launch(const CallPtr& call) {
  const bool is_probe = call->kind == EtcdCallKind::probe || call->kind == EtcdCallKind::as_nobody;
  const bool waited_for = !call->asks_for_token && !is_probe;
  const bool twice = line_of(*call).estimate().is_far() && waited_for;
  try_next(call);
  if (twice) try_next(call);
  watch(call);
}

void EtcdCalls::try_next(const CallPtr& call) {
  const std::size_t number = call->tries++;
  const std::size_t index = (preferred_ + number) % lines_.size();
  const bool without = call->asks_for_token || call->kind == EtcdCallKind::as_nobody;
  call->token = without ? std::string() : login_.token();
  const auto which = lines_[index]->post(
      call->path, call->body, call->token, /*beside=*/!call->under_way.empty(),
      unless_closed([call, number, index, token = call->token](EtcdCalls& self, Outcome outcome) {
        std::erase_if(call->under_way, [&](const Call::UnderWay& it) { return it.number == number; });
        self.on_outcome(call, index, token, std::move(outcome));
      }));
  call->under_way.push_back({number, index, which});
}

/// Another try beside those that are under way, when they take longer than usual; and so on, ever later: a witness that
/// has much to do must not get more for that, and one that was slow from the first answer on may just have much to do.
void EtcdCalls::watch(const CallPtr& call) {
  reactor_.cancel(call->another);
  Duration patience = line_of(*call).estimate().patience();
  if (call->asks_for_token) patience = std::max(patience, kTokenPatience);
  const std::size_t at_once = line_of(*call).estimate().is_far() ? 2 : 1;
  const std::size_t later = call->tries > at_once ? call->tries - at_once : 0;
  patience *= 1 << std::min<std::size_t>(later / lines_.size(), 6);
  call->another = reactor_.call_after(patience, unless_closed([call](EtcdCalls& self) {
                                        self.try_next(call);
                                        self.watch(call);
                                      }));
}

void EtcdCalls::on_outcome(const CallPtr& call, std::size_t index, const std::string& token, Outcome outcome) {
  if (!call->done) return;
  if (outcome && outcome->status == 200) {
    login_.on_answered(token);
    preferred_ = index;
    answered_at_ = reactor_.now();
    return finish(call, {std::move(outcome->body), {}});
  }
  if (const auto refusal = outcome ? etcd_refusal(outcome->body) : EtcdRefusal::none; refusal != EtcdRefusal::none)
    return on_refusal(call, index, token, refusal);
  // An endpoint that answers with an error may still have passed the request on: etcd reports its own time-outs so.
  call->maybe_done |= outcome.has_value() || outcome.error().sent;
  // A connection that was idle may have ended just when it was used: that says nothing of the endpoint.
  if (!outcome && outcome.error().kept) return try_next(call);
  call->worst = failed_answer(lines_[index]->endpoint(), outcome);
  on_failure(call, index, !outcome && outcome.error().broken);
}

/// Connections over a bad line break; one that is refused, or that says what is wrong, is not tried again for that.
void EtcdCalls::on_failure(const CallPtr& call, std::size_t index, bool broken) {
  ++call->failures;
  const LineEstimate& line = lines_[index]->estimate();
  const bool bad_line = line.is_far() || (!line.is_known() && broken);
  const bool is_unknown = call->kind == EtcdCallKind::compare_and_swap && call->maybe_done;
  if (is_unknown && preferred_ == index) preferred_ = (index + 1) % lines_.size();
  if (bad_line && call->failures < kFailuresOnABadLine * lines_.size()) return try_next_later(call);
  if (!is_unknown && call->failures < lines_.size()) return try_next(call);
  if (!call->under_way.empty()) return;  // another try may still be answered
  finish(call, std::move(call->worst));
}

void EtcdCalls::try_next_later(const CallPtr& call) {
  reactor_.cancel(call->another);
  call->another = reactor_.call_after(kPause, unless_closed([call](EtcdCalls& self) {
                                        self.try_next(call);
                                        self.watch(call);
                                      }));
}

/// etcd carried out nothing of it, but perhaps of what filled its database.
void EtcdCalls::on_refusal(const CallPtr& call, std::size_t index, const std::string& token, EtcdRefusal refusal) {
  const bool about_token = refusal == EtcdRefusal::stale_token || refusal == EtcdRefusal::no_user;
  const bool came_with_it = !call->asks_for_token && call->kind != EtcdCallKind::as_nobody;
  if (about_token && came_with_it && !call->token_renewed && login_.on_refused(token)) {
    call->token_renewed = true;
    retire(call);
    return attempt(call);
  }
  if (call->asks_for_token && refusal == EtcdRefusal::auth_off) {
    login_.on_auth_off();
    return finish(call, {});
  }
  const std::string why = lines_[index]->endpoint().to_string() + ": " + explain(refusal, user_.name);
  if (call->asks_for_token) login_.on_wrong_password(reactor_.now(), why);
  call->maybe_done |= refusal == EtcdRefusal::no_space;
  finish(call, {{}, {make_error_code(Errc::refused), why}, true});
}

void EtcdCalls::on_overdue(const CallPtr& call) {
  if (!call->done) return;
  std::erase(without_token_, call);
  bool sent = false;
  for (const auto& it : call->under_way) sent |= lines_[it.line]->was_sent(it.which);
  for (std::size_t i = 0; i < lines_.size(); ++i)
    if (std::ranges::find(call->under_way, i, &Call::UnderWay::line) != call->under_way.end())
      lines_[i]->estimate().on_silence();
  if (sent && !call->asks_for_token) login_.on_unanswered(call->token);
  const bool waited_for_token = call->tries == 0;
  EtcdAnswer answer{{}, {make_error_code(Errc::timed_out), ""}};
  answer.problem.message =
      waited_for_token ? "etcd gave no token in time" : line_of(*call).endpoint().to_string() + ": no answer in time";
  if (call->under_way.empty() && !waited_for_token) answer = std::move(call->worst);
  finish(call, std::move(answer));
}

// ---- the token ----

void EtcdCalls::ask_for_token(TimePoint until) {
  const auto call = std::make_shared<Call>(
      Call{.path = kEtcdAuthenticatePath,
           .body = etcd_authenticate_request(user_.name, user_.password),
           .done = unless_closed([](EtcdCalls& self, EtcdAnswer answer) { self.on_token_answer(std::move(answer)); }),
           .asks_for_token = true});
  begin(call, std::max(kTokenLimit, until - reactor_.now()));
  launch(call);
}

void EtcdCalls::on_token_answer(EtcdAnswer answer) {
  if (!answer.problem.code && !answer.body.empty()) {
    auto token = parse_authenticate_answer(answer.body);
    if (token) {
      login_.on_token(std::move(*token));
    } else {
      answer.problem = {token.error().code, lines_[preferred_]->endpoint().to_string() + ": " + token.error().message};
      answer.body.clear();
    }
  }
  if (login_.is_asking()) login_.on_no_answer();
  // Who asked for it may have had less time than others that wait for it.
  const bool again = answer.problem.code == make_error_code(Errc::timed_out);
  for (const CallPtr& call : std::exchange(without_token_, {})) {
    const bool in_time = again && call->give_up - reactor_.now() > kTokenPatience;
    if (answer.problem.code && !in_time)
      finish_later(call, answer);
    else
      attempt(call);
  }
}

// ---- the end ----

void EtcdCalls::cancel_timers(Call& call) {
  reactor_.cancel(std::exchange(call.another, TimerId::none));
  reactor_.cancel(std::exchange(call.overdue, TimerId::none));
}

/// No try of it is waited for any more. One that was sent may still arrive, and changes nothing then: a swap is void
/// when another try of it, or anybody else, has written since.
void EtcdCalls::retire(const CallPtr& call) {
  reactor_.cancel(std::exchange(call->another, TimerId::none));
  for (const auto& it : std::exchange(call->under_way, {})) {
    call->maybe_done |= lines_[it.line]->was_sent(it.which);
    lines_[it.line]->forget(it.which);
  }
}

/// Not from inside the call that asked.
void EtcdCalls::finish_later(const CallPtr& call, EtcdAnswer answer) {
  reactor_.post(unless_closed([call, answer = std::move(answer)](EtcdCalls& self) mutable {
    if (call->done) self.finish(call, std::move(answer));
  }));
}

void EtcdCalls::finish(const CallPtr& ended, EtcdAnswer answer) {
  const CallPtr call = ended;  // whoever holds it lets go of it on the way
  retire(call);
  cancel_timers(*call);
  const bool failed = static_cast<bool>(answer.problem.code);
  if (failed && call->kind == EtcdCallKind::compare_and_swap && call->maybe_done)
    answer.problem.code = make_error_code(Errc::unknown_outcome);
  if (call->kind != EtcdCallKind::as_nobody) last_problem_ = answer.problem.message;
  std::erase(live_, call);
  const auto keep = shared_from_this();  // the callback may destroy the witness
  std::exchange(call->done, nullptr)(std::move(answer));
  pump();
}

}  // namespace lockstep::replication
