#include "mgmt/data_plane/witness_slot.hpp"

#include <utility>

namespace lockstep::data_plane {

using engine::Errc;

namespace {

// A call whose callback must run even if the witness is replaced meanwhile. Whoever is destroyed without having run
// calls back with `lost`.
template <class T>
class Guarded {
 public:
  Guarded(engine::Reactor& reactor, engine::Callback<T> done, T lost)
      : reactor_(&reactor), done_(std::move(done)), lost_(std::move(lost)) {}
  Guarded(Guarded&& o) noexcept : reactor_(o.reactor_), done_(std::exchange(o.done_, {})), lost_(std::move(o.lost_)) {}
  Guarded& operator=(Guarded&&) = delete;
  ~Guarded() {
    if (done_) reactor_->post([done = std::move(done_), lost = std::move(lost_)]() mutable { done(std::move(lost)); });
  }
  void operator()(T value) { std::exchange(done_, {})(std::move(value)); }

 private:
  engine::Reactor* reactor_;
  engine::Callback<T> done_;
  T lost_;
};

}  // namespace

WitnessSlot::~WitnessSlot() { reactor_.cancel(timer_); }

engine::Result<bool> WitnessSlot::use(const engine::Uuid& pair, engine::NodeSide side,
                                      const replication::WitnessSeal& seal, const std::string& addresses,
                                      const replication::WitnessAccess& access) {
  if (addresses == addresses_ && seal == seal_ && access == access_) return false;
  if (etcd_ && !addresses.empty() && addresses != addresses_)
    return engine::fail(Errc::refused,
                        "Another one is named (" + addresses + ") while this node still asks " + addresses_ +
                            ": the partner may ask either. `lockstep pair witness set` has both nodes let go of it "
                            "first.");
  std::vector<std::string> endpoints;
  for (std::size_t at = 0; at < addresses.size();) {
    const std::size_t comma = std::min(addresses.find(',', at), addresses.size());
    endpoints.push_back(addresses.substr(at, comma - at));
    at = comma + 1;
  }
  auto settings = replication::EtcdSettings::create(pair, endpoints, access);
  if (!settings) return std::unexpected(settings.error());
  settings->side = side;
  settings->seal = seal;
  etcd_ = endpoints.empty() ? nullptr : std::make_shared<replication::EtcdWitness>(reactor_, std::move(*settings));
  ++uses_;
  addresses_ = addresses;
  seal_ = seal;
  access_ = access;
  told_ = reachable_ = probing_ = slow_ = open_ = false;
  reactor_.cancel(timer_);
  if (!etcd_) return true;
  etcd_->when_ended([this] { on_connection_ended(); });
  probe();
  return true;
}

void WitnessSlot::watch(engine::Callback<bool, const std::string&> reachable, engine::Callback<bool> slow,
                        engine::Callback<bool> open) {
  changed_ = std::move(reachable);
  slow_changed_ = std::move(slow);
  open_changed_ = std::move(open);
}

std::optional<replication::LineEstimate> WitnessSlot::slow_line() const {
  if (!etcd_ || !reachable_ || !slow_) return std::nullopt;
  return etcd_->line();
}

void WitnessSlot::probe() {
  timer_ = engine::TimerId::none;
  probing_ = true;
  auto probed = [this, asked = std::weak_ptr(etcd_)](const replication::EtcdProbe& found) {
    if (asked.lock() == etcd_) on_probed(found);
  };
  const engine::Duration patience = told_ ? engine::Duration{0} : kFirstProbe;
  tries_write_ = is_to_try_write();
  if (!tries_write_) return etcd_->probe(std::move(probed), patience);
  tried_write_ = reactor_.now();
  etcd_->try_write(std::move(probed), patience);
}

bool WitnessSlot::is_to_try_write() const { return !reachable_ || reactor_.now() - tried_write_ >= kTryWriteEvery; }

void WitnessSlot::on_probed(const replication::EtcdProbe& found) {
  probing_ = false;
  const bool reachable = found.answers;
  const bool refused_anew = found.refused && found.problem != refusal_;
  const bool is_new = !told_ || reachable != reachable_ || refused_anew;
  told_ = true;
  reachable_ = reachable;
  refusal_ = found.refused ? found.problem : "";
  if (is_new && changed_) changed_(reachable, found.problem);
  note_line();
  if (reachable && (tries_write_ || open_)) ask_as_nobody();
  etcd_->tend();
  probe_after(reachable ? kProbeEvery : kProbeAgain);
}

void WitnessSlot::probe_after(engine::Duration delay) {
  reactor_.cancel(timer_);
  timer_ = reactor_.call_after(delay, [this] { probe_if_silent(); });
}

void WitnessSlot::probe_if_silent() {
  if (is_to_try_write() || open_ || reactor_.now() - etcd_->answered_at() >= kProbeEvery) return probe();
  note_line();
  etcd_->tend();
  probe_after(kProbeEvery - (reactor_.now() - etcd_->answered_at()));
}

void WitnessSlot::on_connection_ended() {
  if (probing_ || !reachable_) return;
  reactor_.cancel(timer_);
  timer_ = reactor_.call_after(kProbeSoon, [this] { probe(); });
}

/// Told once: the estimate itself has a band in which nothing changes.
void WitnessSlot::note_line() {
  const bool slow = etcd_->line().is_slow();
  if (reachable_ && std::exchange(slow_, slow) != slow && slow_changed_) slow_changed_(slow);
}

void WitnessSlot::ask_as_nobody() {
  if (access_.user.empty()) return;
  etcd_->ask_as_nobody([this, asked = std::weak_ptr(etcd_)](std::optional<bool> answers) {
    if (answers && asked.lock() == etcd_) on_asked_as_nobody(*answers);
  });
}

void WitnessSlot::on_asked_as_nobody(bool answers) {
  if (reachable_ && std::exchange(open_, answers) != answers && open_changed_) open_changed_(answers);
}

void WitnessSlot::read(const engine::Uuid& volume, engine::Callback<engine::IoResult<replication::WitnessView>> done) {
  using Outcome = engine::IoResult<replication::WitnessView>;
  Guarded<Outcome> guarded(reactor_, std::move(done), std::unexpected(make_error_code(Errc::io_error)));
  if (etcd_) etcd_->read(volume, std::move(guarded));
}

void WitnessSlot::swap(const engine::Uuid& volume, const replication::WitnessView& seen,
                       const replication::WitnessRecord& record,
                       engine::Callback<engine::IoResult<replication::SwapOutcome>> done) {
  using Outcome = engine::IoResult<replication::SwapOutcome>;
  const Errc lost = etcd_ ? Errc::unknown_outcome : Errc::io_error;
  Guarded<Outcome> guarded(reactor_, std::move(done), std::unexpected(make_error_code(lost)));
  if (etcd_) etcd_->swap(volume, seen, record, std::move(guarded));
}

void WitnessSlot::remove(const engine::Uuid& volume, engine::Callback<std::error_code> done) {
  const Errc lost = etcd_ ? Errc::unknown_outcome : Errc::io_error;
  Guarded<std::error_code> guarded(reactor_, std::move(done), make_error_code(lost));
  if (etcd_) etcd_->remove(volume, std::move(guarded));
}

}  // namespace lockstep::data_plane
