#include "replication/arbiter/etcd_auth.hpp"

#include <algorithm>
#include <cassert>

#include <nlohmann/json.hpp>

namespace lockstep::replication {
namespace {

using engine::Errc;
using nlohmann::json;

constexpr std::size_t kMaxToken = 4096;  // bytes; a signed one (JWT) takes some hundreds

// gRPC's status codes.
constexpr int kPermissionDenied = 7;
constexpr int kUnauthenticated = 16;

}  // namespace

std::string etcd_authenticate_request(const std::string& user, const std::string& password) {
  return json{{"name", user}, {"password", password}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

engine::Result<std::string> parse_authenticate_answer(std::string_view body) {
  const json answer = json::parse(body, nullptr, /*allow_exceptions=*/false);
  const auto token = answer.is_object() ? answer.find("token") : answer.end();
  if (!answer.is_object() || token == answer.end() || !token->is_string())
    return engine::fail(Errc::corrupt, "etcd's answer to the user and password holds no token");
  const auto& text = token->get_ref<const std::string&>();
  // Anything else could end the header that it is to stand in.
  const auto visible = [](char c) { return c > ' ' && c < 0x7f; };
  if (text.empty() || text.size() > kMaxToken || !std::ranges::all_of(text, visible))
    return engine::fail(Errc::corrupt, "etcd's token is not one that could stand in a header");
  return text;
}

EtcdRefusal etcd_refusal(std::string_view body) {
  const json answer = json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) return EtcdRefusal::none;
  const auto code = answer.find("code");
  const auto message = answer.find("message");
  if (code == answer.end() || !code->is_number_integer() || message == answer.end() || !message->is_string())
    return EtcdRefusal::none;
  const std::string_view said = message->get_ref<const std::string&>();
  const auto says = [&](std::string_view words) { return said == "etcdserver: " + std::string(words); };
  if (*code == kUnauthenticated || says("revision of auth store is old")) return EtcdRefusal::stale_token;
  if (*code == kPermissionDenied) return EtcdRefusal::not_permitted;
  if (says("user name is empty")) return EtcdRefusal::no_user;
  if (says("authentication failed, invalid user ID or password")) return EtcdRefusal::wrong_password;
  if (says("mvcc: database space exceeded")) return EtcdRefusal::no_space;
  if (says("authentication is not enabled")) return EtcdRefusal::auth_off;
  return EtcdRefusal::none;
}

std::string explain(EtcdRefusal refusal, const std::string& user) {
  switch (refusal) {
    case EtcdRefusal::stale_token:
      return "etcd refuses the token that it has just given to the user " + user + "; look at etcd's log";
    case EtcdRefusal::no_user:
      return "etcd wants a user and a password; give them to the pair, or switch etcd's authentication off";
    case EtcdRefusal::wrong_password:
      return "etcd refuses the user " + user + " or its password; correct it in etcd, or in the pair";
    case EtcdRefusal::not_permitted:
      return "etcd does not permit the user " + user +
             " to read and write the pair's keys; grant it a role with readwrite on the prefix /lockstep/, or on the "
             "pair's own, /lockstep/ID/ with the id that the user was made for";
    case EtcdRefusal::auth_off:
      return "etcd's authentication is not enabled";
    case EtcdRefusal::no_space:
      return "etcd takes no writes, since its database is full; run `lockstep-witness compact` on its machine, or make "
             "room in an etcd of your own (etcdctl compact and defrag, or a larger --quota-backend-bytes), then "
             "etcdctl "
             "alarm disarm";
    case EtcdRefusal::none:
      break;
  }
  return "etcd refused the request";
}

EtcdLogin::Step EtcdLogin::next(engine::TimePoint now) {
  if (const auto* barred = std::get_if<Barred>(&state_)) {
    if (now < barred->until) return Step::fail;
    state_ = Missing{};
  }
  if (std::holds_alternative<Asking>(state_)) return Step::wait;
  if (!std::holds_alternative<Missing>(state_)) return Step::go;
  state_ = Asking{};
  return Step::ask;
}

const std::string& EtcdLogin::token() const {
  static const std::string none;
  const auto* holding = std::get_if<Holding>(&state_);
  return holding ? holding->token : none;
}

const std::string& EtcdLogin::problem() const {
  assert(std::holds_alternative<Barred>(state_));
  return std::get<Barred>(state_).problem;
}

void EtcdLogin::on_token(std::string token) {
  assert(std::holds_alternative<Asking>(state_));
  state_ = Holding{.token = std::move(token)};
  pause_ = kFirstPause;
}

void EtcdLogin::on_auth_off() {
  assert(std::holds_alternative<Asking>(state_));
  state_ = Free{};
  pause_ = kFirstPause;
}

void EtcdLogin::on_no_answer() {
  assert(std::holds_alternative<Asking>(state_));
  state_ = Missing{};
}

void EtcdLogin::on_wrong_password(engine::TimePoint now, std::string problem) {
  assert(std::holds_alternative<Asking>(state_));
  state_ = Barred{now + pause_, std::move(problem)};
  pause_ = std::min(pause_ * 2, kLongestPause);
}

/// Null when that token was replaced since.
EtcdLogin::Holding* EtcdLogin::holding(const std::string& token) {
  auto* held = std::get_if<Holding>(&state_);
  return held && held->token == token ? held : nullptr;
}

bool EtcdLogin::on_refused(const std::string& refused) {
  if (!has_user_) return false;
  const bool was_free = std::holds_alternative<Free>(state_) && refused.empty();
  if (was_free || holding(refused)) state_ = Missing{};
  return true;
}

void EtcdLogin::on_answered(const std::string& token) {
  if (auto* held = holding(token)) held->unanswered = 0;
}

void EtcdLogin::on_unanswered(const std::string& token) {
  if (auto* held = holding(token); held && ++held->unanswered == kUnanswered) state_ = Missing{};
}

}  // namespace lockstep::replication
