#include "replication/arbiter/etcd_witness.hpp"

#include <algorithm>
#include <cassert>
#include <deque>
#include <functional>
#include <iterator>

#include "replication/arbiter/etcd_auth.hpp"
#include "replication/arbiter/etcd_messages.hpp"
#include "replication/arbiter/tls_client.hpp"

namespace lockstep::replication {

using engine::Errc;

namespace {

struct Answer {
  std::string body;
  engine::Error problem;  ///< code set: there is no body
  bool refused = false;   ///< somebody answered, and did not do what was asked
};

std::string is_tampered(const WitnessSlot& slot) {
  return "what stands at " + witness_key(slot.pair, slot.volume) +
         " was not written there by a node of this pair, or not as the last. Keep others from writing to this etcd";
}

struct Request {
  std::string_view path;
  std::string body;
  bool repeatable = false;  ///< may be sent to another endpoint after this one may have seen it
  engine::Callback<Answer> done;
  std::size_t tries = 0;
  engine::TimePoint give_up{};
  std::string token{};         ///< what it was last sent with
  bool token_renewed = false;  ///< once is enough
};

using Outcome = std::expected<HttpReply, HttpFailure>;

// What to say of an outcome that is not a 200.
Answer failed_answer(const HttpEndpoint& endpoint, const Outcome& outcome) {
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

struct EtcdWitness::Impl : std::enable_shared_from_this<Impl> {
  Impl(engine::Reactor& r, EtcdSettings s) : reactor(r), settings(std::move(s)), login(!settings.user.empty()) {}

  engine::Reactor& reactor;
  EtcdSettings settings;
  EtcdLogin login;
  std::size_t preferred = 0;  ///< index of the endpoint to ask first
  std::size_t in_flight = 0;  ///< those that wait for a token, too
  std::deque<Request> queue;
  std::vector<Request> without_token;  ///< wait for one
  std::string last_problem;
  bool closed = false;

  [[nodiscard]] WitnessSlot slot(const engine::Uuid& volume) const {
    return {settings.pair, volume, settings.seal, settings.side};
  }

  void submit(Request request) {
    if (queue.size() >= kMaxQueued) {
      reactor.post([weak = weak_from_this(), done = std::move(request.done)]() mutable {
        if (const auto self = weak.lock(); !self || self->closed) return;
        done(Answer{{}, {make_error_code(Errc::resource_exhausted), "too many requests wait for the witness"}});
      });
      return;
    }
    queue.push_back(std::move(request));
    pump();
  }

  void pump() {
    while (in_flight < kMaxInFlight && !queue.empty()) {
      Request request = std::move(queue.front());
      queue.pop_front();
      ++in_flight;
      request.give_up = reactor.now() + settings.total_deadline;
      attempt(std::move(request));
    }
  }

  void attempt(Request request) {
    switch (login.next(reactor.now())) {
      case EtcdLogin::Step::go:
        return send(std::move(request));
      case EtcdLogin::Step::wait:
        return wait_for_token(std::move(request));
      case EtcdLogin::Step::fail:
        return finish_later(std::move(request), {{}, {make_error_code(Errc::refused), login.problem()}, true});
      case EtcdLogin::Step::ask:
        wait_for_token(std::move(request));
        return ask_for_token(0);
    }
  }

  /// `then(self, outcome)` runs unless the witness is gone.
  template <class Then>
  void post(std::size_t index, std::string_view path, std::string body, engine::Duration deadline, Then then) {
    http_post(reactor, {settings.endpoints[index], path, std::move(body), login.token(), settings.tls}, deadline,
              [weak = weak_from_this(), then = std::move(then)](Outcome outcome) mutable {
                const auto self = weak.lock();
                if (self && !self->closed) then(*self, std::move(outcome));
              });
  }

  void send(Request request) {
    if (reactor.now() >= request.give_up)
      return finish_later(std::move(request), {{}, {make_error_code(Errc::timed_out), "no answer in time"}});
    const std::size_t index = (preferred + request.tries) % settings.endpoints.size();
    request.token = login.token();
    std::string body = request.body;
    const auto path = request.path;
    const engine::Duration deadline = std::min(request.give_up - reactor.now(), settings.try_deadline);
    post(index, path, std::move(body), deadline,
         [request = std::move(request), index](Impl& self, Outcome outcome) mutable {
           self.on_outcome(std::move(request), index, std::move(outcome));
         });
  }

  void on_outcome(Request request, std::size_t index, Outcome outcome) {
    if (!outcome && outcome.error().reached && outcome.error().timed_out) login.on_unanswered(request.token);
    if (outcome && outcome->status == 200) {
      login.on_answered(request.token);
      preferred = index;
      return finish(request, Answer{std::move(outcome->body), {}});
    }
    if (const auto refusal = outcome ? etcd_refusal(outcome->body) : EtcdRefusal::none; refusal != EtcdRefusal::none)
      return on_refusal(std::move(request), index, refusal);
    // An endpoint that answers with an error may still have passed the request on: etcd reports its own time-outs so.
    const bool maybe_done = outcome.has_value() || outcome.error().sent;
    Answer answer = failed_answer(settings.endpoints[index], outcome);
    ++request.tries;
    if (maybe_done && !request.repeatable) {
      answer.problem.code = Errc::unknown_outcome;
      preferred = (index + 1) % settings.endpoints.size();
      return finish(request, std::move(answer));
    }
    if (request.tries >= settings.endpoints.size() || reactor.now() >= request.give_up) {
      return finish(request, std::move(answer));
    }
    attempt(std::move(request));
  }

  /// etcd carried out nothing of it.
  void on_refusal(Request request, std::size_t index, EtcdRefusal refusal) {
    const bool about_token = refusal == EtcdRefusal::stale_token || refusal == EtcdRefusal::no_user;
    if (about_token && !request.token_renewed && login.on_refused(request.token)) {
      request.token_renewed = true;
      return attempt(std::move(request));
    }
    finish(request, {{},
                     {make_error_code(Errc::refused),
                      settings.endpoints[index].to_string() + ": " + explain(refusal, settings.user)},
                     true});
  }

  void wait_for_token(Request request) {
    const engine::Duration left = request.give_up - reactor.now();
    without_token.push_back(std::move(request));
    reactor.call_after(left, [weak = weak_from_this()] {
      if (const auto self = weak.lock(); self && !self->closed) self->end_overdue();
    });
  }

  /// The token may come later, for others.
  void end_overdue() {
    const auto overdue = [now = reactor.now()](const Request& request) { return request.give_up <= now; };
    const auto from = std::stable_partition(without_token.begin(), without_token.end(), std::not_fn(overdue));
    std::vector<Request> late(std::make_move_iterator(from), std::make_move_iterator(without_token.end()));
    without_token.erase(from, without_token.end());
    for (Request& request : late)
      finish_later(std::move(request), {{}, {make_error_code(Errc::timed_out), "etcd gave no token in time"}});
  }

  void ask_for_token(std::size_t tries) {
    const std::size_t index = (preferred + tries) % settings.endpoints.size();
    // One that never answers must not take the time of those behind it.
    const bool last = tries + 1 == settings.endpoints.size();
    const engine::Duration deadline = last ? settings.token_deadline : settings.token_deadline / 3;
    post(index, kEtcdAuthenticatePath, etcd_authenticate_request(settings.user, settings.password), deadline,
         [tries, index](Impl& self, Outcome outcome) { self.on_token_outcome(tries, index, std::move(outcome)); });
  }

  void on_token_outcome(std::size_t tries, std::size_t index, Outcome outcome) {
    const HttpEndpoint& endpoint = settings.endpoints[index];
    Answer answer = failed_answer(endpoint, outcome);
    if (outcome && outcome->status == 200) {
      auto token = parse_authenticate_answer(outcome->body);
      if (token) {
        preferred = index;
        login.on_token(std::move(*token));
        return resume();
      }
      answer.problem = {token.error().code, endpoint.to_string() + ": " + token.error().message};
    } else if (outcome) {
      const EtcdRefusal refusal = etcd_refusal(outcome->body);
      if (refusal == EtcdRefusal::auth_off) {
        login.on_auth_off();
        return resume();
      }
      if (refusal != EtcdRefusal::none) {
        answer.problem = {make_error_code(Errc::refused),
                          endpoint.to_string() + ": " + explain(refusal, settings.user)};
        login.on_wrong_password(reactor.now(), answer.problem.message);
        return fail_without_token(answer);
      }
    }
    if (tries + 1 < settings.endpoints.size()) return ask_for_token(tries + 1);
    login.on_no_answer();
    fail_without_token(answer);
  }

  void resume() {
    for (Request& request : std::exchange(without_token, {})) attempt(std::move(request));
  }

  void fail_without_token(const Answer& answer) {
    for (Request& request : std::exchange(without_token, {})) finish_later(std::move(request), answer);
  }

  /// Not from inside the call that asked.
  void finish_later(Request request, Answer answer) {
    reactor.post([weak = weak_from_this(), request = std::move(request), answer = std::move(answer)]() mutable {
      if (const auto self = weak.lock(); self && !self->closed) self->finish(request, std::move(answer));
    });
  }

  void finish(Request& request, Answer answer) {
    last_problem = answer.problem.message;
    --in_flight;
    auto keep = shared_from_this();  // the callback may destroy the witness
    request.done(std::move(answer));
    if (!closed) pump();
  }

  void note(const engine::Error& error) { last_problem = error.message; }
};

engine::Result<EtcdSettings> EtcdSettings::create(const engine::Uuid& pair, std::span<const std::string> endpoints,
                                                  const WitnessAccess& access) {
  EtcdSettings settings;
  settings.pair = pair;
  for (const auto& url : endpoints) {
    auto endpoint = HttpEndpoint::parse(url);
    if (!endpoint) return std::unexpected(endpoint.error());
    settings.endpoints.push_back(std::move(*endpoint));
  }
  if (const auto problems = problems_of(endpoints, access); !problems.empty())
    return engine::fail(Errc::refused, "The witness's " + std::string(problems.front().field) + " cannot be used. " +
                                           problems.front().message);
  settings.user = access.user;
  settings.password = access.password;
  if (access.ca.empty()) return settings;
  auto tls = TlsClient::create(access);
  if (!tls) return std::unexpected(tls.error());
  settings.tls = std::move(*tls);
  return settings;
}

EtcdWitness::EtcdWitness(engine::Reactor& reactor, EtcdSettings settings) {
  assert(!settings.endpoints.empty());
  impl_ = std::make_shared<Impl>(reactor, std::move(settings));
}

EtcdWitness::~EtcdWitness() {
  impl_->closed = true;
  impl_->queue.clear();
  impl_->without_token.clear();
}

void EtcdWitness::read(const engine::Uuid& volume, engine::Callback<engine::IoResult<WitnessView>> done) {
  const WitnessSlot slot = impl_->slot(volume);
  impl_->submit({kEtcdRangePath, etcd_range_request(slot), true,
                 [impl = impl_.get(), slot, done = std::move(done)](Answer answer) mutable {
                   if (answer.problem.code) return done(std::unexpected(answer.problem.code));
                   auto view = parse_range_answer(slot, answer.body);
                   if (view && view->tampered) impl->note({make_error_code(Errc::refused), is_tampered(slot)});
                   if (view) return done(*view);
                   impl->note(view.error());
                   done(std::unexpected(view.error().code));
                 }});
}

void EtcdWitness::swap(const engine::Uuid& volume, const WitnessView& seen, const WitnessRecord& record,
                       engine::Callback<engine::IoResult<SwapOutcome>> done) {
  const WitnessSlot slot = impl_->slot(volume);
  impl_->submit({kEtcdTxnPath, etcd_swap_request(slot, seen, record), false,
                 [impl = impl_.get(), slot, record, done = std::move(done)](Answer answer) mutable {
                   if (answer.problem.code) return done(std::unexpected(answer.problem.code));
                   auto outcome = parse_swap_answer(slot, record, answer.body);
                   if (outcome) return done(*outcome);
                   impl->note(outcome.error());
                   done(std::unexpected(make_error_code(Errc::unknown_outcome)));
                 }});
}

void EtcdWitness::remove(const engine::Uuid& volume, engine::Callback<std::error_code> done) {
  impl_->submit({kEtcdDeletePath, etcd_delete_request(impl_->slot(volume)), true,
                 [impl = impl_.get(), done = std::move(done)](Answer answer) mutable {
                   if (answer.problem.code) return done(answer.problem.code);
                   const auto outcome = parse_delete_answer(answer.body);
                   if (outcome) return done({});
                   impl->note(outcome.error());
                   done(make_error_code(Errc::unknown_outcome));
                 }});
}

void EtcdWitness::probe(engine::Callback<EtcdProbe> done) {
  const WitnessSlot slot = impl_->slot({});
  impl_->submit({kEtcdRangePath, etcd_range_request(slot), true, [slot, done = std::move(done)](Answer answer) mutable {
                   const bool answers = !answer.problem.code;
                   const auto view = answers ? parse_range_answer(slot, answer.body) : WitnessView{};
                   done({answers, answer.refused, std::move(answer.problem.message), view ? view->cluster : 0});
                 }});
}

const std::string& EtcdWitness::last_problem() const { return impl_->last_problem; }

}  // namespace lockstep::replication
