#include "replication/core/pair_node.hpp"

#include <cstring>
#include <map>
#include <variant>

#include "replication/core/marks.hpp"
#include "replication/core/mirror.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::fail;
using engine::Uuid;

const char* to_string(MirrorState state) {
  switch (state) {
    case MirrorState::starting:
      return "starting";
    case MirrorState::in_sync:
      return "in_sync";
    case MirrorState::solo:
      return "solo";
    case MirrorState::syncing_source:
      return "syncing_source";
    case MirrorState::syncing_target:
      return "syncing_target";
    case MirrorState::suspended:
      return "suspended";
    case MirrorState::waiting:
      return "waiting";
    case MirrorState::split_brain:
      return "split_brain";
    case MirrorState::failed:
      return "failed";
    case MirrorState::left:
      return "left";
  }
  return "?";
}

struct PairNode::Impl final : PartnerUser {
  /// Leases that sessions are kept open to wait for what was forwarded.
  static constexpr int kFencesWithin = 3;
  /// The next of many, each. A disk that hangs may keep the node from ever beginning.
  static constexpr engine::Duration kAttachesWithin = std::chrono::seconds(10);

  Impl(NodeSettings settings_in, NodeSeams seams_in, NodeObserver& observer_in)
      : configured(std::move(settings_in)),
        settings(configured),
        seams(seams_in),
        observer(observer_in),
        partner(settings, seams, *this) {
    go_by_both_leases();
  }
  ~Impl() override {
    seams.clock.cancel(tick_timer);
    seams.clock.cancel(beat_timer);
  }

  const NodeSettings configured;
  NodeSettings settings;  ///< … with the lease that both nodes agreed on
  NodeSeams seams;
  NodeObserver& observer;
  Partner partner;
  std::map<Uuid, std::unique_ptr<Mirror>> mirrors;
  /// Detached, or of a node that stops; late callbacks may still find them.
  struct Closing {
    std::unique_ptr<Mirror> mirror;
    bool may_go = false;  ///< nobody submits to it any more
  };
  std::vector<Closing> closing;
  engine::TimerId tick_timer{}, beat_timer{};
  // What becomes of the initiators' sessions.
  struct SessionsOpen {};
  struct SessionsDraining {
    engine::TimePoint until;  ///< what was forwarded is waited for
  };
  struct SessionsClosing {
    bool again = false;  ///< they are to be closed once more
  };
  std::variant<SessionsOpen, SessionsDraining, SessionsClosing> sessions;
  bool started = false, link_is_up = false;
  engine::TimePoint attaching_at = seams.clock.now();  ///< since when it has been at the last volume, or at none yet
  unsigned leaving = 0;

  [[nodiscard]] Mirror* find(const Uuid& volume) {
    const auto found = mirrors.find(volume);
    return found == mirrors.end() ? nullptr : found->second.get();
  }
  template <class Act>
  void for_each(Act act) {
    for (auto& [id, mirror] : mirrors) act(*mirror);
  }

  /// Volumes are attached one after the other before the node begins, and one whose disk is slow a little later. A
  /// partner that has not served in this process may be an old copy, and waits to be told more than that there is none
  /// here.
  [[nodiscard]] bool may_attach_it_yet(const InboundRequest& request, const Message& message) const {
    if (message.type != MessageType::state || seams.clock.now() - attaching_at >= kAttachesWithin) return false;
    const auto theirs = decode_state(request.payload());
    return theirs && !theirs->running;
  }

  /// Until the node begins nothing ticks but a look at its stores: a member would not notice that it is to go on alone.
  /// So its replicas are as if they were not there yet, but for what a partner that serves proposes at once: to go on
  /// without this one.
  [[nodiscard]] bool takes(const InboundRequest& request, const Message& message) const {
    if (started) return true;
    if (seams.clock.now() - attaching_at >= kAttachesWithin) return false;
    if (message.type == MessageType::propose) return true;
    return message.type == MessageType::state && !may_attach_it_yet(request, message);
  }

  /// Of two that the partner may hold, also before the two have met.
  void go_by_both_leases() {
    const engine::Duration other = configured.other_lease;
    const engine::Duration shortest = other.count() == 0 ? configured.lease : std::min(configured.lease, other);
    on_lease_agreed(shortest, std::max(configured.lease, other), configured.drift_percent);
  }
  /// What is due by the lease of before would come too late for a shorter one.
  void set_lease(engine::Duration lease, engine::Duration other) {
    partner.set_lease(lease, other);
    if (!started) return;
    seams.clock.cancel(tick_timer);
    seams.clock.cancel(beat_timer);
    tick_timer = seams.clock.call_after({}, [this] { tick(); });
    beat_timer = seams.clock.call_after({}, [this] { beat(); });
  }

  void watch_before_start() {
    for_each([](Mirror& m) { m.membership().watch_before_start(); });
    tick_timer = seams.clock.call_after(settings.heartbeat_interval / 10, [this] { watch_before_start(); });
  }
  void tick() {
    partner.watch_own_clock(seams.clock.now());
    partner.check();
    for_each([](Mirror& m) { m.tick(); });
    end_draining();
    for (std::size_t i = 0; i < closing.size(); ++i) closing[i].mirror->tick();
    std::erase_if(closing, [](const Closing& c) { return c.may_go && c.mirror->membership().is_over(); });
    tick_timer = seams.clock.call_after(settings.heartbeat_interval / 10, [this] { tick(); });
  }
  void beat() {
    partner.check();
    partner.heartbeat_now();
    beat_timer = seams.clock.call_after(settings.heartbeat_interval, [this] { beat(); });
  }

  /// What a detached volume had forwarded, and lost with the old way, the partner can't begin any more.
  void settle_closing() {
    for (const Closing& c : closing) c.mirror->forwarder().on_connected();
  }
  void on_connected() override {
    settle_closing();
    for_each([](Mirror& m) { m.membership().on_connected(); });
  }
  void on_disconnected() override {
    for_each([](Mirror& m) { m.membership().on_disconnected(); });
  }
  void on_partner_restarted() override {
    for_each([](Mirror& m) { m.membership().on_partner_restarted(); });
  }
  void on_contact_made() override {
    if (seams.fencing) seams.fencing->on_contact();
    for_each([](Mirror& m) { m.membership().on_contact_made(); });
  }
  void on_set_back(const std::string& why) override { observer.on_set_back(why); }
  /// Both nodes' heartbeats keep the proportion to the lease that they are configured with.
  void on_lease_agreed(engine::Duration lease, engine::Duration granted, unsigned drift_percent) override {
    settings.heartbeat_interval = configured.heartbeat_interval * lease.count() / configured.lease.count();
    settings.lease = lease;
    settings.granted_lease = granted;
    settings.drift_percent = drift_percent;
  }
  void on_contact_lost() override {
    settle_closing();
    for_each([](Mirror& m) { m.membership().on_contact_lost(); });
  }

  void fence() {
    partner.set_fencing(true);
    for_each([](Mirror& m) { m.membership().on_fenced(); });
    if (auto* under_way = std::get_if<SessionsClosing>(&sessions)) {
      // Sessions that are new may not be among those that are being closed.
      mark<"fence.again">();
      under_way->again = true;
      return;
    }
    if (std::holds_alternative<SessionsOpen>(sessions)) {
      sessions = SessionsDraining{seams.clock.now() + kFencesWithin * settings.lease};
      observer.on_fencing();
    }
    end_draining();
  }
  /// The sessions are closed when nothing that came over them can be started any more: initiators take the other path
  /// at once, and what they try again there must not be overtaken.
  void end_draining() {
    if (!std::holds_alternative<SessionsDraining>(sessions)) return;
    bool under_way = false;
    for_each([&](Mirror& m) { under_way |= m.forwarder().has_dropped(); });
    if (under_way && partner.in_contact()) return hurry_fencing();
    sessions = SessionsClosing{};
    observer.on_fenced([this] { end_closing(); });
  }
  /// What came meanwhile ends with its session.
  void end_closing() {
    const bool again = std::get<SessionsClosing>(sessions).again;
    sessions = SessionsOpen{};
    for_each([](Mirror& m) { m.membership().on_fenced(); });
    partner.set_fencing(false);
    for_each([](Mirror& m) { m.completions().answer_withheld(); });
    for (std::size_t i = 0; i < closing.size(); ++i) closing[i].mirror->completions().answer_withheld();
    for_each([](Mirror& m) { m.forwarder().resend(); });
    if (again) fence();
  }

  /// The partner holds something and does not answer, since its disk hangs: with another way it lets go of this one.
  void hurry_fencing() {
    auto& draining = std::get<SessionsDraining>(sessions);
    if (seams.clock.now() < draining.until) return;
    mark<"fence.forward_never_answered">();
    draining.until = seams.clock.now() + kFencesWithin * settings.lease;
    partner.hurry_fencing();
  }

  /// Only for volumes that are in sync: the others answer nothing from their own store by leave of the partner.
  void list_leases(std::vector<std::byte>& ids) override {
    for_each([&](Mirror& m) {
      if (!m.membership().wants_lease() || ids.size() + 32 > kMaxLinkPayload) return;
      const auto volume = std::as_bytes(std::span(m.info().id.bytes));
      const auto epoch = std::as_bytes(std::span(m.standing().epoch().id.bytes));
      ids.insert(ids.end(), volume.begin(), volume.end());
      ids.insert(ids.end(), epoch.begin(), epoch.end());
    });
  }
  void on_leases(std::span<const std::byte> ids, std::span<const std::byte> granted, const Lease& lease) override {
    for (std::size_t i = 0; i < granted.size(); ++i) {
      Uuid volume, epoch;
      std::memcpy(volume.bytes.data(), ids.data() + i * 32, 16);
      std::memcpy(epoch.bytes.data(), ids.data() + i * 32 + 16, 16);
      Mirror* mirror = find(volume);
      if (mirror) mirror->membership().on_lease(epoch, granted[i] == std::byte{1}, lease);
    }
  }
  bool grant_lease(const Uuid& volume, const Uuid& epoch) override {
    Mirror* mirror = find(volume);
    return mirror && mirror->membership().grant(epoch);
  }

  engine::Result<void> attach(VolumeSettings volume, engine::Store& data, std::unique_ptr<engine::MetadataArea> meta);
  void left_one(const std::shared_ptr<engine::Callback<>>& done);
  void stop_all(const std::shared_ptr<engine::Callback<>>& done);
};

engine::Result<void> PairNode::Impl::attach(VolumeSettings volume, engine::Store& data,
                                            std::unique_ptr<engine::MetadataArea> meta) {
  const Uuid id = volume.disk.id;
  if (mirrors.contains(id)) return fail(Errc::refused, "Volume " + volume.disk.name + " is attached already.");
  const auto& identity = meta->identity();
  if (identity.volume != id || identity.pair != settings.pair || identity.owner != settings.side) {
    return fail(Errc::foreign, "The metadata of " + volume.disk.name + " belongs to another volume, pair or side.");
  }
  if (data.info().size < std::max(meta->epoch().size, identity.size)) {
    return fail(Errc::refused, "The store " + data.info().name + " is smaller than the volume's record says.");
  }
  if (data.encrypts() != volume.disk.encrypted) {
    return fail(Errc::refused, std::string("The store ") + data.info().name +
                                   (data.encrypts() ? " is encrypted; the volume is not to be."
                                                    : " is not encrypted; the volume is to be."));
  }
  if (const auto state = LuStateKeeper::load(*meta); !state) {
    return fail(static_cast<Errc>(state.error().code.value()),
                "The metadata of " + volume.disk.name + ": " + state.error().message);
  }
  // What was kept of a copy that left is over where the record itself names this replica no member: it is a target, of
  // this epoch or a later one, and may be another copy than the one that left.
  if (seams.left_records && !meta->epoch().members.contains(settings.side)) seams.left_records->forget(id);
  if (seams.left_records && !seams.left_records->kept(id)) {
    return fail(Errc::corrupt, "What this node keeps of " + volume.disk.name +
                                   " beside its metadata can't be read: the partner may have gone on alone. If it "
                                   "serves the volume, remove that record (state folder, left/) and the replica here, "
                                   "and make it anew.");
  }
  volume.disk.size = meta->epoch().size;
  MirrorNotices notices{.changed = [this, id] { observer.on_volume_changed(id); },
                        .close_sessions = [this] { fence(); }};
  auto mirror = std::make_unique<Mirror>(settings, seams, partner, volume.disk, data, std::move(meta), notices);
  Membership& membership = mirror->membership();
  mirrors.emplace(id, std::move(mirror));
  attaching_at = seams.clock.now();
  membership.begin();
  if (!started && tick_timer == engine::TimerId::none) watch_before_start();
  return {};
}

PairNode::PairNode(NodeSettings settings, NodeSeams seams, NodeObserver& observer)
    : impl_(std::make_unique<Impl>(std::move(settings), seams, observer)) {}
PairNode::~PairNode() = default;

void PairNode::fence() {
  if (std::holds_alternative<Impl::SessionsOpen>(impl_->sessions)) impl_->fence();
}

void PairNode::note_attaching() { impl_->attaching_at = impl_->seams.clock.now(); }

void PairNode::start() {
  note_attaching();
  if (std::exchange(impl_->started, true)) return;
  impl_->seams.clock.cancel(impl_->tick_timer);
  impl_->for_each([](Mirror& m) { m.membership().on_node_started(); });
  impl_->tick();
  impl_->beat();
  if (impl_->link_is_up) impl_->partner.on_link_up();
}

engine::Result<void> PairNode::attach(VolumeSettings settings, engine::Store& data,
                                      std::unique_ptr<engine::MetadataArea> metadata) {
  return impl_->attach(std::move(settings), data, std::move(metadata));
}

void PairNode::detach(const Uuid& volume, engine::Callback<> done) {
  const auto found = impl_->mirrors.find(volume);
  if (found == impl_->mirrors.end()) return done();
  Mirror& mirror = *impl_->closing.emplace_back(std::move(found->second), true).mirror;
  impl_->mirrors.erase(found);
  mirror.membership().close(std::move(done));
}

engine::Disk* PairNode::disk(const Uuid& volume) { return impl_->find(volume); }

std::vector<VolumeStatus> PairNode::status() const {
  std::vector<VolumeStatus> all;
  for (const auto& [id, mirror] : impl_->mirrors) all.push_back(mirror->status());
  return all;
}

bool PairNode::partner_connected() const { return impl_->partner.connected(); }

void PairNode::set_lease(engine::Duration lease, engine::Duration other) { impl_->set_lease(lease, other); }

PairNode::LeaseStatus PairNode::lease() const { return {impl_->partner.held_lease(), impl_->partner.lease_settled()}; }

void PairNode::set_resync_rates(std::uint64_t floor, std::uint64_t ceiling) {
  impl_->settings.resync_floor = floor;
  impl_->settings.resync_ceiling = ceiling;
}

void PairNode::set_write_cache(const Uuid& volume, bool on, engine::Callback<> told) {
  if (Mirror* mirror = impl_->find(volume)) mirror->set_write_cache(on, std::move(told));
}

void PairNode::look_at_witness_again() {
  impl_->for_each([](Mirror& m) { m.look_at_witness_again(); });
}

namespace {
std::unexpected<engine::Error> not_attached() {
  return fail(Errc::refused, "No such volume is attached to this node.");
}
}  // namespace

engine::Result<PairNode::Room> PairNode::room_for(const Uuid& volume, std::uint64_t size) const {
  Mirror* mirror = impl_->find(volume);
  if (!mirror) return not_attached();
  return Room{mirror->store().room(), mirror->store().meta->size_to_grow(size)};
}

void PairNode::make_room(const Uuid& volume, std::uint64_t size, engine::Callback<engine::Result<void>> done) {
  Mirror* mirror = impl_->find(volume);
  if (!mirror) return done(not_attached());
  mirror->membership().make_room(size, std::move(done));
}

void PairNode::want_size(const Uuid& volume, std::uint64_t size) {
  if (Mirror* mirror = impl_->find(volume)) mirror->membership().want_size(size);
}

void PairNode::want_arbiter(const Uuid& volume, ArbiterWish wish) {
  if (Mirror* mirror = impl_->find(volume)) mirror->membership().want_arbiter(wish);
}

namespace {
template <class Done>
void no_such_volume(Done& done) {
  done(not_attached());
}
}  // namespace

void PairNode::leave(const Uuid& volume, engine::Callback<engine::Result<void>> done) {
  Mirror* mirror = impl_->find(volume);
  mirror ? mirror->membership().leave(std::move(done)) : no_such_volume(done);
}
void PairNode::force_solo(const Uuid& volume, bool accept, engine::Callback<engine::Result<void>> done) {
  Mirror* mirror = impl_->find(volume);
  mirror ? mirror->membership().force_solo(accept, std::move(done)) : no_such_volume(done);
}
void PairNode::give_up(const Uuid& volume, engine::Callback<engine::Result<void>> done) {
  Mirror* mirror = impl_->find(volume);
  mirror ? mirror->membership().give_up(std::move(done)) : no_such_volume(done);
}

/// Leaves where a partner can go on, then stops: what could not be agreed is settled by the arbiter, as after a crash.
void PairNode::shutdown(engine::Callback<> done) {
  auto shared = std::make_shared<engine::Callback<>>(std::move(done));
  impl_->leaving = 1;
  for (auto& [id, mirror] : impl_->mirrors) {
    ++impl_->leaving;
    mirror->membership().leave([this, shared](engine::Result<void>) { impl_->left_one(shared); });
  }
  impl_->left_one(shared);
}

void PairNode::Impl::left_one(const std::shared_ptr<engine::Callback<>>& done) {
  if (--leaving == 0) stop_all(done);
}

void PairNode::Impl::stop_all(const std::shared_ptr<engine::Callback<>>& done) {
  leaving = 1;
  const auto one = [this, done] {
    if (--leaving == 0) (*done)();
  };
  while (!mirrors.empty()) {
    auto node = mirrors.extract(mirrors.begin());
    // Sessions are still open, and submit to it.
    Mirror& mirror = *closing.emplace_back(std::move(node.mapped()), false).mirror;
    ++leaving;
    mirror.membership().close(one);
  }
  one();
}

void PairNode::on_link_up() {
  impl_->link_is_up = true;
  if (impl_->started) impl_->partner.on_link_up();
}
void PairNode::on_link_down() {
  impl_->link_is_up = false;
  impl_->partner.on_link_down();
}
void PairNode::on_inbound_up(std::uint64_t session) { impl_->partner.on_inbound_up(session); }
void PairNode::on_inbound_down(std::uint64_t session) {
  impl_->partner.on_inbound_down(session);
  impl_->for_each([](Mirror& m) { m.membership().on_inbound_down(); });
}

void PairNode::on_set_back() {
  impl_->partner.found_set_back(
      "The partner has met a later link session of this process, or a later process. This machine was set back to a "
      "snapshot with its memory, or another one has taken its place.");
}
void PairNode::on_partner_set_back(const Uuid& process) { impl_->partner.found_partner_set_back(process); }

void PairNode::on_request(std::uint64_t session, InboundRequest& request) {
  impl_->partner.check();
  const auto message = decode(request.header());
  if (!message || message->answer)
    return answer(request, Message{}, message ? Errc::corrupt : to_errc(message.error()));
  if (message->payload != request.payload().size()) return answer(request, *message, Errc::corrupt);
  if (impl_->partner.take(session, request, *message)) return;
  Mirror* mirror = impl_->find(message->volume);
  if (!mirror || !impl_->takes(request, *message)) {
    const bool elsewhere = !mirror && impl_->seams.others && impl_->seams.others->have(message->volume);
    const bool not_yet = elsewhere || impl_->may_attach_it_yet(request, *message);
    return answer(request, *message, not_yet ? Errc::not_serving : Errc::foreign);
  }
  mirror->take(session, request, *message);
}

}  // namespace lockstep::replication
