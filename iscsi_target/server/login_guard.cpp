#include "iscsi_target/server/login_guard.hpp"

#include <algorithm>

namespace lockstep::iscsi_target {
namespace {

engine::Duration gap_after(unsigned guesses) {
  if (guesses < LoginGuard::kFreeGuesses) return engine::Duration{};
  constexpr unsigned kDoublings = 3;
  static_assert(LoginGuard::kFirstGap * (1 << kDoublings) == LoginGuard::kLastGap);
  return LoginGuard::kFirstGap * (1 << std::min(guesses - LoginGuard::kFreeGuesses, kDoublings));
}

}  // namespace

std::string LoginGuard::host_key(const std::string& address, const std::string& name) { return address + " " + name; }

std::string LoginGuard::source_of(const std::string& address, const std::string& name) const {
  std::string host = host_key(address, name);
  return hosts_.contains(host) ? host : address;
}

LoginGuard::Guesses LoginGuard::found(const Table& table, const std::string& key, engine::TimePoint now) {
  const auto at = table.find(key);
  return at == table.end() || now - at->second.last >= kForgottenAfter ? Guesses{} : at->second;
}

// The one that was quiet for longest makes room.
void LoginGuard::keep(Table& table, const std::string& key, Guesses guesses) {
  if (table.size() >= kMostKept && !table.contains(key)) {
    table.erase(std::ranges::min_element(table, {}, [](const auto& entry) { return entry.second.last; }));
  }
  table.insert_or_assign(key, guesses);
}

std::optional<engine::Duration> LoginGuard::ask(const std::string& address, const std::string& name,
                                                engine::Duration waited, engine::TimePoint now) {
  const std::string source = source_of(address, name);
  const Guesses from_there = found(sources_, source, now);
  const Guesses of_name = found(names_, name, now);
  engine::Duration left =
      from_there.count == 0 ? engine::Duration{} : from_there.last + gap_after(from_there.count) - now;
  if (source == address && of_name.count >= kFreeGuessesOfName) left = std::max(left, kNameWait - waited);
  if (left > engine::Duration{}) return waited + left > kMostWait ? std::nullopt : std::optional(left);
  keep(sources_, source, {from_there.count + 1, now});
  keep(names_, name, {of_name.count + 1, now});
  return engine::Duration{};
}

void LoginGuard::proved(const std::string& address, const std::string& name, engine::TimePoint now) {
  sources_.erase(source_of(address, name));
  if (const auto at = names_.find(name); at != names_.end() && at->second.count > 0) --at->second.count;
  keep(hosts_, host_key(address, name), {.count = 0, .last = now});
}

}  // namespace lockstep::iscsi_target
