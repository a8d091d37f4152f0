#include "tests/simulation/sim_witness.hpp"

#include <algorithm>

namespace lockstep::simulation {

using engine::Callback;
using engine::Errc;
using engine::IoResult;
using engine::Uuid;
using replication::SwapOutcome;
using replication::WitnessRecord;
using replication::WitnessView;

namespace {
constexpr Nanos kTimeout = kSecond;
}

WitnessView SimWitness::view(const Uuid& volume) const {
  const auto found = records_.find(volume);
  if (found == records_.end()) return {std::nullopt, 0, cluster_, revision_};
  const Kept& kept = found->second;
  if (kept.tampered) return {std::nullopt, kept.mod_revision, cluster_, revision_, 0, /*tampered=*/true};
  return {kept.record, kept.mod_revision, cluster_ + static_cast<std::uint64_t>(kept.made), revision_};
}

SwapOutcome SimWitness::swap(const Uuid& volume, std::int64_t expected, const WitnessRecord& record) {
  const WitnessView current = view(volume);
  if (current.mod_revision != expected) return {false, current};
  Kept& kept = records_[volume];
  kept.record = record;
  kept.mod_revision = ++revision_;
  kept.seen_by[0] = kept.seen_by[1] = kept.tampered = false;
  if (kept.made == 0) kept.made = revision_;
  kept.written.push_back(record);
  return {true, view(volume)};
}

void SimWitness::overwrite() {
  for (auto& [volume, kept] : records_) {
    kept.mod_revision = ++revision_;
    kept.tampered = true;
  }
}

void SimWitness::make_anew(SimRandom& random) {
  forgot_unseen_ = !all_seen();
  for (auto& [volume, kept] : records_) {
    const auto replayed = 1 + random.below(kept.written.size());
    kept.written.resize(replayed);
    kept.record = kept.written.back();
    kept.made = ++revision_;
    revision_ += static_cast<std::int64_t>(replayed);
    kept.mod_revision = revision_;
    kept.tampered = false;
  }
}

void SimWitness::note_seen(const Uuid& volume, Owner by, const WitnessView& told) {
  const auto found = records_.find(volume);
  if (found == records_.end() || !told.record || found->second.record != *told.record) return;
  found->second.seen_by[by == Owner::node_a ? 0 : 1] = true;
}

bool SimWitness::all_seen() const {
  return !forgot_unseen_ &&
         std::ranges::all_of(records_, [](const auto& r) { return r.second.seen_by[0] && r.second.seen_by[1]; });
}

SimWitness::Snapshot SimWitness::snapshot() const { return {records_, cluster_, revision_}; }

void SimWitness::restore(const Snapshot& then) {
  ++restarts_;
  records_ = then.records;
  cluster_ = then.cluster;
  revision_ = then.revision;
}

void SimWitness::empty() {
  ++cluster_;
  lose_disk();
}

void SimWitness::lose_disk() {
  ++restarts_;
  forgot_unseen_ = !all_seen();
  records_.clear();
  revision_ = kFirstRevision;
}

WitnessClient::Call& WitnessClient::begin(Kind kind, const Uuid& volume) {
  std::uint32_t id;
  if (free_.empty()) {
    id = static_cast<std::uint32_t>(calls_.size());
    calls_.push_back(std::make_unique<Call>());
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Call& call = *calls_[id];
  call.live = true;
  call.executed = false;
  call.answered = false;
  call.kind = kind;
  call.server = server_;
  call.restarts = server_ == nullptr ? 0 : server_->restarts();
  call.volume = volume;
  const std::uint64_t argument = (std::uint64_t{call.generation} << 32) | id;
  // Rarely a request waits somewhere on the way until long after its sender gave up.
  const Nanos there =
      random_.chance(30'000) ? random_.below(3 * kSecond) : random_.skewed(100 * kMicrosecond, 20 * kMillisecond);
  scheduler_.after(there, Owner::world, &WitnessClient::on_server, this, argument);
  scheduler_.after(kTimeout, owner_, &WitnessClient::on_timeout, this, argument);
  scheduler_.after(4 * kSecond, Owner::world, &WitnessClient::on_bury, this, argument);
  return call;
}

void WitnessClient::read(const Uuid& volume, Callback<IoResult<WitnessView>> done) {
  begin(Kind::read, volume).read_done = std::move(done);
}

void WitnessClient::swap(const Uuid& volume, const WitnessView& seen, const WitnessRecord& record,
                         Callback<IoResult<SwapOutcome>> done) {
  Call& call = begin(Kind::swap, volume);
  call.expected = seen.mod_revision;
  call.record = record;
  call.swap_done = std::move(done);
}

void WitnessClient::remove(const Uuid& volume, Callback<std::error_code> done) {
  begin(Kind::remove, volume).remove_done = std::move(done);
}

WitnessClient::Call* WitnessClient::find(std::uint64_t argument) {
  Call& call = *calls_[static_cast<std::uint32_t>(argument)];
  return call.live && call.generation == argument >> 32 ? &call : nullptr;
}

void WitnessClient::on_server(void* self, std::uint64_t argument) {
  auto& client = *static_cast<WitnessClient*>(self);
  Call* call = client.find(argument);
  if (call == nullptr || call->server == nullptr || !client.reachable_) return;
  if (call->restarts != call->server->restarts()) return;
  call->executed = true;
  switch (call->kind) {
    case Kind::read:
      call->outcome = {false, call->server->view(call->volume)};
      break;
    case Kind::swap:
      call->outcome = call->server->swap(call->volume, call->expected, call->record);
      break;
    case Kind::remove:
      call->server->remove(call->volume);
      break;
  }
  client.trace_.add(letter(client.owner_), "witness.executed",
                    {{"kind", static_cast<std::uint64_t>(call->kind)},
                     {"won", call->outcome.won},
                     {"expected", static_cast<std::uint64_t>(call->expected)},
                     {"revision", static_cast<std::uint64_t>(call->outcome.current.mod_revision)},
                     {"number", call->outcome.current.record ? call->outcome.current.record->number : 0},
                     {"members", call->outcome.current.record ? call->outcome.current.record->members.bits : 0u}});
  if (client.random_.chance(20'000)) return;  // the answer is lost
  client.scheduler_.after(client.random_.skewed(100 * kMicrosecond, 20 * kMillisecond), client.owner_,
                          &WitnessClient::on_client, self, argument);
}

void WitnessClient::on_client(void* self, std::uint64_t argument) {
  auto& client = *static_cast<WitnessClient*>(self);
  Call* call = client.find(argument);
  if (call == nullptr || !client.reachable_ || call->answered) return;
  client.finish(*call, call->server == client.server_);
}

void WitnessClient::on_timeout(void* self, std::uint64_t argument) {
  auto& client = *static_cast<WitnessClient*>(self);
  Call* call = client.find(argument);
  if (call != nullptr && !call->answered) client.finish(*call, false);
}

void WitnessClient::finish(Call& call, bool answered) {
  call.answered = true;
  const bool waited_for = call.read_done || call.swap_done || call.remove_done;
  if (!waited_for) return;
  if (answered) call.server->note_seen(call.volume, owner_, call.outcome.current);
  trace_.add(
      letter(owner_), "witness.answer",
      {{"kind", static_cast<std::uint64_t>(call.kind)}, {"answered", answered}, {"won", answered && call.outcome.won}});
  if (call.kind == Kind::read) {
    auto done = std::move(call.read_done);
    if (answered) return done(call.outcome.current);
    return done(std::unexpected(make_error_code(Errc::timed_out)));
  }
  if (call.kind == Kind::swap) {
    auto done = std::move(call.swap_done);
    if (answered) return done(call.outcome);
    return done(std::unexpected(make_error_code(Errc::unknown_outcome)));
  }
  auto done = std::move(call.remove_done);
  done(answered ? std::error_code{} : make_error_code(Errc::unknown_outcome));
}

void WitnessClient::on_bury(void* self, std::uint64_t argument) {
  auto& client = *static_cast<WitnessClient*>(self);
  Call* call = client.find(argument);
  if (call == nullptr) return;
  if (!call->answered) {  // a frozen node has not heard of its timeout yet
    client.scheduler_.after(kSecond, Owner::world, &WitnessClient::on_bury, self, argument);
    return;
  }
  call->live = false;
  ++call->generation;
  client.free_.push_back(static_cast<std::uint32_t>(argument));
}

void WitnessClient::clear() {
  for (const auto& call : calls_) {
    if (!call->live) continue;
    call->answered = true;
    const auto read_dropped = std::move(call->read_done);
    const auto swap_dropped = std::move(call->swap_done);
    const auto remove_dropped = std::move(call->remove_done);
  }
}

}  // namespace lockstep::simulation
