#pragma once
// The target's side of the login phase (RFC 7143 6.3): Login Requests in, Login Responses out. Knows no socket and no
// clock: who drives it limits the time. Nothing about a target is said before its authority has spoken.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/iscsi/chap.hpp"
#include "engine/iscsi/keys.hpp"
#include "engine/iscsi/pdu.hpp"
#include "engine/iscsi/serial.hpp"
#include "engine/iscsi/text.hpp"

namespace lockstep::iscsi {

struct LoginIdentity {
  std::string initiator_name, initiator_alias;
  std::string target_name;  ///< empty for discovery
  bool discovery = false;
  Isid isid{};
  std::uint16_t tsih = 0;
  std::uint16_t cid = 0;
};

struct LoginDecision {
  LoginStatus status = LoginStatus::success;  ///< anything else ends the login
  std::string redirect;                       ///< TargetAddress, with moved_temporarily and moved_permanently
  std::uint16_t portal_group = 1;
  std::string target_alias;
  /// Who may log in: one of these must be proven. Empty: no authentication.
  std::vector<ChapCredentials> chap;
  std::string asker;   ///< our name in challenges, as InitiatorLoginSettings has it
  std::string reason;  ///< of a refusal, for the log: a whole sentence
  /// Nobody may log in so. With `chap`, which nobody can prove then, the login goes as that of somebody with a secret
  /// goes and ends as with a wrong one, so that its answers don't tell who is known here; `reason` says why, for the
  /// log.
  bool in_vain = false;
};

constexpr std::size_t kMaxLoginRequests = 64;  ///< in one login

/// Decides who may log in to what. Asked once per login, as soon as the names are known.
class LoginAuthority {
 public:
  virtual LoginDecision decide(const LoginIdentity& who) = 0;

 protected:
  ~LoginAuthority() = default;
};

class TargetLogin {
 public:
  struct Step {
    enum class Next : std::uint8_t {
      answer,  ///< send the response, go on
      admit,   ///< nothing to send yet: the session may begin; call admit() or refuse()
      done,    ///< send the response: full feature phase
      failed,  ///< send the response, then close
    };
    Next next = Next::answer;
    LoginResponseHeader header{};
    std::string text;
    std::string reason;  ///< of a failure, for the log: a whole sentence
  };

  TargetLogin(LoginAuthority& authority, engine::Random& random, const Offers& offers)
      : authority_(authority), random_(random), offers_(offers) {}

  [[nodiscard]] Step on_request(const LoginRequestHeader& header, std::span<const std::byte> text);
  /// After Step::Next::admit. `window` is how many commands the initiator may send at first.
  [[nodiscard]] Step admit(std::uint16_t tsih, std::uint32_t window);
  [[nodiscard]] Step refuse(LoginStatus status, std::string reason);

  [[nodiscard]] const LoginIdentity& identity() const { return who_; }
  [[nodiscard]] const LoginDecision& decision() const { return decision_; }
  /// The next request brings the answer to our challenge.
  [[nodiscard]] bool awaits_proof() const { return chap_ == Chap::challenged; }
  /// With what the initiator proved itself; nothing when nothing was asked for.
  [[nodiscard]] const std::optional<ChapCredentials>& proof() const { return proof_; }
  [[nodiscard]] const Parameters& parameters() const { return agreed_; }
  [[nodiscard]] Serial next_stat_sn() const { return stat_sn_; }
  [[nodiscard]] Serial exp_cmd_sn() const { return cmd_sn_; }

 private:
  using Pairs = std::vector<TextPair>;
  enum class Chap : std::uint8_t { none, method_chosen, challenged, passed };

  [[nodiscard]] std::optional<Step> check_header(const LoginRequestHeader& header);
  [[nodiscard]] std::optional<Step> names(const Pairs& pairs);
  [[nodiscard]] std::optional<Step> repeated_names(const Pairs& pairs);
  [[nodiscard]] std::optional<Step> take_keys(const Pairs& pairs);
  [[nodiscard]] std::optional<Step> operational_key(const KeyRule& rule, std::string_view value);
  [[nodiscard]] std::optional<Step> security(const Pairs& pairs);
  [[nodiscard]] std::optional<Step> choose_method(std::string_view offered);
  [[nodiscard]] std::optional<Step> challenge(std::string_view algorithms);
  [[nodiscard]] std::optional<Step> verify(const Pairs& pairs);
  [[nodiscard]] std::optional<Step> prove_ourselves(const Pairs& pairs, const ChapCredentials& credentials);
  [[nodiscard]] Step respond();
  [[nodiscard]] std::optional<Step> check_agreement();
  [[nodiscard]] Step answer_step(std::uint8_t flags);
  [[nodiscard]] Step fail(LoginStatus status, std::string reason);
  [[nodiscard]] LoginResponseHeader response_header(std::uint8_t flags);
  [[nodiscard]] bool authenticated() const { return decision_.chap.empty() || chap_ == Chap::passed; }
  void answer(std::string_view key, std::string_view value);

  LoginAuthority& authority_;
  engine::Random& random_;
  Offers offers_;
  LoginIdentity who_;
  LoginDecision decision_;
  Parameters agreed_;
  LoginRequestHeader request_{};
  TextAssembler incoming_;
  TextSender outgoing_;
  std::string answers_;                               // keys to be told with the next response
  std::string piece_;                                 // the part of them that goes out with this one
  std::vector<std::pair<Key, std::string>> settled_;  // keys negotiated, with what was offered
  std::optional<ChapVerifier> verifier_;
  std::optional<ChapCredentials> proof_;
  Chap chap_ = Chap::none;
  Stage stage_ = Stage::security;
  Serial stat_sn_;
  Serial cmd_sn_;
  std::size_t requests_ = 0;
  bool first_ = true;
  bool named_ = false;
  bool group_told_ = false;
  bool limits_told_ = false;
};

}  // namespace lockstep::iscsi
