// Login Requests made of any text: the target answers, admits or refuses; an unproven initiator is never let in.
#include <cassert>
#include <cstdint>
#include <cstring>
#include <span>

#include "engine/iscsi/login_target.hpp"
#include "engine/seams/random.hpp"

namespace {

class Fixed final : public lockstep::engine::Random {
 public:
  std::uint64_t next() override { return state_ = state_ * 6364136223846793005ull + 1442695040888963407ull; }

 private:
  std::uint64_t state_ = 1;
};

class Authority final : public lockstep::iscsi::LoginAuthority {
 public:
  explicit Authority(bool wants_chap) : wants_chap_(wants_chap) {}
  lockstep::iscsi::LoginDecision decide(const lockstep::iscsi::LoginIdentity&) override {
    lockstep::iscsi::LoginDecision decision;
    if (wants_chap_) decision.chap.push_back({.user = "someone", .secret = "a secret nobody guesses"});
    return decision;
  }

 private:
  bool wants_chap_;
};

}  // namespace

// Input: one byte of options, then requests of {flags, two bytes of length, text}.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::iscsi;
  if (size < 4) return 0;
  Fixed random;
  const bool wants_chap = data[0] & 1;
  Authority authority(wants_chap);
  TargetLogin login(authority, random, Offers{});
  auto rest = std::span(data, size).subspan(1);
  for (unsigned n = 0; rest.size() >= 3 && n < 64; ++n) {
    LoginRequestHeader header{};
    std::memset(&header, 0, sizeof header);
    header.opcode = 0x43;
    header.flags = rest[0];
    const auto length = std::min<std::size_t>(rest[1] << 8 | rest[2], rest.size() - 3);
    const auto step = login.on_request(header, std::as_bytes(rest.subspan(3, length)));
    if (step.next == TargetLogin::Step::Next::failed) return 0;
    // The secret is not in the corpus: nobody may come in where one is asked for.
    assert(!(wants_chap && step.next != TargetLogin::Step::Next::answer));
    if (step.next == TargetLogin::Step::Next::admit && login.admit(1, 32).next == TargetLogin::Step::Next::failed)
      return 0;
    if (step.next == TargetLogin::Step::Next::done) return 0;
    rest = rest.subspan(3 + length);
  }
  return 0;
}
