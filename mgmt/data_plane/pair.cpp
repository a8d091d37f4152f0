#include "mgmt/data_plane/pair.hpp"

#include <algorithm>
#include <iterator>

#include "mgmt/log/log.hpp"

namespace lockstep::data_plane {

/// One shard, with what it sees of what is shared. Destroyed when no thread runs its reactor any more.
struct Pair::Shard {
  Shard(const Hop& hop, unsigned number, Pair& pair)
      : witness(hop, pair.witness_),
        fence(hop, number, pair.fence_, pair.orders_),
        left_records(hop, pair.left_records_),
        others(number, pair.volumes_),
        observer(
            hop, number, [&user = pair.user_] { user.on_volume_changed(); },
            [&user = pair.user_](const std::string& why) { user.on_set_back(why); }, pair.sessions_) {}

  ShardWitness witness;
  ShardFence fence;
  ShardLeftRecords left_records;
  OtherShards others;
  ShardObserver observer;
  std::unique_ptr<PairShard> mirror;  ///< made on its own reactor
};

Pair::Pair(Workers& workers, PairIdentity identity, const SettingsSpec& settings, PairOptions options,
           replication::LeftRecords& left_records, PairUser& user, EventSink& events)
    : workers_(workers),
      identity_(std::move(identity)),
      settings_(settings),
      options_(std::move(options)),
      left_records_(left_records),
      user_(user),
      events_(events),
      witness_(home()),
      fence_(
          home(), options_.fence_socket,
          [this](const std::string& kind, const std::string& message) { tell_people(kind, message); },
          [this](engine::Callback<bool> done) { ask_connected(std::move(done)); }),
      orders_(home(), fence_),
      sessions_({.join = [this](unsigned shard) { tell(shard, [](PairShard& it) { it.node().fence(); }); },
                 .close = [this](engine::Callback<> closed) { user_.close_sessions(std::move(closed)); }}) {
  witness_.watch(
      [this](bool reachable, const std::string& why) {
        tell_people(reachable ? "witness.found" : "witness.lost",
                    reachable ? "The witness answers." : "The witness does not answer: " + why);
      },
      [this](bool slow) {
        tell_people(slow ? "witness.slow" : "witness.fast",
                    slow ? slow_witness() : "The line to the witness is fast again.");
      },
      [this](bool open) {
        tell_people(open ? "witness.open" : "witness.closed",
                    open ? open_witness() : "The witness asks everybody for a password again.");
      });
}

Pair::~Pair() = default;

PairShard& Pair::at(unsigned shard) { return *shards_.at(shard)->mirror; }

// ---- shards ----

void Pair::make_shards(unsigned at_least, engine::Callback<> done) {
  const auto workers = static_cast<unsigned>(workers_.size());
  make_next(std::min(std::max(at_least, workers), kMaxShards), std::move(done));
}

void Pair::make_next(unsigned count, engine::Callback<> done) {
  if (shards_.size() >= count) return done();
  make_shard(static_cast<unsigned>(shards_.size()),
             [this, count, done = std::move(done)]() mutable { make_next(count, std::move(done)); });
}

/// What it is made of belongs to its reactor from the first moment on, and is used when it is there as a whole.
void Pair::make_shard(unsigned number, engine::Callback<> done) {
  Worker& worker = *workers_[worker_of(number)];
  const ShardSettings shaped{
      number,           identity_,     settings_,           options_.confirms_reads, options_.kernel_tls,
      options_.reserve, options_.rdma, options_.why_no_rdma};
  auto shard = std::make_unique<Shard>(Hop{home(), worker.reactor}, number, *this);
  auto make = [this, &worker, shaped, starts = started_](Shard& made) {
    const ShardSeams seams{made.witness, made.fence, made.left_records, made.others, made.observer, events_};
    made.mirror = std::make_unique<PairShard>(worker, shaped, seams);
    if (starts) made.mirror->start();
  };
  auto take = [this, done = std::move(done)](std::unique_ptr<Shard> made) mutable {
    shards_.push_back(std::move(made));
    sessions_.add_shard();
    done();
  };
  if (&worker.reactor == &home()) return make(*shard), take(std::move(shard));
  worker.reactor.post([this, make, shard = std::move(shard), take = std::move(take)]() mutable {
    make(*shard);
    home().post([shard = std::move(shard), take = std::move(take)]() mutable { take(std::move(shard)); });
  });
}

void Pair::tell(unsigned shard, engine::Callback<PairShard&> work) {
  PairShard& it = at(shard);
  engine::Reactor& there = it.worker().reactor;
  if (&there == &home()) return work(it);
  there.post([&it, work = std::move(work)]() mutable { work(it); });
}

void Pair::on_each(OnEach work, engine::Callback<> then) {
  // Those of the home reactor are carried out, and counted, in here: one more keeps `then` from running among them.
  struct Round {
    std::size_t left;
    engine::Callback<> then;
    void one_less() {
      if (--left == 0) then();
    }
  };
  auto round = std::make_shared<Round>(shards_.size() + 1, std::move(then));
  for (unsigned shard = 0; shard < shards_.size(); ++shard) {
    ask<bool>(
        shard,
        [work](PairShard& it, engine::Callback<bool> answer) {
          work(it, [answer = std::move(answer)]() mutable { answer(true); });
        },
        [round](bool) { round->one_less(); });
  }
  round->one_less();
}

void Pair::gather(std::function<ShardReport(PairShard&)> look, engine::Callback<std::vector<ShardReport>> then) {
  struct Round {
    std::vector<ShardReport> found;
    std::size_t left;
    engine::Callback<std::vector<ShardReport>> then;
  };
  if (shards_.empty()) return then({});
  auto round = std::make_shared<Round>(std::vector<ShardReport>(shards_.size()), shards_.size(), std::move(then));
  for (unsigned number = 0; number < shards_.size(); ++number) {
    ask<ShardReport>(
        number, [look](PairShard& shard, engine::Callback<ShardReport> answer) { answer(look(shard)); },
        [round](ShardReport report) {
          const unsigned of = report.number;
          round->found.at(of) = std::move(report);
          if (--round->left == 0) round->then(std::move(round->found));
        });
  }
}

void Pair::tell_each(std::function<void(PairShard&)> work) {
  for (unsigned shard = 0; shard < shards_.size(); ++shard) tell(shard, work);
}

/// Where there is one alone, its sessions' commands go by the same clock as its mirrors.
void Pair::watch_workers() {
  if (workers_.size() == 1) return;
  const engine::Duration other = settings_.other_lease;
  const engine::Duration lease = other.count() == 0 ? settings_.lease : std::min(settings_.lease, other);
  for (const auto& worker : workers_) worker->reactor.post([&stalls = worker->stalls, lease] { stalls.watch(lease); });
}

void Pair::note_attaching() {
  on_each(
      [](PairShard& shard, engine::Callback<> noted) {
        shard.note_attaching();
        noted();
      },
      [] {});
}

void Pair::start(engine::Callback<> done) {
  started_ = true;
  on_each(
      [](PairShard& shard, engine::Callback<> started) {
        shard.start();
        started();
      },
      std::move(done));
}

void Pair::use(const SettingsSpec& settings, std::size_t used) {
  settings_ = settings;
  const std::uint64_t parts = std::max<std::uint64_t>(used, 1);
  settings_.resync_floor = settings.resync_floor / parts;
  if (settings.resync_ceiling != 0)
    settings_.resync_ceiling = std::max<std::uint64_t>(settings.resync_ceiling / parts, 1);
  tell_each([settings = settings_](PairShard& shard) { shard.use(settings); });
  watch_workers();
}

void Pair::stop(engine::Callback<> done) {
  on_each([](PairShard& shard, engine::Callback<> stopped) { shard.stop(std::move(stopped)); }, std::move(done));
}

// ---- the link ----

namespace {
bool is_same_port(const SocketAddress& one, const SocketAddress& other) {
  const auto any = [](const std::string& host) { return host == "0.0.0.0" || host == "[::]"; };
  if (one.port != other.port) return false;
  return host_of(one) == host_of(other) || any(host_of(one)) || any(host_of(other));
}

bool meets(const std::vector<SocketAddress>& some, const std::vector<SocketAddress>& others) {
  return std::ranges::any_of(some, [&](const SocketAddress& one) {
    return std::ranges::any_of(others, [&](const auto& other) { return is_same_port(one, other); });
  });
}
}  // namespace

/// The first shard's addresses are the operator's to choose: a shard without volumes gives way.
std::optional<PartnerSpec> Pair::partner_of(unsigned shard, const PartnerPlan& plan) {
  if (!plan.partner || shard == 0) return plan.partner;
  auto moved = partner_of_shard(*plan.partner, shard);
  if (!moved || plan.used.contains(shard)) return moved;
  std::vector<SocketAddress> taken = plan.portals;
  for (const unsigned other : plan.used) {
    if (const auto theirs = partner_of_shard(*plan.partner, other))
      std::ranges::copy(listening_of(theirs->link), std::back_inserter(taken));
  }
  std::ranges::copy(listening_of(plan.partner->link), std::back_inserter(taken));
  const bool in_the_way = meets(listening_of(moved->link), taken) || meets({moved->link.connect}, moved->portals);
  return in_the_way ? std::nullopt : moved;
}

/// Those that give way do so first.
void Pair::set_partner(const PartnerPlan& plan, engine::Callback<AddressProblems> done) {
  partner_ = plan.partner;
  on_each(
      [this, plan](PairShard& shard, engine::Callback<> passed) {
        if (!partner_of(shard.number(), plan)) (void)shard.set_partner(std::nullopt, false);
        passed();
      },
      [this, plan, done = std::move(done)]() mutable { connect(plan, std::move(done)); });
}

void Pair::connect(const PartnerPlan& plan, engine::Callback<AddressProblems> done) {
  auto problems = std::make_shared<AddressProblems>();
  auto left = std::make_shared<std::size_t>(shards_.size());
  auto all = std::make_shared<engine::Callback<AddressProblems>>(std::move(done));
  for (unsigned number = 0; number < shards_.size(); ++number) {
    ask<AddressProblems>(
        number,
        [plan, own = partner_of(number, plan)](PairShard& shard, engine::Callback<AddressProblems> answer) {
          auto found = shard.set_partner(own, plan.used.contains(shard.number()));
          if (plan.partner && !own)
            found.emplace_back(plan.partner->link.listen.to_string(), "There is no port for shard " +
                                                                          std::to_string(shard.number()) +
                                                                          " above the link's: choose a lower one.");
          answer(std::move(found));
        },
        [problems, left, all, counts = number == 0 || plan.used.contains(number)](AddressProblems found) {
          if (counts) std::ranges::move(found, std::back_inserter(*problems));
          if (--*left == 0) (*all)(std::move(*problems));
        });
  }
}

bool Pair::listens_at(const SocketAddress& address) const {
  for (unsigned shard = 0; partner_ && shard < shards_.size(); ++shard) {
    const auto own = partner_of_shard(*partner_, shard);
    if (own && std::ranges::count(listening_of(own->link), address) != 0) return true;
  }
  return false;
}

void Pair::try_way(const LinkTry& way, engine::Callback<const std::string&> done) {
  try_way_of(0, way, std::move(done));
}

/// One shard after the other, those that have volumes.
void Pair::try_way_of(unsigned shard, const LinkTry& way, engine::Callback<const std::string&> done) {
  if (shard == shards_.size()) return done("");
  ask<std::string>(
      shard,
      [way](PairShard& it, engine::Callback<std::string> answer) {
        if (!it.report().is_used()) return answer("");
        LinkTry own = way;
        own.connect.port = static_cast<std::uint16_t>(way.connect.port + it.number());
        if (own.connect.port < way.connect.port) return answer("There are not so many ports above that of the link.");
        it.try_way(own, [answer = std::move(answer)](const std::string& problem) mutable { answer(problem); });
      },
      [this, shard, way, done = std::move(done)](const std::string& problem) mutable {
        if (!problem.empty()) return done(shard == 0 ? problem : "Shard " + std::to_string(shard) + ": " + problem);
        try_way_of(shard + 1, way, std::move(done));
      });
}

void Pair::measure_path(const LinkTest& which, engine::Callback<engine::Result<replication::PathMeasured>> done) {
  using Measured = engine::Result<replication::PathMeasured>;
  ask<Measured>(
      0, [which](PairShard& shard, engine::Callback<Measured> answer) { shard.measure_path(which, std::move(answer)); },
      std::move(done));
}

// ---- the witness and the fence ----

void Pair::use_fence(bool on) {
  fence_.use(on);
  if (!on) orders_.end_all();
}

/// In any shard.
void Pair::ask_connected(engine::Callback<bool> done) {
  gather([](PairShard& shard) { return shard.report(); },
         [done = std::move(done)](const std::vector<ShardReport>& shards) mutable {
           done(std::ranges::any_of(shards, &ShardReport::connected));
         });
}

/// The lease runs out, the witness is read, and the record is written: packets that are lost make it longer.
std::string Pair::slow_witness() const {
  const auto line = witness_.slow_line();
  if (!line) return {};
  const auto seconds = [](engine::Duration d) {
    const auto tenths = (std::chrono::duration_cast<std::chrono::milliseconds>(d).count() + 50) / 100;
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
  };
  return "The witness answers, but its line takes " + seconds(line->round_trip()) + ": a failover takes at least " +
         seconds(settings_.lease + 2 * line->fastest()) + ", and hosts wait so long.";
}

std::string Pair::open_witness() const {
  if (!witness_.takes_everybody()) return {};
  return "The witness takes everybody: etcd's authentication is off, though the pair has a user for it. "
         "Whoever reaches it can stop I/O when a node fails. Run `lockstep-witness setup` on its machine, "
         "or switch it on in an etcd of your own.";
}

void Pair::tell_people(const std::string& kind, const std::string& message) {
  mgmt::log_info(message);
  events_.publish({kind, std::nullopt, {}, {}, message});
}

}  // namespace lockstep::data_plane
