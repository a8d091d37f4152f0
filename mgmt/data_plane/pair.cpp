#include "mgmt/data_plane/pair.hpp"

#include "engine/net/socket_address.hpp"
#include "mgmt/data_plane/access.hpp"
#include "mgmt/data_plane/lease_clock.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::data_plane {

using mgmt::log_info;
using mgmt::log_warning;

namespace {

replication::NodeSettings node_settings(const PairIdentity& identity, const SettingsSpec& settings,
                                        bool confirms_reads) {
  replication::NodeSettings node;
  node.pair = identity.pair;
  node.side = identity.side;
  node.process = identity.process;
  node.boot = this_boot();
  node.lease = settings.lease;
  node.heartbeat_interval = settings.lease / 6;
  node.resync_floor = settings.resync_floor;
  node.resync_ceiling = settings.resync_ceiling;
  node.confirms_reads = confirms_reads;
  return node;
}

bool only_secrets_differ(const std::optional<PartnerSpec>& a, const std::optional<PartnerSpec>& b) {
  return a && b && a->link.listen == b->link.listen && a->link.connect == b->link.connect;
}

/// The host's part, in the one form that a socket's own address has.
std::string as_callers_are_written(const SocketAddress& address) {
  const auto parsed = engine::parse_address(address.to_string());
  const std::string whole = parsed ? engine::to_string(*parsed) : address.to_string();
  return whole.substr(0, whole.rfind(':'));
}

iscsi_target::ServerOptions server_options() {
  iscsi_target::ServerOptions options;
  iscsi::Offers& offers = options.session.offers;
  offers.header_digest = iscsi::Offers::Digest::crc32c;
  offers.data_digest = iscsi::Offers::Digest::crc32c;
  offers.first_burst = replication::kLinkFirstBurst;
  offers.max_burst = 1 << 20;
  offers.max_recv = 256 << 10;
  options.session.queue_depth = iscsi_target::kMaxQueueDepth;
  options.session.max_stash = Pair::kStash;
  options.session.brings_buffers = false;
  options.session.login_timeout = std::chrono::seconds(3);
  options.session.keepalive = std::chrono::seconds(1);
  options.sessions = {.in_all = 8, .of_name = 8, .from_address = 8, .reserve = 0};
  options.max_half_open = 8;
  options.max_half_open_per_address = 8;
  return options;
}

}  // namespace

Pair::Pair(Worker& home, engine::Random& random, engine::BufferPool& link_buffers, const PairIdentity& identity,
           const SettingsSpec& settings, const PairOptions& options, replication::LeftRecords& left_records,
           replication::NodeObserver& observer, EventSink& events)
    : identity_(identity),
      observer_(observer),
      events_(events),
      witness_(home.reactor),
      fence_(home.reactor, options.fence_socket,
             [this](const std::string& kind, const std::string& message) { tell(kind, message); }),
      fencing_(home.reactor, fence_, settings.lease / 6),
      link_(home.reactor, random, link_settings(std::nullopt)),
      node_(node_settings(identity, settings, options.confirms_reads),
            {home.reactor, random, home.pool, link_, &witness_, &left_records, &fencing_}, observer),
      service_(home.reactor, link_buffers, hello(), *this),
      server_({{&home.reactor, &session_buffers_}}, registry_, server_options()),
      since_ms_(wall_clock_ms()) {
  witness_.watch([this](bool reachable, const std::string& why) {
    tell(reachable ? "witness.found" : "witness.lost",
         reachable ? "The witness answers." : "The witness does not answer: " + why);
  });
  link_.on_problem([](const std::string& why) { log_info("Partner link: " + why); });
  service_.on_refused([](const std::string& why) { log_warning(why); });
  server_.on_event([this](const iscsi_target::SessionEvent& event) { on_session(event); });
}

Pair::~Pair() = default;

replication::Hello Pair::hello() const {
  return {replication::kPartnerVersions, identity_.pair, identity_.process, identity_.side};
}

replication::IscsiLinkSettings Pair::link_settings(const std::optional<PartnerSpec>& partner) const {
  replication::IscsiLinkSettings settings;
  settings.identity.ours = hello();
  if (!partner) return settings;
  settings.identity.chap = to_chap(partner->link.authentication);
  settings.address = partner->link.connect.to_string();
  SocketAddress from = partner->link.listen;
  from.port = 0;
  settings.from = from.to_string();
  return settings;
}

void Pair::start() {
  started_ = true;
  node_.start();
  link_.start(*this);
}

engine::Result<void> Pair::set_partner(const std::optional<PartnerSpec>& partner) {
  if (partner == partner_) return {};
  const bool link_same = partner && partner_ && partner->link == partner_->link;
  if (!link_same && only_secrets_differ(partner, partner_)) {
    // The partner is told of them, too, a moment earlier or later: what stands between the two goes on.
    link_.use_from_next_login(link_settings(partner));
    let_in(*partner);
  } else if (!link_same) {
    link_.change(link_settings(partner));
    if (!partner && !listening_.empty()) {
      server_.stop_listening(listening_);
      listening_.clear();
    }
    if (partner) {
      if (auto listens = listen(*partner); !listens) return listens;
    }
  }
  partner_ = partner;
  return {};
}

void Pair::let_in(const PartnerSpec& partner) {
  iscsi_target::Target target;
  target.name = replication::link_name(identity_.pair, identity_.side);
  target.asker = target.name;
  target.device_servers = {&service_};
  const std::string caller = replication::link_name(identity_.pair, engine::other(identity_.side));
  std::vector<iscsi_target::AccessList::Entry> entries{{caller, to_chap(partner.link.authentication)}};
  if (partner.link.also) entries.push_back({caller, to_chap(*partner.link.also)});
  target.access = std::make_shared<iscsi_target::AccessList>(std::move(entries));
  target.discoverable = false;
  registry_.put(std::move(target));
}

engine::Result<void> Pair::listen(const PartnerSpec& partner) {
  let_in(partner);
  server_.recheck_sessions();
  server_.accept_only_from(as_callers_are_written(partner.link.connect));
  const std::string address = partner.link.listen.to_string();
  if (address == listening_) return {};
  if (!listening_.empty()) server_.stop_listening(listening_);
  listening_.clear();
  auto listens = server_.listen(address);
  if (!listens) return std::unexpected(listens.error());
  listening_ = address;
  return {};
}

void Pair::stop(engine::Callback<> done) {
  service_.stop();
  link_.stop();
  server_.stop(std::move(done));
}

void Pair::tell(const std::string& kind, const std::string& message) {
  log_info(message);
  events_.publish({kind, std::nullopt, {}, {}, message});
}

void Pair::on_session(const iscsi_target::SessionEvent& event) {
  using Kind = iscsi_target::SessionEvent::Kind;
  const std::string more = event.untold == 0 ? "" : " (" + std::to_string(event.untold) + " more were not told.)";
  if (event.kind == Kind::refused) {
    log_warning("Partner link: a login from " + event.session.address + " was refused: " + event.reason + more);
  } else if (event.kind == Kind::turned_away) {
    tell("link.stranger",
         "Partner link: a call from " + event.session.address + " was refused: " + event.reason + more);
  }
}

void Pair::on_link_up() {
  link_up_ = true;
  since_ms_ = wall_clock_ms();
  tell("partner.connected", "The partner is connected.");
  log_info("The partner link speaks version " + std::to_string(link_.version()) + ".");
  node_.on_link_up();
}

void Pair::on_link_down() {
  link_up_ = false;
  since_ms_ = wall_clock_ms();
  tell("partner.lost", "The partner's connection is lost: " + link_.problem());
  node_.on_link_down();
  // What is said of the partner changes also where nothing else does: a volume that is alone stays so.
  for (const auto& status : node_.status()) observer_.on_volume_changed(status.volume);
}

void Pair::on_inbound_up(std::uint64_t session) { node_.on_inbound_up(session); }
void Pair::on_inbound_down(std::uint64_t session) { node_.on_inbound_down(session); }
void Pair::on_request(std::uint64_t session, replication::InboundRequest& request) {
  node_.on_request(session, request);
}

}  // namespace lockstep::data_plane
