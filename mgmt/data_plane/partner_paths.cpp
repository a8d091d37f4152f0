#include "mgmt/data_plane/partner_paths.hpp"

#include <algorithm>
#include <utility>

#include "mgmt/log/log.hpp"

namespace lockstep::data_plane {

using replication::IscsiLink;
using replication::IscsiLinkSettings;
using replication::LinkWay;
using replication::PathSlot;
using replication::PathTransport;

static_assert(2 * PartnerPaths::kPaths <= replication::kMaxPaths);

namespace {

// The partner may have no RDMA at all, and each call makes and destroys queues in the network card.
constexpr engine::Duration kLastRetryOverRdma = std::chrono::seconds(10);

PathTransport transport_of(std::size_t number) {
  return number < PartnerPaths::kPaths ? PathTransport::tcp : PathTransport::rdma;
}

replication::PathRank rank_of(std::size_t number, bool last_resort) {
  return replication::rank_of(transport_of(number), 0, last_resort ? 1 : 0);
}

std::string path_name(std::size_t number) {
  const std::size_t beside = number % PartnerPaths::kPaths;
  return (beside == 0 ? "" : ", path " + std::to_string(beside + 1)) +
         (transport_of(number) == PathTransport::rdma ? ", RDMA" : "");
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
    link.on_problem([name, n](const std::string& why) { mgmt::log_info(name + path_name(n) + ": " + why); });
  }
  void on_link_up() override {
    paths.link_->on_path_up(slot);
    if (paths.told_) paths.told_(path_name(number), link.way());
  }
  void on_link_down() override {
    paths.link_->on_path_down(slot);
    if (paths.lost_) paths.lost_();
  }
  void on_link_failing() override {
    paths.link_->on_path_failing(slot);
    if (paths.lost_) paths.lost_();
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
  void on_set_back() override { mirror.on_set_back(); }

  PartnerPaths& paths;
  replication::LinkEvents& mirror;
};

PartnerPaths::PartnerPaths(engine::Reactor& reactor, engine::Random& random, const replication::Hello& ours,
                           const std::string& name, replication::LinkRdma* rdma)
    : rdma_(rdma), reactor_(reactor) {
  std::vector<replication::PathOut> out;
  for (std::size_t number = 0; number < (rdma != nullptr ? 2 : 1) * kPaths; ++number) {
    paths_.push_back(std::make_unique<Path>(*this, reactor, random, ours, name, number));
    out.push_back({paths_.back()->link, rank_of(number, false)});
  }
  link_ = std::make_unique<replication::PathsLink>(reactor, ours.process, std::move(out));
}

PartnerPaths::~PartnerPaths() = default;

void PartnerPaths::start(replication::LinkEvents& mirror, Told told) {
  told_ = std::move(told);
  of_link_ = std::make_unique<OfLink>(*this, mirror);
  link_->start(*of_link_);
  for (const auto& path : paths_) path->link.start(*path);
}

void PartnerPaths::stop(engine::Callback<> stopped) {
  told_ = nullptr;
  lost_ = nullptr;
  measurement_.reset();
  link_->stop();
  const auto all = std::make_shared<engine::Callback<>>(std::move(stopped));
  const auto left = std::make_shared<std::size_t>(paths_.size());
  for (const auto& path : paths_) {
    path->link.stop([all, left] {
      if (--*left == 0 && *all) (*all)();
    });
  }
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
  const auto is_free = [&](const auto& path) {
    return path->number < kPaths && places.at(path->number).settings.address.empty();
  };
  for (auto plan = plans.begin() + 1; plan != plans.end(); ++plan) {
    const auto same = std::ranges::find_if(paths_, [&](const auto& path) {
      return path->number != 0 && path->exists && is_free(path) && goes_there(plan->settings, path->plan);
    });
    same != paths_.end() ? places.at((*same)->number) = std::move(*plan) : others.emplace_back(std::move(*plan));
  }
  for (PathPlan& plan : others) places.at((*std::ranges::find_if(paths_, is_free))->number) = std::move(plan);
  return places;
}

/// A last resort is no path to prefer for its speed.
PathPlan PartnerPaths::over_rdma(const PathPlan& plan) const {
  if (plan.last_resort) return {};
  PathPlan twin = plan;
  twin.settings.rdma = rdma_;
  twin.settings.last_retry = kLastRetryOverRdma;
  return twin;
}

bool PartnerPaths::use(std::vector<PathPlan> plans) {
  auto places = placed(std::move(plans));
  bool all_go_on = true;
  for (const auto& path : paths_) {
    PathPlan& plan = places.at(path->number % kPaths);
    all_go_on &= use(*path, path->number < kPaths ? plan : over_rdma(plan));
  }
  return all_go_on;
}

bool PartnerPaths::use(Path& path, PathPlan plan) {
  plan.settings.identity.path = static_cast<std::uint8_t>(path.number);
  const bool goes_on = may_go_on(path, plan.settings);
  const bool was = std::exchange(path.exists, !plan.settings.address.empty());
  path.plan = {plan.settings.address, plan.settings.from};
  path.last_resort = plan.last_resort;
  link_->set_rank(path.slot, rank_of(path.number, plan.last_resort));
  if (was || path.exists) {
    goes_on ? path.link.use_from_next_login(std::move(plan.settings)) : change(path, std::move(plan.settings));
  }
  // One over RDMA that is down has nothing to lose: TCP stands beside it.
  const bool is_beside = transport_of(path.number) == PathTransport::rdma && !path.link.is_up();
  return !was || goes_on || is_beside;
}

void PartnerPaths::change(Path& path, IscsiLinkSettings settings) {
  link_->on_path_closing(path.slot);
  path.link.change(std::move(settings));
}

void PartnerPaths::change_first(IscsiLinkSettings settings) {
  if (rdma_ != nullptr) (void)use(*paths_.at(kPaths), over_rdma({settings}));
  change(*paths_.front(), std::move(settings));
}

bool PartnerPaths::measure(const LinkTest& which, engine::Callback<const replication::PathMeasured&> done) {
  if (measurement_) return false;
  const std::string to = which.to.to_string();
  const auto found = std::ranges::find_if(paths_, [&](const auto& path) {
    return path->number < kPaths && path->exists && path->link.way().address == to;
  });
  const std::size_t number = found == paths_.end() ? paths_.size() : (*found)->number + (which.over_rdma ? kPaths : 0);
  if (number >= paths_.size()) {
    done({});
    return true;
  }
  // Over RDMA out of memory that the network card knows, where that is to be had: a copy would be measured with it.
  engine::Buffer memory = which.over_rdma ? rdma_->pool.allocate(replication::kMaxLinkPayload) : engine::Buffer{};
  const bool copied = which.over_rdma && !memory;
  measurement_ = std::make_unique<replication::PathMeasurement>(
      reactor_, *link_, static_cast<PathSlot>(number),
      [this, copied, done = std::move(done)](replication::PathMeasured measured) mutable {
        const auto over = std::move(measurement_);
        measured.copied = copied;
        done(measured);
      },
      std::move(memory));
  return true;
}

const IscsiLink& PartnerPaths::first() const { return paths_.front()->link; }

const IscsiLink& PartnerPaths::up() const {
  const auto found = std::ranges::find_if(paths_, [](const auto& path) { return path->link.is_up(); });
  return found == paths_.end() ? first() : (*found)->link;
}

void PartnerPaths::set_lease(engine::Duration lease) { link_->set_lease(lease); }

const std::string& PartnerPaths::problem() const {
  if (link_->loses_data()) return link_->problem();
  return first().problem().empty() ? link_->problem() : first().problem();
}

std::vector<PathReport> PartnerPaths::report() const {
  std::vector<PathReport> reports;
  for (std::size_t number = 0; number < kPaths; ++number) {
    if (paths_[number]->exists) reports.push_back(report(*paths_[number]));
  }
  return reports;
}

PathReport PartnerPaths::report(const Path& path) const {
  const replication::PathManager& all = link_->paths();
  PathReport report;
  report.way = path.link.way();
  report.last_resort = path.last_resort;
  report.cipher = path.link.cipher();
  report.kernel_tls = path.link.is_encrypted_by_kernel();
  report.figures = path.link.figures();
  report.losses = all.losses(path.slot);
  report.problem = path.link.is_up() ? "" : path.link.problem();
  report.state = state_of(path);
  if (path.number + kPaths >= paths_.size()) return report;
  const Path& twin = *paths_[path.number + kPaths];
  if (twin.exists) {
    report.rdma = {.state = state_of(twin),
                   .cipher = std::string(twin.link.cipher()),
                   .problem = twin.link.is_up() ? "" : twin.link.problem(),
                   .losses = all.losses(twin.slot)};
  }
  return report;
}

PathReport::State PartnerPaths::state_of(const Path& path) const {
  using State = PathReport::State;
  const replication::PathManager& all = link_->paths();
  // Of a partner that knows only one path, it is what is up.
  const bool plain = link_->version() != 0 && link_->version() < replication::kSeveralPaths;
  if (all.is_proven(path.slot) || (plain && path.link.is_up())) return State::proven;
  if (all.is_proving(path.slot)) return State::proving;
  return path.link.is_up() ? State::joining : State::down;
}

std::optional<PartnerPaths::Carrier> PartnerPaths::carrier() const {
  if (!link_->is_up()) return std::nullopt;
  const std::array<std::uint64_t, replication::kMaxPaths> no_load{};
  const auto best = link_->paths().best(no_load, reactor_.now());
  const auto up = std::ranges::find_if(paths_, [](const auto& path) { return path->link.is_up(); });
  const Path& path = best ? *paths_[index_of(*best)] : up != paths_.end() ? **up : *paths_.front();
  return Carrier{transport_of(path.number), path.link.cipher()};
}

}  // namespace lockstep::data_plane
