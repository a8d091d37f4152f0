#include "mgmt/data_plane/pair_shard.hpp"

#include <algorithm>

#include "engine/net/socket_address.hpp"
#include "mgmt/data_plane/access.hpp"
#include "mgmt/data_plane/lease_clock.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::data_plane {

using mgmt::log_info;
using mgmt::log_warning;

namespace {

// One of each path, either way of carrying it, and those that only try whether a login succeeds.
constexpr std::size_t kSessions = 2 * PartnerPaths::kPaths + PairShard::kMaxTrials;

std::string link_name(unsigned shard) {
  return shard == 0 ? "Partner link" : "Partner link, shard " + std::to_string(shard);
}

replication::NodeSettings node_settings(const ShardSettings& shard) {
  const PairIdentity& identity = shard.identity;
  const SettingsSpec& settings = shard.settings;
  replication::NodeSettings node;
  node.pair = identity.pair;
  node.side = identity.side;
  node.process = identity.process;
  node.boot = this_boot();
  node.lease = settings.lease;
  node.other_lease = settings.other_lease;
  node.heartbeat_interval = settings.lease / 6;
  node.resync_floor = settings.resync_floor;
  node.resync_ceiling = settings.resync_ceiling;
  node.confirms_reads = shard.confirms_reads;
  return node;
}

bool calls_with_tls(const PartnerSpec& partner) {
  return partner.link.tls && partner.link.tls->mode != LinkTlsMode::accepted;
}

template <class T>
bool holds(const std::vector<T>& list, const T& one) {
  return std::ranges::find(list, one) != list.end();
}

std::string any_port(SocketAddress address) {
  address.port = 0;
  return address.to_string();
}

/// The first of them is wanted; while an address takes the place of another the old one works, too.
std::vector<replication::LinkWay> ways_of(const LinkSpec& link) {
  std::vector<replication::LinkWay> ways;
  for (const auto& from : {std::optional(link.listen), link.listen_beside})
    for (const auto& to : {std::optional(link.connect), link.connect_beside})
      if (from && to) ways.push_back({to->to_string(), any_port(*from)});
  return ways;
}

/// Of every path, the partner's.
std::vector<SocketAddress> calling_of(const LinkSpec& link) {
  std::vector<SocketAddress> all{link.connect};
  if (link.connect_beside) all.push_back(*link.connect_beside);
  for (const auto& path : link.more_paths) all.push_back(path.connect);
  return all;
}

/// Several of the mirror's ticks, which the shorter lease sets.
engine::Duration patience_with_fence(const SettingsSpec& settings) {
  return std::max(settings.lease, settings.other_lease) / 6;
}

std::vector<iscsi_target::ServerReactor> server_reactors(engine::Reactor& reactor, engine::BufferPool& pool,
                                                         ShardRdma* rdma) {
  iscsi_target::ServerReactor one{&reactor, &pool};
  if (rdma != nullptr) rdma->add_to(one);
  return {one};
}

iscsi_target::ServerOptions server_options(const ShardRdma* rdma) {
  iscsi_target::ServerOptions options;
  if (rdma != nullptr) options.rdma = rdma->service();
  iscsi::Offers& offers = options.session.offers;
  offers.header_digest = iscsi::Offers::Digest::crc32c;
  offers.data_digest = iscsi::Offers::Digest::crc32c;
  offers.first_burst = replication::kLinkFirstBurst;
  offers.max_burst = 1 << 20;
  offers.max_recv = 256 << 10;
  options.session.queue_depth = iscsi_target::kMaxQueueDepth;
  options.session.max_stash = PairShard::kStash;
  options.session.brings_buffers = false;
  options.session.login_timeout = std::chrono::seconds(3);
  options.session.keepalive = std::chrono::seconds(1);
  options.sessions = {.in_all = kSessions, .of_name = kSessions, .from_address = kSessions, .reserve = 0};
  options.max_half_open = 2 * kSessions;
  options.max_half_open_per_address = 2 * kSessions;
  return options;
}

}  // namespace

std::string host_of(const SocketAddress& address) {
  const auto parsed = engine::parse_address(address.to_string());
  const std::string whole = parsed ? engine::to_string(*parsed) : address.to_string();
  return whole.substr(0, whole.rfind(':'));
}

std::vector<SocketAddress> listening_of(const LinkSpec& link) {
  std::vector<SocketAddress> all{link.listen};
  if (link.listen_beside) all.push_back(*link.listen_beside);
  for (const auto& path : link.more_paths) all.push_back(path.listen);
  return all;
}

std::optional<PartnerSpec> partner_of_shard(const PartnerSpec& partner, unsigned shard) {
  const auto move = [shard](SocketAddress& address) {
    address.port = static_cast<std::uint16_t>(address.port + shard);
    return address.port >= shard;
  };
  PartnerSpec moved = partner;
  LinkSpec& link = moved.link;
  if (!move(link.listen) || !move(link.connect)) return std::nullopt;
  if (link.listen_beside && !move(*link.listen_beside)) link.listen_beside.reset();
  if (link.connect_beside && !move(*link.connect_beside)) link.connect_beside.reset();
  link.more_paths.clear();
  for (PathSpec path : partner.link.more_paths) {
    if (move(path.listen) && move(path.connect)) link.more_paths.push_back(std::move(path));
  }
  return moved;
}

PairShard::PairShard(Worker& worker, const ShardSettings& settings, ShardSeams seams)
    : number_(settings.number),
      identity_(settings.identity),
      worker_(worker),
      reactor_(worker.reactor),
      observer_(seams.observer),
      events_(seams.events),
      fencing_(reactor_, seams.fence, patience_with_fence(settings.settings)),
      reserve_(settings.reserve),
      rdma_(ShardRdma::make(settings.rdma, worker, reserve_)),
      why_no_rdma_(settings.why_no_rdma),
      kernel_tls_(settings.kernel_tls),
      paths_(reactor_, random_, hello(), data_plane::link_name(settings.number), rdma_ ? rdma_->link() : nullptr),
      node_(node_settings(settings),
            {reactor_, random_, worker.pool, paths_.link(), &seams.witness, &seams.left_records, &fencing_,
             &seams.others},
            seams.observer),
      target_(reactor_, reserve_, hello(), *this),
      server_(server_reactors(reactor_, session_buffers_, rdma_.get()), registry_, server_options(rdma_.get())),
      since_ms_(wall_clock_ms()) {
  paths_.set_lease(std::max(settings.settings.lease, settings.settings.other_lease));
  target_.on_refused([](const std::string& why) { log_warning(why); });
  server_.on_event([this](const iscsi_target::SessionEvent& event) { on_session(event); });
}

PairShard::~PairShard() = default;

replication::Hello PairShard::hello() const {
  return {replication::kPartnerVersions, identity_.pair, identity_.process, identity_.side};
}

replication::IscsiLinkSettings PairShard::link_settings(const std::optional<PartnerSpec>& partner) const {
  replication::IscsiLinkSettings settings;
  settings.identity.ours = hello();
  settings.identity.shard = number_;
  if (!partner) return settings;
  settings.identity.chap = to_chap(partner->link.authentication);
  auto ways = ways_of(partner->link);
  settings.address = ways.front().address;
  settings.from = ways.front().from;
  settings.others.assign(ways.begin() + 1, ways.end());
  if (calls_with_tls(*partner)) settings.tls = tls_;
  return settings;
}

std::vector<PathPlan> PairShard::plans_of(const std::optional<PartnerSpec>& partner) const {
  std::vector<PathPlan> plans{{.settings = link_settings(partner)}};
  if (!partner) return plans;
  for (const auto& path : partner->link.more_paths) {
    PathPlan plan{plans.front().settings, path.last_resort};
    plan.settings.address = path.connect.to_string();
    plan.settings.from = any_port(path.listen);
    plan.settings.others.clear();
    plans.push_back(std::move(plan));
  }
  return plans;
}

void PairShard::use(const SettingsSpec& settings) {
  fencing_.set_patience(patience_with_fence(settings));
  node_.set_lease(settings.lease, settings.other_lease);
  paths_.set_lease(std::max(settings.lease, settings.other_lease));
  node_.set_resync_rates(settings.resync_floor, settings.resync_ceiling);
}

void PairShard::start() {
  node_.start();
  if (rdma_) {
    paths_.on_loss([this] { note_carrier(); });
    look_at_carrier();
  }
  paths_.start(*this, [this](const std::string& name, const replication::LinkWay& way) { on_path(name, way); });
}

PairShard::AddressProblems PairShard::set_partner(const std::optional<PartnerSpec>& partner, bool used) {
  used_ = used;
  const bool link_same = partner == partner_ || (partner && partner_ && partner->link == partner_->link);
  if (!link_same) {
    if (auto good = use_tls(partner ? partner->link.tls : std::nullopt); !good)
      return {{partner->link.listen.to_string(), good.error().message}};
    use_ways_of(partner);
  }
  partner_ = partner;
  return listen();
}

engine::Result<void> PairShard::use_tls(const std::optional<LinkTls>& tls) {
  if (!tls) {
    tls_.reset();
    server_.protect({});
    return {};
  }
  auto context = engine::TlsContext::create({tls->certificate, tls->key, {tls->partner}, kernel_tls_});
  if (!context) return std::unexpected(context.error());
  tls_ = *std::move(context);
  const bool only = tls->mode == LinkTlsMode::required;
  server_.protect({tls_, only ? engine::TlsRole::server : engine::TlsRole::server_or_plain});
  return {};
}

/// The partner is told of the change, too, a moment earlier or later: what stands between the two goes on while it may,
/// unless it is not protected as it is to be from now on.
void PairShard::use_ways_of(const std::optional<PartnerSpec>& partner) {
  const bool goes_on = paths_.use(plans_of(partner));
  if (!partner) return server_.close_all_sessions();
  let_in(*partner);
  if (!goes_on) server_.recheck_sessions();
  std::vector<std::string> callers;
  for (const auto& address : calling_of(partner->link)) callers.push_back(host_of(address));
  server_.accept_only_from(std::move(callers));
  first_way_.reset();
  look_for_first_way_in(engine::Duration{0});
}

/// A session that stands is given up only for a way that was seen to work.
void PairShard::look_at_carrier() {
  note_carrier();
  carrier_look_ = reactor_.call_after(kLookAtCarrier, [this] { look_at_carrier(); });
}

void PairShard::note_carrier() {
  const auto carrier = paths_.carrier();
  const auto transport = carrier ? std::optional(carrier->transport) : std::nullopt;
  if (const auto said = carrier_.look(transport, why_not_rdma(), reactor_.now())) log_info(link_name() + ": " + *said);
}

void PairShard::look_for_first_way() {
  if (!partner_ || !link_up_ || ways_of(partner_->link).front() == paths_.first().way()) return;
  first_way_ = std::make_unique<replication::LinkTrial>(
      reactor_, random_, link_settings(partner_), [this](const std::string& problem) {
        const auto over = std::move(first_way_);
        if (!problem.empty()) {
          log_info(link_name() + ": stays where it is for now: " + problem);
          return look_for_first_way_in(kLookForFirstWay);
        }
        if (partner_ && link_up_) paths_.change_first(link_settings(partner_));
      });
}

void PairShard::look_for_first_way_in(engine::Duration time) {
  reactor_.cancel(look_);
  look_ = reactor_.call_after(time, [this] {
    look_ = engine::TimerId::none;
    look_for_first_way();
  });
}

void PairShard::try_way(const LinkTry& way, engine::Callback<const std::string&> done) {
  if (!partner_) return done("There is no partner yet.");
  if (trials_.size() >= kMaxTrials) return done("Too many ways are being tried already; try again later.");
  auto settings = link_settings(partner_);
  settings.address = way.connect.to_string();
  settings.from = any_port(way.from);
  const std::uint64_t id = ++last_trial_;
  trials_[id] = std::make_unique<replication::LinkTrial>(
      reactor_, random_, std::move(settings), [this, id, done = std::move(done)](const std::string& problem) mutable {
        const auto over = trials_.extract(id);
        done(problem);
      });
}

void PairShard::measure_path(const LinkTest& which, engine::Callback<engine::Result<replication::PathMeasured>> done) {
  const auto shared = std::make_shared<decltype(done)>(std::move(done));
  const bool begun = paths_.measure(which, [shared](const replication::PathMeasured& found) {
    if (found.whole) return (*shared)(found);
    (*shared)(engine::fail(engine::Errc::refused,
                           "The path is down, or was lost meanwhile, or the partner runs a program that "
                           "knows no measurement. `lockstep link` says more."));
  });
  if (!begun)
    (*shared)(engine::fail(engine::Errc::refused, "A path is being measured already. Try again in a few seconds."));
}

void PairShard::let_in(const PartnerSpec& partner) {
  iscsi_target::Target target;
  target.name = replication::link_target_name(identity_.pair, identity_.side, number_);
  target.asker = replication::link_name(identity_.pair, identity_.side);
  target.device_servers = {&target_};
  const std::string caller = replication::link_name(identity_.pair, engine::other(identity_.side));
  std::vector<iscsi_target::AccessList::Entry> entries{{caller, to_chap(partner.link.authentication)}};
  if (partner.link.also) entries.push_back({caller, to_chap(*partner.link.also)});
  target.access = std::make_shared<iscsi_target::AccessList>(std::move(entries));
  target.discoverable = false;
  registry_.put(std::move(target));
}

PairShard::AddressProblems PairShard::listen() {
  const auto addresses = partner_ ? listening_of(partner_->link) : std::vector<SocketAddress>();
  AddressProblems problems;
  std::vector<std::string> wanted;
  wanted.reserve(addresses.size());
  for (const auto& address : addresses) wanted.push_back(address.to_string());
  for (const auto& address : wanted) {
    if (holds(listening_, address)) continue;
    if (auto listens = server_.listen(address)) {
      listening_.push_back(address);
    } else {
      problems.emplace_back(address, listens.error().message);
    }
  }
  std::erase_if(listening_, [&](const std::string& address) {
    if (holds(wanted, address)) return false;
    server_.stop_listening(address);
    return true;
  });
  reactor_.cancel(listen_again_);
  // Without volumes nobody misses it, and a port that another program gives up for a moment stays its own.
  const bool tries_again = number_ != 0 && !problems.empty() && used_;
  if (tries_again) listen_again_ = reactor_.call_after(kListenAgain, [this] { (void)listen(); });
  return problems;
}

void PairShard::stop(engine::Callback<> done) {
  reactor_.cancel(look_);
  reactor_.cancel(carrier_look_);
  reactor_.cancel(listen_again_);
  first_way_.reset();
  trials_.clear();
  target_.stop();
  paths_.stop([this, done = std::move(done)]() mutable { server_.stop(std::move(done)); });
}

/// People know one link; of its other shards they hear where these serve a volume.
std::string PairShard::link_name() const { return data_plane::link_name(number_); }

void PairShard::tell_of_link(const std::string& kind, const std::string& message) {
  if (number_ == 0) return tell(kind, message);
  if (!node_.status().empty()) tell(kind, link_name() + ": " + message);
}

ShardReport PairShard::report() {
  if (rdma_) note_carrier();
  ShardReport report;
  report.number = number_;
  report.link_up = link_up_;
  report.connected = node_.partner_connected();
  report.since_ms = since_ms_;
  if (link_up_) report.address = paths_.up().way().address;
  report.problem = paths_.problem();
  const auto carrier = paths_.carrier();
  report.cipher = carrier ? carrier->cipher : std::string_view{};
  report.over_rdma = carrier && carrier->transport == replication::PathTransport::rdma;
  report.why_not_rdma = report.over_rdma ? "" : why_not_rdma();
  if (rdma_) report.rdma = rdma_->figures();
  if (rdma_) report.carried = carrier_.carried();
  if (partner_) report.paths = paths_.report();
  report.lease = node_.lease();
  report.volumes = node_.status();
  return report;
}

void PairShard::tell(const std::string& kind, const std::string& message) {
  log_info(message);
  events_.publish({kind, std::nullopt, {}, {}, message});
}

void PairShard::on_session(const iscsi_target::SessionEvent& event) {
  using Kind = iscsi_target::SessionEvent::Kind;
  const std::string more = event.untold == 0 ? "" : " (" + std::to_string(event.untold) + " more were not told.)";
  if (event.kind == Kind::refused) {
    log_warning(link_name() + ": a login from " + event.session.address + " was refused: " + event.reason + more);
  } else if (event.kind == Kind::turned_away) {
    tell_of_link("link.stranger", std::string(number_ == 0 ? "Partner link: a" : "A") + " call from " +
                                      event.session.address + " was refused: " + event.reason + more);
  }
}

void PairShard::on_link_up() {
  link_up_ = true;
  since_ms_ = wall_clock_ms();
  tell_of_link("partner.connected", "The partner is connected.");
  look_for_first_way_in(engine::Duration{0});
  log_info(link_name() + ": speaks version " + std::to_string(paths_.link().version()) + ".");
  node_.on_link_up();
}

void PairShard::on_link_down() {
  link_up_ = false;
  since_ms_ = wall_clock_ms();
  tell_of_link("partner.lost", "The partner's connection is lost: " + paths_.problem());
  node_.on_link_down();
  // What is said of the partner changes also where nothing else does: a volume that is alone stays so.
  for (const auto& status : node_.status()) observer_.on_volume_changed(status.volume);
}

void PairShard::on_path(const std::string& name, const replication::LinkWay& way) {
  log_info(link_name() + name + ": goes from " + way.from.substr(0, way.from.rfind(':')) + " to " + way.address + ".");
}

/// Where several ways are tried, of the first that says something.
std::string PairShard::why_not_rdma() const {
  if (!rdma_) return why_no_rdma_;
  if (!partner_) return "There is no partner yet.";
  for (const PathReport& path : paths_.report()) {
    if (!path.rdma) continue;
    if (!path.rdma->problem.empty()) return path.rdma->problem;
    if (path.rdma->state == PathReport::State::proving) return "The path over RDMA has to prove itself first.";
  }
  return "No path over RDMA stands yet.";
}

void PairShard::on_inbound_up(std::uint64_t session) { node_.on_inbound_up(session); }
void PairShard::on_inbound_down(std::uint64_t session) { node_.on_inbound_down(session); }
void PairShard::on_request(std::uint64_t session, replication::InboundRequest& request) {
  node_.on_request(session, request);
}
void PairShard::on_set_back() { node_.on_set_back(); }
void PairShard::on_partner_set_back(const engine::Uuid& process) { node_.on_partner_set_back(process); }

}  // namespace lockstep::data_plane
