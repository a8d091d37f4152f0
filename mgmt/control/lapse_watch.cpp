#include "mgmt/control/lapse_watch.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "mgmt/control/credentials_change.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::mgmt {
namespace {

constexpr auto kLapseTurn = std::chrono::seconds(1);
constexpr std::int64_t kTryAgainMs = 10'000;

std::size_t old_ones(const Configuration& configuration) {
  const auto has_old = [](const Initiator& i) { return i.old.has_value(); };
  const bool of_the_link = configuration.pair && configuration.pair->link_beside;
  return static_cast<std::size_t>(std::ranges::count_if(configuration.initiators, has_old)) + (of_the_link ? 1 : 0);
}

}  // namespace

LapseWatch::LapseWatch(NodeCore& core, std::function<void()> each_turn)
    : core_(core), each_turn_(std::move(each_turn)), loop_("The watch over old credentials", kLapseTurn, [this] {
        turn(wall_clock_ms());
        if (each_turn_) each_turn_();
      }) {}

void LapseWatch::turn(std::int64_t now_ms) {
  if (core_.page.renew_if_due(now_ms))
    core_.events.append({.kind = "node.certificate",
                         .side = core_.side(),
                         .volume = {},
                         .message = "The self-made certificate of this node's page was near its end; the page shows a "
                                    "new one."});
  const auto configuration = core_.configuration();
  const std::size_t kept = old_ones(*configuration);
  traces_ = traces_ || kept < kept_;
  kept_ = kept;
  // Where the clock was ahead when it failed, it is tried at once.
  if (failed_ms_ && now_ms >= *failed_ms_ && now_ms - *failed_ms_ < kTryAgainMs) return;
  failed_ms_.reset();
  if (traces_) erase_traces(now_ms);
  if (core_.orders_changes() && has_lapsed_credentials(*configuration, now_ms)) forget(now_ms);
}

/// They are accepted no more anyhow: no node goes on alone for this, and a full disk keeps nothing else waiting.
void LapseWatch::forget(std::int64_t now_ms) {
  const auto me = core_.side();
  const bool is_alone = me && core_.revisions.state().epoch.is_only(*me);
  const auto edit = [now_ms](Configuration& c) -> Outcome<void> {
    forget_lapsed_credentials(c, now_ms);
    return {};
  };
  try {
    const auto changed = core_.change("Secrets of before forgotten, their time is over", edit,
                                      is_alone ? Agreement::one_is_let : Agreement::both);
    if (!changed) failed_ms_ = now_ms;
  } catch (const std::exception& e) {
    failed_ms_ = now_ms;
    log_error(fmt::format("Secrets whose time is over could not be taken out of the configuration yet: {}.", e.what()));
  }
}

/// The configuration has them no more; the database's write-ahead log has its old pages until it is emptied.
void LapseWatch::erase_traces(std::int64_t now_ms) {
  try {
    core_.database().empty_log();
    traces_ = false;
  } catch (const std::exception& e) {
    failed_ms_ = now_ms;
    log_error(fmt::format("Secrets that are accepted no more could not be erased from mgmt.db-wal yet: {}.", e.what()));
  }
}

}  // namespace lockstep::mgmt
