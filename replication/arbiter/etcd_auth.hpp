#pragma once
// etcd's authentication over its JSON gateway: a user and a password buy a token, which every request shows in its
// Authorization header until etcd no longer takes it. Pure.
// https://etcd.io/docs/v3.4/dev-guide/api_grpc_gateway/; the codes are gRPC's.
#include <string>
#include <string_view>
#include <variant>

#include "engine/base/result.hpp"
#include "engine/seams/clock.hpp"

namespace lockstep::replication {

constexpr std::string_view kEtcdAuthenticatePath = "/v3/auth/authenticate";

[[nodiscard]] std::string etcd_authenticate_request(const std::string& user, const std::string& password);
/// The token; Errc::corrupt when the answer holds none that could stand in a header.
[[nodiscard]] engine::Result<std::string> parse_authenticate_answer(std::string_view body);

/// Why etcd carried out nothing of a request: it refused who asked.
enum class EtcdRefusal : std::uint8_t {
  none,            ///< not a refusal of this kind
  stale_token,     ///< the token has expired, or etcd has forgotten it
  no_user,         ///< authentication is on, and there was no token
  wrong_password,  ///< or an unknown user
  not_permitted,   ///< the user's roles do not reach so far
  auth_off,        ///< asked for a token while authentication is not enabled
  no_space,        ///< its database is full: it answers, and takes no writes, or has taken this as the last
};

/// What an answer other than HTTP 200 is. Only etcd's own words count: a proxy's 401 is `none`.
[[nodiscard]] EtcdRefusal etcd_refusal(std::string_view body);
/// A sentence that says what to do; not for `none`.
[[nodiscard]] std::string explain(EtcdRefusal refusal, const std::string& user);

/// Whether requests need a token, which one there is, and who may ask for one when.
class EtcdLogin {
 public:
  static constexpr engine::Duration kFirstPause = std::chrono::seconds(1);  ///< after a wrong password; then doubled
  static constexpr engine::Duration kLongestPause = std::chrono::seconds(32);
  /// Requests with one token that an endpoint took and did not answer in time, one after the other: then another token
  /// is tried. etcd that came back from a backup does not refuse a token of a later state: it waits for that state.
  static constexpr unsigned kUnanswered = 3;

  explicit EtcdLogin(bool has_user) : has_user_(has_user) {
    if (has_user) state_ = Missing{};
  }

  enum class Step : std::uint8_t {
    go,    ///< send the request, with token()
    ask,   ///< ask for a token now, then tell the outcome; nobody else is told to until then
    wait,  ///< for who asks
    fail,  ///< the password was wrong a moment ago: nothing is asked, see problem()
  };
  [[nodiscard]] Step next(engine::TimePoint now);
  /// Somebody was told to ask, and did not tell the outcome yet.
  [[nodiscard]] bool is_asking() const { return std::holds_alternative<Asking>(state_); }
  [[nodiscard]] const std::string& token() const;    ///< empty: none is needed
  [[nodiscard]] const std::string& problem() const;  ///< after Step::fail

  void on_token(std::string token);
  void on_auth_off();  ///< requests go without a token until one is refused
  void on_no_answer();
  void on_wrong_password(engine::TimePoint now, std::string problem);
  /// A request with this token was refused for it. True: another one may be had, send the request again through next().
  [[nodiscard]] bool on_refused(const std::string& token);
  void on_answered(const std::string& token);
  void on_unanswered(const std::string& token);

 private:
  struct Free {};
  struct Missing {};
  struct Asking {};
  struct Holding {
    std::string token;
    unsigned unanswered = 0;
  };
  struct Barred {
    engine::TimePoint until;
    std::string problem;
  };
  [[nodiscard]] Holding* holding(const std::string& token);

  bool has_user_;
  std::variant<Free, Missing, Asking, Holding, Barred> state_;
  engine::Duration pause_ = kFirstPause;
};

}  // namespace lockstep::replication
