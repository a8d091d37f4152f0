#pragma once
// How fast secrets may be guessed. Proofs (CHAP_R) of a source that has failed are looked at one after the other, ever
// more slowly; a right one is waited for in the same way as a wrong one, so that nobody learns from the wait. A source
// is an address, and by itself each name that has proved itself from that address: whoever guesses from there does not
// hold it up. A name that is guessed from many addresses is waited for everywhere but where it has proved itself
// before, for a time that is bounded, so that guessing keeps no host out. Pure: knows no clock and no thread.
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "engine/seams/clock.hpp"

namespace lockstep::iscsi_target {

/// Not thread-safe: the server locks around it.
class LoginGuard {
 public:
  static constexpr unsigned kFreeGuesses = 5;                              ///< wrong proofs of a source, unslowed
  static constexpr unsigned kFreeGuessesOfName = 10;                       ///< wrong proofs of a name, from anywhere
  static constexpr engine::Duration kFirstGap = std::chrono::seconds(1);   ///< between a source's proofs; doubles
  static constexpr engine::Duration kLastGap = std::chrono::seconds(8);    ///< up to this
  static constexpr engine::Duration kNameWait = std::chrono::seconds(2);   ///< of a name that is being guessed
  static constexpr engine::Duration kMostWait = std::chrono::seconds(10);  ///< of one proof; refused beyond
  static constexpr engine::Duration kForgottenAfter = std::chrono::minutes(1);  ///< without a proof
  static constexpr std::size_t kMostKept = 4096;                                ///< sources, names, and hosts known

  /// A proof of `name` came from `address` and has waited for `waited`. Zero: look at it now; it counts as wrong until
  /// proved() is called. Otherwise ask again after that time. Nothing: refuse it unseen.
  [[nodiscard]] std::optional<engine::Duration> ask(const std::string& address, const std::string& name,
                                                    engine::Duration waited, engine::TimePoint now);
  /// The proof that was looked at was right.
  void proved(const std::string& address, const std::string& name, engine::TimePoint now);

 private:
  struct Guesses {
    unsigned count = 0;
    engine::TimePoint last;
  };
  using Table = std::map<std::string, Guesses, std::less<>>;
  [[nodiscard]] static std::string host_key(const std::string& address, const std::string& name);
  [[nodiscard]] std::string source_of(const std::string& address, const std::string& name) const;
  [[nodiscard]] static Guesses found(const Table& table, const std::string& key, engine::TimePoint now);
  static void keep(Table& table, const std::string& key, Guesses guesses);

  Table sources_, names_, hosts_;  // `hosts_`: names with the addresses that they have proved themselves from
};

}  // namespace lockstep::iscsi_target
