#include "mgmt/control/link_tls_jobs.hpp"

#include <fmt/format.h>

#include "mgmt/control/carried_out.hpp"
#include "mgmt/control/job_steps.hpp"

namespace lockstep::mgmt {
namespace {

constexpr const char* kToTls = "to_tls";
constexpr const char* kToPlain = "to_plain";

const char* what_is_done(LinkProtection next) {
  switch (next) {
    case LinkProtection::off:
      return "The replication link has no TLS";
    case LinkProtection::accepted:
      return "The replication link takes calls with TLS and without";
    case LinkProtection::used:
      return "The replication link calls with TLS";
    case LinkProtection::required:
      break;
  }
  return "The replication link takes nothing without TLS";
}

}  // namespace

LinkProtection next_on_the_way(LinkProtection from, bool with_tls) {
  const LinkProtection end = with_tls ? LinkProtection::required : LinkProtection::off;
  if (from == end) return end;
  const int step = with_tls ? 1 : -1;
  return static_cast<LinkProtection>(static_cast<int>(from) + step);
}

LinkTlsJobs::LinkTlsJobs(NodeCore& core, JobRunner& runner, PairHands hands, std::function<void()> poke)
    : core_(core), runner_(runner), hands_(std::move(hands)), poke_(std::move(poke)) {}

void LinkTlsJobs::teach() {
  runner_.teach(kLinkTlsKind, [this](Job& job) { return step(job); });
}

Outcome<void> LinkTlsJobs::may_begin(const Configuration& configuration, bool with_tls) const {
  if (!configuration.pair) return refuse(RefusalKind::no_pair, "Make a pair or join one first.");
  for (const auto& job : core_.jobs.unfinished())
    if (job.kind == kLinkTlsKind)
      return refuse(RefusalKind::conflict, "The link's protection is being changed already. Wait for that job to end.");
  const LinkProtection now = configuration.pair->link_protection;
  if (now == next_on_the_way(now, with_tls))
    return refuse(RefusalKind::conflict,
                  with_tls ? "The replication link has TLS already." : "The replication link has no TLS already.");
  if (configuration.nodes.size() != 2) return {};
  if (auto good =
          both_run(configuration, hands_, "The link is changed on both nodes or not at all; nothing was changed.");
      !good)
    return good;
  return core_.check_orders_for_both();
}

Outcome<Job> LinkTlsJobs::protect(bool with_tls) {
  const auto only = begins_.begin();
  if (!only) return std::unexpected(only.error());
  const auto configuration = core_.configuration();
  if (auto good = may_begin(*configuration, with_tls); !good) return std::unexpected(good.error());
  Job job = make_job(core_, kLinkTlsKind, with_tls ? kToTls : kToPlain,
                     with_tls ? "Has both nodes accept TLS, too." : "Has both nodes accept calls without TLS, too.");
  runner_.submit(job);
  return job;
}

StepResult LinkTlsJobs::step(Job& job) {
  const auto configuration = core_.configuration();
  if (!configuration->pair) return fail(core_, job, {RefusalKind::not_found, "The pair is gone.", {}});
  if (job.step != kToTls && job.step != kToPlain)
    return fail(core_, job, {RefusalKind::internal, "The job is at a step that this version does not know.", {}});
  const bool with_tls = job.step == kToTls;
  if (configuration->nodes.size() == 2) {
    if (const auto why = why_behind(core_, hands_)) {
      poke_();
      return wait(job, *why);
    }
  }
  const LinkProtection next = next_on_the_way(configuration->pair->link_protection, with_tls);
  if (next == configuration->pair->link_protection) return finish(job, with_tls);
  const auto changed = hands_.change(what_is_done(next), [next](Configuration& c) -> Outcome<void> {
    c.pair->link_protection = next;
    return {};
  });
  poke_();
  if (!changed && passing(changed.error())) return wait(job, changed.error().detail);
  if (!changed) return fail(core_, job, changed.error());
  return move_on(job, job.step.c_str(), std::min(0.9, job.progress + 0.3), fmt::format("{}.", what_is_done(next)));
}

StepResult LinkTlsJobs::finish(Job& job, bool with_tls) {
  const std::string message = with_tls ? "The replication link is encrypted, and takes nothing without TLS."
                                       : "The replication link is not encrypted any more.";
  core_.events.append({.kind = "pair.changed", .side = {}, .volume = {}, .message = message});
  return mgmt::finish(job, message);
}

}  // namespace lockstep::mgmt
