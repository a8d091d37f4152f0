#include "replication/arbiter/etcd_witness.hpp"

#include <cassert>
#include <deque>

#include "replication/arbiter/etcd_messages.hpp"

namespace lockstep::replication {

using engine::Errc;

namespace {

struct Answer {
  std::string body;
  engine::Error problem;  ///< code set: there is no body
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
};

}  // namespace

struct EtcdWitness::Impl : std::enable_shared_from_this<Impl> {
  Impl(engine::Reactor& r, EtcdSettings s) : reactor(r), settings(std::move(s)) {}

  engine::Reactor& reactor;
  EtcdSettings settings;
  std::size_t preferred = 0;  ///< index of the endpoint to ask first
  std::size_t in_flight = 0;
  std::deque<Request> queue;
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
    const engine::Duration left = request.give_up - reactor.now();
    const std::size_t index = (preferred + request.tries) % settings.endpoints.size();
    std::string body = request.body;
    const auto path = request.path;
    http_post(reactor, settings.endpoints[index], path, std::move(body), std::min(left, settings.try_deadline),
              [weak = weak_from_this(), request = std::move(request),
               index](std::expected<HttpReply, HttpFailure> outcome) mutable {
                const auto self = weak.lock();
                if (self && !self->closed) self->on_outcome(std::move(request), index, std::move(outcome));
              });
  }

  void on_outcome(Request request, std::size_t index, std::expected<HttpReply, HttpFailure> outcome) {
    if (outcome && outcome->status == 200) {
      preferred = index;
      return finish(request, Answer{std::move(outcome->body), {}});
    }
    // An endpoint that answers with an error may still have passed the request on: etcd reports its own time-outs so.
    const bool maybe_done = outcome.has_value() || outcome.error().sent;
    engine::Error problem;
    if (outcome) {
      problem = {make_error_code(Errc::io_error), settings.endpoints[index].to_string() + ": etcd answered HTTP " +
                                                      std::to_string(outcome->status) + " " +
                                                      outcome->body.substr(0, 200)};
    } else {
      problem = {make_error_code(outcome.error().timed_out ? Errc::timed_out : Errc::io_error),
                 outcome.error().message};
    }
    ++request.tries;
    if (maybe_done && !request.repeatable) {
      problem.code = Errc::unknown_outcome;
      preferred = (index + 1) % settings.endpoints.size();
      return finish(request, Answer{{}, std::move(problem)});
    }
    if (request.tries >= settings.endpoints.size() || reactor.now() >= request.give_up) {
      return finish(request, Answer{{}, std::move(problem)});
    }
    attempt(std::move(request));
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

EtcdWitness::EtcdWitness(engine::Reactor& reactor, EtcdSettings settings) {
  assert(!settings.endpoints.empty());
  impl_ = std::make_shared<Impl>(reactor, std::move(settings));
}

EtcdWitness::~EtcdWitness() {
  impl_->closed = true;
  impl_->queue.clear();
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

void EtcdWitness::probe(engine::Callback<bool> done) {
  impl_->submit({kEtcdRangePath, etcd_range_request(impl_->slot({})), true,
                 [done = std::move(done)](Answer answer) mutable { done(!answer.problem.code); }});
}

const std::string& EtcdWitness::last_problem() const { return impl_->last_problem; }

}  // namespace lockstep::replication
