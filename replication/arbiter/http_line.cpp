#include "replication/arbiter/http_line.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::replication {

using engine::Duration;
using engine::TimePoint;

HttpLine::HttpLine(engine::Reactor& reactor, HttpEndpoint endpoint, std::shared_ptr<TlsClient> tls)
    : reactor_(reactor), endpoint_(std::move(endpoint)), tls_(std::move(tls)) {}

HttpLine::~HttpLine() {
  for (auto& kept : kept_) kept.connection->close();
}

HttpLine::Try HttpLine::post(std::string_view path, std::string body, std::string authorization, bool beside,
                             HttpCallback done) {
  const Try id = ++last_try_;
  waiting_.push_back({id, path, std::move(body), std::move(authorization), beside, std::move(done)});
  pump();
  return id;
}

void HttpLine::forget(Try which) {
  std::erase_if(waiting_, [&](const Waiting& w) { return w.id == which; });
  // What is sent stays sent, and its connection is of use again when the answer is there.
  for (auto& sent : sent_)
    if (sent.id == which) sent.done = nullptr;
}

bool HttpLine::was_sent(Try which) const { return std::ranges::find(sent_, which, &Sent::id) != sent_.end(); }

std::size_t HttpLine::count(bool (HttpConnection::*is)() const) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(kept_, [&](const Kept& kept) { return ((*kept.connection).*is)(); }));
}

/// Tries that wait have connections that are being opened, if there is room for so many.
void HttpLine::pump() {
  sweep();
  while (!waiting_.empty()) {
    // The one that was used last: others are closed when they are not needed for long.
    auto best = kept_.end();
    for (auto at = kept_.begin(); at != kept_.end(); ++at)
      if (at->connection->idle() && (best == kept_.end() || at->used >= best->used)) best = at;
    if (best == kept_.end()) break;
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    send(*best, std::move(next));
  }
  const bool many = estimate_.is_far() || std::ranges::any_of(waiting_, &Waiting::beside);
  for (std::size_t opening = count(&HttpConnection::opening); opening < waiting_.size(); ++opening) {
    make_room();
    if (kept_.size() >= (many ? kMaxConnections : kMaxNear)) return;
    open();
  }
}

/// An endpoint that never answered a first packet, and is there again, must not wait for those that hang.
void HttpLine::make_room() {
  if (kept_.size() < kMaxConnections) return;
  const bool near = estimate_.is_known() && !estimate_.is_far();
  const Duration hopeless = std::chrono::seconds(near ? 5 : 20);
  const auto hangs = [&](const Kept& kept) {
    return !kept.connection->idle() && reactor_.now() - kept.used > hopeless;
  };
  const auto oldest = std::ranges::find_if(kept_, hangs);
  if (oldest == kept_.end()) return;
  drop(*oldest);
  sweep();
}

/// Whoever waits for an answer on it is told later that none comes.
void HttpLine::drop(const Kept& kept) {
  const auto sent = std::ranges::find(sent_, kept.connection.get(), &Sent::on);
  kept.connection->close();
  if (sent == sent_.end()) return;
  if (sent->done)
    reactor_.post(
        [weak = std::weak_ptr<int>(alive_), done = std::move(sent->done), name = endpoint_.to_string()]() mutable {
          if (!weak.expired())
            done(std::unexpected(HttpFailure{true, true, true, false, false, name + ": no answer in time"}));
        });
  sent_.erase(sent);
}

void HttpLine::open() {
  const auto weak = std::weak_ptr<int>(alive_);
  auto at = std::make_shared<const HttpConnection*>(nullptr);
  auto connection =
      HttpConnection::open(reactor_, endpoint_, tls_, kOpenWithin, [this, weak, at](const HttpFailure* failure) {
        if (!weak.expired()) on_opened(*at, failure);
      });
  *at = connection.get();
  connection->when_ended([this, weak] {
    if (weak.expired()) return;
    sweep();
    if (ended_) ended_();
  });
  kept_.push_back({std::move(connection), reactor_.now(), reactor_.now()});
}

void HttpLine::on_opened(const HttpConnection* connection, const HttpFailure* failure) {
  if (!failure) {
    const auto kept = std::ranges::find_if(kept_, [&](const Kept& k) { return k.connection.get() == connection; });
    if (kept != kept_.end()) kept->used = reactor_.now();
    return pump();
  }
  sweep();
  if (waiting_.empty()) return;
  // It was opened for one that waits; those behind it have connections of their own on the way.
  Waiting failed = std::move(waiting_.front());
  waiting_.pop_front();
  failed.done(std::unexpected(*failure));
}

void HttpLine::send(Kept& on, Waiting what) {
  on.used = reactor_.now();
  sent_.push_back({what.id, on.connection.get(), std::move(what.done), reactor_.now()});
  on.connection->post(what.path, std::move(what.body), what.authorization,
                      [this, id = what.id, weak = std::weak_ptr<int>(alive_)](auto outcome) {
                        if (!weak.expired()) on_outcome(id, std::move(outcome));
                      });
}

void HttpLine::on_outcome(Try which, std::expected<HttpReply, HttpFailure> outcome) {
  const auto at = std::ranges::find(sent_, which, &Sent::id);
  if (at == sent_.end()) return;
  Sent sent = std::move(*at);
  sent_.erase(at);
  if (outcome) estimate_.on_answer(reactor_.now() - sent.at, reactor_.now());
  const auto weak = std::weak_ptr<int>(alive_);
  if (sent.done) sent.done(std::move(outcome));
  if (!weak.expired()) pump();
}

void HttpLine::sweep() {
  std::erase_if(kept_, [](const Kept& kept) { return kept.connection->closed(); });
}

void HttpLine::tend(std::size_t idle) {
  sweep();
  const TimePoint now = reactor_.now();
  std::size_t ready = count(&HttpConnection::idle);
  for (auto& kept : kept_) {
    const bool busy = !kept.connection->idle();
    const bool lost = busy && now - kept.used > kOpenWithin + kOpenWithin;  // its answer does not come any more
    const bool spare = !busy && ready > idle && (now - kept.used > kUnusedFor || now - kept.begun > kMaxAge);
    if (spare) --ready;
    if (spare || lost) drop(kept);
  }
  sweep();
  const auto is_old = [&](const Kept& kept) { return kept.connection->idle() && now - kept.begun > kMaxAge; };
  const std::size_t wanted = idle + (std::ranges::any_of(kept_, is_old) ? 1 : 0);
  for (std::size_t have = count(&HttpConnection::idle) + count(&HttpConnection::opening);
       have < wanted && kept_.size() < kMaxConnections; ++have)
    open();
}

}  // namespace lockstep::replication
