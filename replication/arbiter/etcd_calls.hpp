#pragma once
// Requests to etcd, each answered once: with what etcd said, or with why it could not be asked in time.
//
// A request is made up of tries. The endpoint that answered last gets the first one; when the answer takes longer than
// that line is known to take, another try is made beside it, at the next endpoint or on another connection to the same
// one, and the first clear answer counts. Over a slow line two are made at once. How long all of it may take follows
// from what the line took before (line_estimate.hpp). What etcd refused because of the token was not carried out: it is
// sent again with a new token.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "replication/arbiter/etcd_auth.hpp"
#include "replication/arbiter/http_line.hpp"

namespace lockstep::replication {

struct EtcdAnswer {
  std::string body;
  engine::Error problem;  ///< code set: there is no body
  bool refused = false;   ///< somebody answered, and did not do what was asked
};
using EtcdAnswered = engine::Callback<EtcdAnswer>;

enum class EtcdCallKind : std::uint8_t {
  idempotent,  ///< sent as often as needed
  probe,       ///< the same, and nobody is held up until it is answered
  as_nobody,   ///< a probe without a token, whether there is a user or not
  /// May be sent more than once, too: etcd carries it out at most once. Without a clear answer its outcome is unknown.
  compare_and_swap,
};

struct EtcdUser {
  std::string name;  ///< empty: etcd asks for none
  std::string password;
};

/// Owned by one reactor; callbacks run on it, never from inside the call. After close() none does.
class EtcdCalls : public std::enable_shared_from_this<EtcdCalls> {
 public:
  static constexpr std::size_t kMaxUnderWay = 16;
  static constexpr std::size_t kMaxQueued = 4096;  ///< beyond: Errc::resource_exhausted, nothing was asked

  /// `patience`: at least so long for each request, for one that begins on a line of which nothing is known.
  EtcdCalls(engine::Reactor& reactor, const std::vector<HttpEndpoint>& endpoints, std::shared_ptr<TlsClient> tls,
            EtcdUser user, engine::Duration patience);
  ~EtcdCalls();
  EtcdCalls(const EtcdCalls&) = delete;
  EtcdCalls& operator=(const EtcdCalls&) = delete;
  void close();

  /// `path` outlives all calls. `patience`: how long it goes on at least.
  void submit(std::string_view path, std::string body, EtcdCallKind kind, EtcdAnswered done,
              engine::Duration patience = {});
  /// Now and then: keeps connections open for the next request.
  void tend();
  /// A kept connection was ended by the other side: perhaps it is gone.
  void when_ended(std::function<void()> ended);

  [[nodiscard]] const std::string& last_problem() const { return last_problem_; }
  void note_problem(std::string problem) { last_problem_ = std::move(problem); }
  /// Of the endpoint that answered last.
  [[nodiscard]] const LineEstimate& estimate() const { return lines_[preferred_]->estimate(); }
  [[nodiscard]] engine::TimePoint answered_at() const { return answered_at_; }

 private:
  struct Call;
  using CallPtr = std::shared_ptr<Call>;
  void pump();
  void begin(const CallPtr& call, engine::Duration patience);
  void attempt(const CallPtr& call);
  void launch(const CallPtr& call);
  void try_next(const CallPtr& call);
  void try_next_later(const CallPtr& call);
  void watch(const CallPtr& call);
  void on_outcome(const CallPtr& call, std::size_t index, const std::string& token,
                  std::expected<HttpReply, HttpFailure> outcome);
  void on_failure(const CallPtr& call, std::size_t index, bool broken);
  void on_refusal(const CallPtr& call, std::size_t index, const std::string& token, EtcdRefusal refusal);
  void on_overdue(const CallPtr& call);
  void ask_for_token(engine::TimePoint until);
  void on_token_answer(EtcdAnswer answer);
  void cancel_timers(Call& call);
  void retire(const CallPtr& call);
  void finish(const CallPtr& ended, EtcdAnswer answer);
  void finish_later(const CallPtr& call, EtcdAnswer answer);
  [[nodiscard]] HttpLine& line_of(const Call& call) const;
  template <class Then>
  [[nodiscard]] auto unless_closed(Then then);

  engine::Reactor& reactor_;
  EtcdUser user_;
  engine::Duration patience_;
  EtcdLogin login_;
  std::vector<std::unique_ptr<HttpLine>> lines_;  ///< one an endpoint
  std::size_t preferred_ = 0;                     ///< index of the one to ask first
  std::vector<CallPtr> live_;                     ///< begun and not answered, those that wait for a token, too
  std::deque<CallPtr> queue_;
  std::vector<CallPtr> without_token_;  ///< wait for one
  std::string last_problem_;
  engine::TimePoint answered_at_;
  bool closed_ = false;
};

}  // namespace lockstep::replication
