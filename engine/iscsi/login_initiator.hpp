#pragma once
// The initiator's side of the login phase: what the partner link logs in to its partner with. The mirror of
// TargetLogin.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/result.hpp"
#include "engine/iscsi/chap.hpp"
#include "engine/iscsi/keys.hpp"
#include "engine/iscsi/pdu.hpp"
#include "engine/iscsi/serial.hpp"
#include "engine/iscsi/text.hpp"

namespace lockstep::iscsi {

struct InitiatorLoginSettings {
  std::string initiator_name;
  std::string target_name;  ///< empty: a discovery session
  Isid isid{};
  std::uint16_t cid = 0;
  Serial cmd_sn{1};
  Offers offers;
  /// user/secret prove us to the target; with a mutual_user the target must prove itself with the mutual pair.
  std::optional<ChapCredentials> chap;
  /// Our name in challenges (is_asked_by()): ours carry it, and one that carries it is not answered. Empty: none.
  std::string asker;
};

class InitiatorLogin {
 public:
  struct Step {
    enum class Next : std::uint8_t {
      send,    ///< send the request, wait for its response
      done,    ///< full feature phase
      failed,  ///< close; `error` says why
    };
    Next next = Next::send;
    LoginRequestHeader header{};
    std::string text;
    engine::Error error;
  };

  InitiatorLogin(InitiatorLoginSettings settings, engine::Random& random)
      : settings_(std::move(settings)), random_(random) {}

  /// The first request.
  [[nodiscard]] Step start();
  [[nodiscard]] Step on_response(const LoginResponseHeader& header, std::span<const std::byte> text);

  [[nodiscard]] const Parameters& parameters() const { return agreed_; }
  [[nodiscard]] std::uint16_t tsih() const { return tsih_; }
  [[nodiscard]] std::uint16_t portal_group() const { return portal_group_; }
  /// For the session that follows: the first command's CmdSN, the next StatSN expected, the window's end.
  [[nodiscard]] Serial cmd_sn() const { return settings_.cmd_sn; }
  [[nodiscard]] Serial exp_stat_sn() const { return exp_stat_sn_; }
  [[nodiscard]] Serial max_cmd_sn() const { return max_cmd_sn_; }
  /// The TargetAddress of a redirection, when that is why the login failed.
  [[nodiscard]] const std::string& redirect() const { return redirect_; }

 private:
  using Pairs = std::vector<TextPair>;
  enum class Chap : std::uint8_t { none, method_offered, algorithm_offered, responded, finished };

  [[nodiscard]] std::optional<Step> check(const LoginResponseHeader& header);
  [[nodiscard]] std::optional<Step> take_keys(const Pairs& pairs);
  [[nodiscard]] std::optional<Step> security(const Pairs& pairs);
  [[nodiscard]] std::optional<Step> respond_to_challenge(const Pairs& pairs);
  [[nodiscard]] std::optional<Step> verify_target(const Pairs& pairs);
  [[nodiscard]] Step advance(const LoginResponseHeader& header);
  [[nodiscard]] Step request(std::uint8_t flags);
  [[nodiscard]] Step fail(engine::Errc code, std::string message);

  InitiatorLoginSettings settings_;
  engine::Random& random_;
  Parameters agreed_;
  TextAssembler incoming_;
  std::string outgoing_;
  std::optional<ChapVerifier> verifier_;
  ChapAlgorithm algorithm_{};
  Chap chap_ = Chap::none;
  Stage stage_ = Stage::security;
  unsigned turns_ = 0;
  bool offered_ = false;
  std::uint16_t tsih_ = 0;
  std::uint16_t portal_group_ = 0;
  Serial exp_stat_sn_, max_cmd_sn_;
  std::string redirect_;
};

}  // namespace lockstep::iscsi
