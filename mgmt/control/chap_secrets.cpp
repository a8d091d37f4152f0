#include "mgmt/control/chap_secrets.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "mgmt/control/validation.hpp"

namespace lockstep::mgmt {
namespace {

bool has(const std::optional<Chap>& chap, const std::string& secret) { return chap && chap->secret == secret; }

/// What it proves itself with, now or before.
bool has_own(const Initiator& i, const std::string& secret) {
  return has(i.chap, secret) || (i.old && i.old->chap.secret == secret);
}

/// What the target proves itself to it with, now or before.
bool has_targets(const Initiator& i, const std::string& secret) {
  return has(i.mutual, secret) || (i.old && has(i.old->mutual, secret));
}

std::string used_for(const std::string& what) {
  return fmt::format("Is {} already, which could pass for this one then (RFC 7143 9.2.1). Choose another secret.",
                     what);
}

void check_form(const Chap& chap, const std::string& pointer, std::vector<FieldProblem>& problems) {
  if (const auto complaint = check_chap_user(chap.user)) problems.push_back({pointer + "/user", *complaint});
  if (const auto complaint = check_chap_secret(chap.secret)) problems.push_back({pointer + "/secret", *complaint});
}

/// Who has the secret already; `mutual_too`: also as the target's towards it.
Complaint check_unused(const std::string& secret, const std::string& of, bool mutual_too, const Configuration& c) {
  for (const Initiator& other : c.initiators) {
    if (other.iqn == of) continue;
    if (has_own(other, secret)) return used_for("the secret of " + other.iqn);
    if (mutual_too && has_targets(other, secret)) return used_for("the target's secret towards " + other.iqn);
  }
  return {};
}

/// Beside what it had before, which is accepted for a while: no secret of one end may be the other's.
void check_beside_old(const Initiator& wanted, std::vector<FieldProblem>& problems) {
  if (!wanted.old || !wanted.chap) return;
  if (wanted.chap->secret == wanted.old->chap.secret)
    problems.push_back({"/chap/secret", "Is the one that the initiator has. Choose another secret."});
  if (has(wanted.old->mutual, wanted.chap->secret))
    problems.push_back({"/chap/secret", "Must differ from the target's secret, the one of before too."});
  if (has(wanted.mutual, wanted.old->chap.secret))
    problems.push_back({"/mutual_chap/secret", "Must differ from the initiator's secret, the one of before too."});
}

}  // namespace

std::vector<FieldProblem> chap_problems(const Initiator& wanted, const Configuration& c) {
  std::vector<FieldProblem> problems;
  const auto check = [&](const std::optional<Chap>& chap, const std::string& pointer, bool mutual_too) {
    if (!chap) return;
    check_form(*chap, pointer, problems);
    auto complaint = check_unused(chap->secret, wanted.iqn, mutual_too, c);
    if (!complaint && c.pair && has(c.pair->discovery, chap->secret)) complaint = used_for("the secret of discovery");
    if (complaint) problems.push_back({pointer + "/secret", *complaint});
  };
  check(wanted.chap, "/chap", true);
  check(wanted.mutual, "/mutual_chap", false);
  if (wanted.mutual && !wanted.chap)
    problems.push_back({"/mutual_chap", "Needs chap: the initiator proves itself first."});
  if (wanted.mutual && has(wanted.chap, wanted.mutual->secret))
    problems.push_back({"/mutual_chap/secret", "Must differ from the initiator's secret (RFC 7143 12.1.3)."});
  check_beside_old(wanted, problems);
  return problems;
}

std::vector<FieldProblem> discovery_problems(const Chap& wanted, const Configuration& c) {
  std::vector<FieldProblem> problems;
  check_form(wanted, "/discovery_chap", problems);
  if (const auto complaint = check_unused(wanted.secret, "", true, c))
    problems.push_back({"/discovery_chap/secret", *complaint});
  return problems;
}

}  // namespace lockstep::mgmt
