#include "mgmt/data_plane/node.hpp"

#include "mgmt/log/log.hpp"

namespace lockstep::data_plane {

using mgmt::log_info;
using mgmt::log_warning;
using mgmt::LogLevel;

using engine::Errc;
using engine::Result;
using engine::Uuid;

namespace {

std::vector<iscsi_target::ServerReactor> server_reactors(const Workers& workers) {
  std::vector<iscsi_target::ServerReactor> all;
  for (const auto& worker : workers)
    all.push_back({.reactor = &worker->reactor,
                   .pool = &worker->pool,
                   .completions = worker->completions,
                   .messages = worker->messages,
                   .figures = &worker->rdma_hosts});
  return all;
}

iscsi_target::ServerOptions server_options(const NodeOptions& options) {
  iscsi_target::ServerOptions all;
  all.rdma.fabric = options.rdma;
  return all;
}

Event session_event(const iscsi_target::SessionEvent& event) {
  using Kind = iscsi_target::SessionEvent::Kind;
  const std::string who = event.session.initiator.empty()
                              ? event.session.address
                              : event.session.initiator + " (" + event.session.address + ")";
  Event told;
  told.times = 1 + event.untold;
  switch (event.kind) {
    case Kind::opened:
      told.kind = "session.opened";
      told.message = who + " logged in at " + event.session.portal + (event.session.over_rdma ? " over RDMA." : ".");
      return told;
    case Kind::closed:
      told.kind = "session.closed";
      told.message = who + " is gone: " + event.reason;
      return told;
    case Kind::refused:
    case Kind::turned_away:
      break;
  }
  told.kind = "session.refused";
  told.message = who + " was refused at " + event.session.portal + ": " + event.reason;
  return told;
}

}  // namespace

Node::Node(Workers& workers, engine::Random& random, Uuid process, const std::string& state_folder, EventSink& events,
           NodeOptions options)
    : workers_(workers),
      random_(random),
      process_(process),
      keys_(state_folder),
      left_records_(workers.front()->reactor, state_folder),
      events_(events),
      server_(server_reactors(workers), registry_, server_options(options)),
      fence_trials_(
          workers.front()->reactor, options.fence_socket, [](const std::string&, const std::string&) {}, nullptr),
      started_(workers.front()->reactor.now()),
      stores_closed_(started_),
      fabric_(workers.front()->reactor, options.fabric),
      options_(std::move(options)) {
  server_.on_event(
      [this](const iscsi_target::SessionEvent& event) { home().post([this, event] { take_session(event); }); });
}

Node::~Node() {
  options_.waits_for("a disk, for the files of a volume");
  for (auto& worker : file_workers_) worker.join();
  options_.waits_for("a file system that was asked how much space is left");
  if (looker_.joinable()) looker_.join();
  options_.waits_for("an RDMA driver that was asked for its counters");
  fabric_.end();
  options_.waits_for("the disk of the state folder");
  left_records_.end();
  options_.waits_for("RDMA devices whose queues are to end");
}

void Node::take_session(const iscsi_target::SessionEvent& event) {
  const bool stranger = event.kind == iscsi_target::SessionEvent::Kind::refused || event.session.target.empty();
  const std::string host = event.session.address.substr(0, event.session.address.rfind(':'));
  auto now = (stranger ? strangers_ : sessions_).take(host, session_event(event), home().now());
  if (now) tell_session(std::move(*now));
  plan_counted_sessions();
}

void Node::tell_session(Event event) {
  const std::string times = event.times == 1 ? "" : " (" + std::to_string(event.times) + " times)";
  log(event.kind == "session.refused" ? LogLevel::warning : LogLevel::info, event.message + times);
  events_.publish(std::move(event));
}

void Node::plan_counted_sessions() {
  if (std::exchange(counts_sessions_, true)) return;
  home().call_after(RepeatedEvents::kFirstWhile, [this] {
    counts_sessions_ = false;
    for (RepeatedEvents* each : {&strangers_, &sessions_})
      for (Event& counted : each->due(home().now())) tell_session(std::move(counted));
    if (!strangers_.empty() || !sessions_.empty()) plan_counted_sessions();
  });
}

// ---- one thing after the other ----

void Node::queue(std::function<void(engine::Callback<>)> work, engine::Callback<> refused) {
  if (stopping_ || queue_.size() >= kMaxQueued) return refused();
  queue_.push_back(std::move(work));
  next_in_queue();
}

void Node::next_in_queue() {
  if (busy_ || queue_.empty()) return;
  busy_ = true;
  auto work = std::move(queue_.front());
  queue_.pop_front();
  work([this] {
    home().post([this] {
      busy_ = false;
      next_in_queue();
    });
  });
}

// ---- the witness and the fence ----

std::optional<Node::PairWitness> Node::witness_at(const std::string& addresses) {
  if (!pair_ || stopping_ || !pair_->witness().configured() || pair_->witness().addresses() != addresses)
    return std::nullopt;
  return PairWitness{pair_->witness(), state_->pair, pair_->witness().lost()};
}

void Node::look_at_fence(engine::Callback<const FenceWord&> done) { fence_trials_.look(std::move(done)); }

// ---- volumes ----

Result<Volume*> Node::mirrored_volume(const Uuid& id) {
  const auto at = volumes_.find(id);
  if (at == volumes_.end()) {
    return engine::fail(Errc::refused, "Volume " + id.to_string() + " is not attached on this node.");
  }
  if (!at->second->spec.mirrored) {
    return engine::fail(Errc::refused,
                        "Volume " + at->second->spec.name + " is not mirrored: it has one replica only.");
  }
  return at->second.get();
}

void Node::leave(const Uuid& volume, engine::Callback<Result<void>> done) {
  const auto found = mirrored_volume(volume);
  if (!found) return done(std::unexpected(found.error()));
  pair_->ask<Result<void>>((*found)->spec.shard,
                           [volume](PairShard& shard, engine::Callback<Result<void>> answer) {
                             shard.node().leave(volume, std::move(answer));
                           },
                           std::move(done));
}

void Node::force_solo(const Uuid& volume, bool accept_inconsistent, engine::Callback<Result<void>> done) {
  const auto found = mirrored_volume(volume);
  if (!found) return done(std::unexpected(found.error()));
  log_warning("Volume " + (*found)->spec.name + ": an operator forces it to go on alone.");
  pair_->ask<Result<void>>((*found)->spec.shard,
                           [volume, accept_inconsistent](PairShard& shard, engine::Callback<Result<void>> answer) {
                             shard.node().force_solo(volume, accept_inconsistent, std::move(answer));
                           },
                           std::move(done));
}

void Node::give_up(const Uuid& volume, engine::Callback<Result<void>> done) {
  const auto found = mirrored_volume(volume);
  if (!found) return done(std::unexpected(found.error()));
  log_warning("Volume " + (*found)->spec.name + ": an operator gives up this node's changes.");
  pair_->ask<Result<void>>((*found)->spec.shard,
                           [volume](PairShard& shard, engine::Callback<Result<void>> answer) {
                             shard.node().give_up(volume, std::move(answer));
                           },
                           std::move(done));
}

// ---- the end ----

void Node::shutdown(engine::Callback<> done) {
  stopping_ = true;
  queue_.clear();
  // The stores of a replica that is being made or attached are closed before their ring is. Where that takes too long
  // the daemon is cut short: what a file system is at work on then, the next attempt takes.
  auto rest = [this, done = std::move(done)]() mutable {
    if (!has_replica_work()) return done();
    after_replica_work_ = std::move(done);
  };
  auto finish = [this, rest = std::move(rest)]() mutable {
    server_.stop([this, rest = std::move(rest)]() mutable {
      if (!pair_) return rest();
      pair_->stop(std::move(rest));
    });
  };
  // Initiators that move to the partner on their own lose nothing; the others are closed when the pair has been left.
  server_.retire(kRetireGrace, [this, finish = std::move(finish)]() mutable { leave_pair(std::move(finish)); });
}

void Node::leave_pair(engine::Callback<> then) {
  if (!pair_) return then();
  auto left = std::make_shared<engine::Callback<>>(std::move(then));
  const auto once = [left] {
    if (auto run = std::exchange(*left, {})) run();
  };
  // The partner may be stopping, too, or gone: then the epoch stays as it is, and both sort it out when they are back.
  home().call_after(kLeavePatience, [once, left] {
    if (*left) log_warning("Leaving could not be agreed with the partner in time; stopping with the epoch as it is.");
    once();
  });
  pair_->on_each([](PairShard& shard, engine::Callback<> left_all) { shard.node().shutdown(std::move(left_all)); },
                 [this, once] {
                   closed_ = true;
                   once();
                 });
}

}  // namespace lockstep::data_plane
