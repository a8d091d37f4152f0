#include "mgmt/data_plane/partner_paths.hpp"

#include <algorithm>
#include <utility>

#include "mgmt/log/log.hpp"

namespace lockstep::data_plane {

using replication::IscsiLink;
using replication::IscsiLinkSettings;
using replication::LinkWay;
using replication::PathSlot;

static_assert(PartnerPaths::kPaths <= replication::kMaxPaths);

namespace {

replication::PathRank rank_of(bool last_resort) {
  return replication::rank_of(replication::PathTransport::tcp, 0, last_resort ? 1 : 0);
}

bool goes_there(const IscsiLinkSettings& settings, const LinkWay& way) {
  const LinkWay first{settings.address, settings.from};
  return first == way || std::ranges::find(settings.others, way) != settings.others.end();
}

IscsiLinkSettings settings_of(const replication::Hello& ours, std::size_t number) {
  IscsiLinkSettings settings;
  settings.identity.ours = ours;
  settings.identity.path = static_cast<std::uint8_t>(number);
  return settings;
}

}  // namespace

/// One session out, which dials by itself. Its way in is the target's (replication::PathsTarget).
struct PartnerPaths::Path final : replication::LinkEvents {
  Path(PartnerPaths& all, engine::Reactor& reactor, engine::Random& random, const replication::Hello& ours,
       const std::string& name, std::size_t n)
      : paths(all), number(n), slot(static_cast<PathSlot>(n)), link(reactor, random, settings_of(ours, n)) {
    link.on_problem([name, n](const std::string& why) {
      mgmt::log_info(name + (n == 0 ? "" : ", path " + std::to_string(n + 1)) + ": " + why);
    });
  }
  void on_link_up() override {
    paths.link_->on_path_up(slot);
    if (paths.told_) paths.told_(number, true);
  }
  void on_link_down() override {
    paths.link_->on_path_down(slot);
    if (paths.told_) paths.told_(number, false);
  }
  void on_inbound_up(std::uint64_t) override {}
  void on_inbound_down(std::uint64_t) override {}
  void on_request(std::uint64_t, replication::InboundRequest&) override {}

  PartnerPaths& paths;
  std::size_t number;
  PathSlot slot;
  bool exists = false;
  LinkWay plan;  ///< where it is to go
  bool last_resort = false;
  IscsiLink link;
};

/// The link's events are the mirror's, and one of them is news for the paths as well.
struct PartnerPaths::OfLink final : replication::LinkEvents {
  OfLink(PartnerPaths& all, replication::LinkEvents& above) : paths(all), mirror(above) {}
  void on_link_up() override {
    mirror.on_link_up();
    paths.try_all_at_once();
  }
  void on_link_down() override { mirror.on_link_down(); }
  void on_inbound_up(std::uint64_t) override {}
  void on_inbound_down(std::uint64_t) override {}
  void on_request(std::uint64_t, replication::InboundRequest&) override {}

  PartnerPaths& paths;
  replication::LinkEvents& mirror;
};

PartnerPaths::PartnerPaths(engine::Reactor& reactor, engine::Random& random, const replication::Hello& ours,
                           const std::string& name)
    : reactor_(reactor) {
  std::vector<replication::PathOut> out;
  for (std::size_t number = 0; number < kPaths; ++number) {
    paths_.push_back(std::make_unique<Path>(*this, reactor, random, ours, name, number));
    out.push_back({paths_.back()->link, rank_of(false)});
  }
  link_ = std::make_unique<replication::PathsLink>(reactor, ours.process, std::move(out));
}

PartnerPaths::~PartnerPaths() = default;

void PartnerPaths::start(replication::LinkEvents& mirror, engine::Callback<std::size_t, bool> told) {
  told_ = std::move(told);
  of_link_ = std::make_unique<OfLink>(*this, mirror);
  link_->start(*of_link_);
  for (const auto& path : paths_) path->link.start(*path);
}

void PartnerPaths::stop() {
  told_ = nullptr;
  measurement_.reset();
  link_->stop();
  for (const auto& path : paths_) path->link.stop();
}

/// The partner is there and has let this node in: what waits after attempts in vain would be missed for up to a second.
/// That a path stands says less. Where each is refused as soon as it asks to join, one would call the other without
/// any pause, for ever.
void PartnerPaths::try_all_at_once() {
  for (const auto& path : paths_) path->link.try_at_once();
}

bool PartnerPaths::may_go_on(const Path& path, const IscsiLinkSettings& settings) {
  return path.exists && !settings.address.empty() && goes_there(settings, path.link.way()) &&
         path.link.cipher().empty() == (settings.tls == nullptr);
}

/// The first plan is the first path's; any other is that of the path which goes its way already, or of a free one.
std::array<PathPlan, PartnerPaths::kPaths> PartnerPaths::placed(std::vector<PathPlan> plans) const {
  assert(!plans.empty() && plans.size() <= kPaths);
  std::array<PathPlan, kPaths> places;
  places.front() = std::move(plans.front());
  std::vector<PathPlan> others;
  const auto is_free = [&](const auto& path) { return places.at(path->number).settings.address.empty(); };
  for (auto plan = plans.begin() + 1; plan != plans.end(); ++plan) {
    const auto same = std::ranges::find_if(paths_, [&](const auto& path) {
      return path->number != 0 && path->exists && is_free(path) && goes_there(plan->settings, path->plan);
    });
    same != paths_.end() ? places.at((*same)->number) = std::move(*plan) : others.emplace_back(std::move(*plan));
  }
  for (PathPlan& plan : others) places.at((*std::ranges::find_if(paths_, is_free))->number) = std::move(plan);
  return places;
}

bool PartnerPaths::use(std::vector<PathPlan> plans) {
  auto places = placed(std::move(plans));
  bool all_go_on = true;
  for (const auto& path : paths_) {
    PathPlan& plan = places.at(path->number);
    plan.settings.identity.path = static_cast<std::uint8_t>(path->number);
    const bool goes_on = may_go_on(*path, plan.settings);
    const bool was = std::exchange(path->exists, !plan.settings.address.empty());
    all_go_on &= !was || goes_on;
    path->plan = {plan.settings.address, plan.settings.from};
    path->last_resort = plan.last_resort;
    link_->set_rank(path->slot, rank_of(plan.last_resort));
    if (!was && !path->exists) continue;
    goes_on ? path->link.use_from_next_login(std::move(plan.settings)) : change(*path, std::move(plan.settings));
  }
  return all_go_on;
}

void PartnerPaths::change(Path& path, IscsiLinkSettings settings) {
  link_->on_path_closing(path.slot);
  path.link.change(std::move(settings));
}

void PartnerPaths::change_first(IscsiLinkSettings settings) { change(*paths_.front(), std::move(settings)); }

bool PartnerPaths::measure(const std::string& to, engine::Callback<const replication::PathMeasured&> done) {
  if (measurement_) return false;
  const auto found =
      std::ranges::find_if(paths_, [&](const auto& path) { return path->exists && path->link.way().address == to; });
  // One that there is not has joined nothing, as one that is down.
  const std::size_t number = found == paths_.end() ? kPaths : (*found)->number;
  measurement_ = std::make_unique<replication::PathMeasurement>(
      reactor_, *link_, static_cast<PathSlot>(number),
      [this, done = std::move(done)](const replication::PathMeasured& measured) mutable {
        const auto over = std::move(measurement_);
        done(measured);
      });
  return true;
}

const IscsiLink& PartnerPaths::first() const { return paths_.front()->link; }

const IscsiLink& PartnerPaths::up() const {
  const auto found = std::ranges::find_if(paths_, [](const auto& path) { return path->link.is_up(); });
  return found == paths_.end() ? first() : (*found)->link;
}

const std::string& PartnerPaths::problem() const {
  return first().problem().empty() ? link_->problem() : first().problem();
}

std::vector<PathReport> PartnerPaths::report() const {
  const replication::PathManager& all = link_->paths();
  std::vector<PathReport> reports;
  for (const auto& path : paths_) {
    if (!path->exists) continue;
    PathReport report;
    report.way = path->link.way();
    report.last_resort = path->last_resort;
    report.cipher = path->link.cipher();
    report.figures = path->link.figures();
    report.losses = all.losses(path->slot);
    report.problem = path->link.is_up() ? "" : path->link.problem();
    // Of a partner that knows only one path, it is what is up.
    const bool plain = link_->version() != 0 && link_->version() < replication::kSeveralPaths;
    report.state = all.is_proven(path->slot) || (plain && path->link.is_up()) ? PathReport::State::proven
                   : all.is_proving(path->slot)                               ? PathReport::State::proving
                   : path->link.is_up()                                       ? PathReport::State::joining
                                                                              : PathReport::State::down;
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace lockstep::data_plane
