#include "tests/unit/mgmt/configuration_world.hpp"

#include <algorithm>

namespace lockstep::test {

using replication::WitnessRecord;
using replication::WitnessView;

// ---- what a node stands on ----

class ConfigurationWorld::Store final : public RevisionStore {
 public:
  Store(ConfigurationWorld& world, Machine& me) : world_(world), me_(me) {}
  RevisionId head() override { return me_.disk.head; }
  ConfigurationEpoch epoch() override { return me_.disk.epoch; }
  Configuration configuration() override { return me_.disk.configuration; }
  std::optional<Tentative> tentative() override { return me_.disk.tentative; }
  void put_tentative(const Tentative& revision) override {
    world_.durably(me_, [&] { me_.disk.tentative = revision; });
  }
  void drop_tentative() override {
    world_.durably(me_, [&] { me_.disk.tentative.reset(); });
  }
  void commit(const RevisionId& id, const ConfigurationEpoch& epoch, const std::string&,
              const Configuration& configuration) override {
    world_.durably(me_, [&] {
      const auto known = me_.disk.known;
      me_.disk = {id, epoch, configuration, {}, known};
    });
  }

 private:
  ConfigurationWorld& world_;
  Machine& me_;
};

class ConfigurationWorld::Surroundings final : public WitnessSurroundings {
 public:
  Surroundings(ConfigurationWorld& world, Machine& me) : world_(world), me_(me) {}
  std::optional<NodeSide> side() override { return me_.side; }
  ConfigurationKnowledge known(const engine::Uuid&) override {
    ConfigurationKnowledge known = me_.disk.known;
    if (world_.plan_.defect == Defect::believes_any_witness) known.witness = {};
    if (world_.plan_.defect == Defect::believes_an_old_database) known.reached = 1'000'000;
    return known;
  }
  void keep(const engine::Uuid&, const ConfigurationKnowledge& learnt) override {
    ConfigurationKnowledge known = learnt;
    if (world_.plan_.defect == Defect::believes_an_old_database)
      known.reached = std::max(me_.disk.known.reached, me_.disk.head.n);
    if (me_.disk.known == known) return;
    world_.durably(me_, [&] { me_.disk.known = known; });
  }
  Outcome<WitnessView> read(const Arbiter&) override {
    world_.meanwhile();
    world_.alive(me_);
    if (!me_.sees_witness || (!world_.quiet_ && world_.chance(30)))
      return refuse(RefusalKind::not_current, "timed out");
    WitnessView view = world_.view();
    if (world_.plan_.defect == Defect::overrules_the_partner && view.record &&
        view.record->members == MemberSet::only(engine::other(me_.side)) && me_.busy) {
      view.record->members = MemberSet::both();
      view.record->number = me_.disk.epoch.number;
      view.record->epoch = me_.disk.epoch.id;
    }
    world_.meanwhile();
    world_.alive(me_);
    return view;
  }
  Swapped swap(const Arbiter&, const WitnessView& seen, const WitnessRecord& record) override {
    world_.meanwhile();
    world_.alive(me_);
    if (!me_.sees_witness) return {};
    if (!world_.quiet_ && world_.chance(60)) {
      world_.late_.push_back([this, seen, record] { (void)world_.swap(seen, record); });
      return {};
    }
    const bool won = world_.swap(seen, record);
    const WitnessView now = world_.view();
    world_.meanwhile();
    world_.alive(me_);
    if (!world_.quiet_ && world_.chance(60)) return {};
    return {true, won, now};
  }
  std::chrono::steady_clock::time_point now() override { return world_.now_; }
  void tell(const std::string& kind, Severity, const std::string&) override {
    if (kind == "configuration.together") ++world_.marks.joined;
  }
  bool is_at_work_alone() override {
    if (world_.plan_.defect == Defect::decides_together_at_work) return false;
    return std::ranges::any_of(
        me_.jobs, [this](const VolumeJob& job) { return job.alone && world_.now_ < job.since + kAtWorkAlone; });
  }

 private:
  ConfigurationWorld& world_;
  Machine& me_;
};

// From one node to the other.
class ConfigurationWorld::Wire final : public RevisionPeer {
 public:
  Wire(ConfigurationWorld& world, Machine& from, Machine& to) : world_(world), from_(from), to_(to) {}
  Outcome<PrepareAnswer> prepare(const Proposal& p) override {
    return carry<PrepareAnswer>([this, p]() -> Outcome<PrepareAnswer> { return to_.revisions->on_prepare(p); });
  }
  Outcome<void> commit(const RevisionId& id) override {
    return carry<void>([this, id] { return to_.revisions->on_commit(id); });
  }
  Outcome<void> discard(const RevisionId& id) override {
    return carry<void>([this, id]() -> Outcome<void> {
      to_.revisions->on_discard(id);
      return {};
    });
  }
  Outcome<void> bring_up_to_date(const CurrentRevision& mine) override {
    return carry<void>([this, mine] { return to_.revisions->on_bring_up_to_date(mine); });
  }
  Outcome<CurrentRevision> ask() override {
    return carry<CurrentRevision>([this]() -> Outcome<CurrentRevision> {
      CurrentRevision current = to_.revisions->current();
      const auto& mine = from_.disk;
      if (world_.plan_.defect == Defect::takes_over_what_follows)
        for (auto& last : current.state.epoch.ancestors)
          if (last.epoch == mine.head.epoch) last = mine.head;
      if (world_.plan_.defect == Defect::merges_after_a_force && current.state.head.n > mine.head.n)
        current.state.epoch.ancestors.push_back(mine.head);
      if (world_.plan_.defect == Defect::cannot_follow && current.state.head.epoch != mine.head.epoch)
        current.state.epoch.ancestors.clear();
      return current;
    });
  }

 private:
  static Refusal lost(bool perhaps) {
    Refusal refusal{RefusalKind::not_current, "cannot be reached", {}};
    refusal.perhaps_done = perhaps;
    return refusal;
  }
  template <class T>
  Outcome<T> carry(const std::function<Outcome<T>()>& deliver) {
    world_.meanwhile();
    world_.alive(from_);
    if (!to_.up) return std::unexpected(lost(false));
    if (!world_.way_[static_cast<std::size_t>(from_.side)]) return std::unexpected(lost(world_.chance(500)));
    if (!world_.quiet_ && world_.chance(25)) {
      world_.late_.push_back([this, deliver] {
        if (to_.up && to_.revisions) world_.work(to_, [&] { (void)deliver(); });
      });
      return std::unexpected(lost(true));
    }
    if (!world_.quiet_ && world_.chance(25)) return std::unexpected(lost(true));
    std::optional<Outcome<T>> answer;
    try {
      answer = deliver();
    } catch (const Crash& crash) {
      if (crash.side == from_.side) throw;
      return std::unexpected(lost(true));
    }
    world_.meanwhile();
    world_.alive(from_);
    if (!world_.quiet_ && world_.chance(40)) return std::unexpected(lost(true));
    return *answer;
  }
  ConfigurationWorld& world_;
  Machine& from_;
  Machine& to_;
};

// ---- the world ----

ConfigurationWorld::ConfigurationWorld(std::uint64_t seed, Plan plan) : random_(seed), plan_(plan) {
  ConfigurationDisk beginning;
  beginning.head = {random_uuid(), 2, random_uuid()};
  beginning.epoch = {.id = beginning.head.epoch, .number = 2};
  Pair pair;
  pair.id = random_uuid();
  pair.arbiter.witness = plan.witness;
  if (plan.witness) pair.arbiter.endpoints = {"http://10.0.0.1:2379"};
  beginning.configuration.pair = pair;
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    Node node;
    node.id = random_uuid();
    node.side = side;
    beginning.configuration.nodes.push_back(node);
  }
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    Machine& m = at(side);
    m.side = side;
    m.disk = beginning;
    m.store = std::make_unique<Store>(*this, m);
    m.surroundings = std::make_unique<Surroundings>(*this, m);
    m.partner = std::make_unique<Wire>(*this, m, at(engine::other(side)));
    start(m);
  }
}

ConfigurationWorld::~ConfigurationWorld() = default;

void ConfigurationWorld::start(Machine& m) {
  m.up = true;
  m.busy = false;
  m.arbiter.reset();
  m.revisions = std::make_unique<Revisions>(*m.store, [] {});
  m.arbiter = std::make_unique<ConfigurationWitness>(*m.revisions, *m.surroundings);
}

void ConfigurationWorld::alive(const Machine& m) const {
  if (!m.up) throw Crash{m.side};
}

// A piece of work of one node, to its end or to the node's.
void ConfigurationWorld::work(Machine& m, const std::function<void()>& what) {
  const bool was_busy = m.busy;
  ++m.frames;
  try {
    what();
  } catch (const Crash& crash) {
    if (crash.side != m.side) {
      --m.frames;
      throw;
    }
  }
  --m.frames;
  m.busy = was_busy;
}

void ConfigurationWorld::durably(Machine& m, const std::function<void()>& effect) {
  alive(m);
  const bool before = !quiet_ && chance(6);
  const bool after = !quiet_ && chance(6);
  if (!before) effect();
  if (!before && !after) return;
  m.up = false;
  ++marks.crashes;
  throw Crash{m.side};
}

WitnessView ConfigurationWorld::view() const {
  return {witness_.record,   witness_.mod_revision, 100 + (witness_.record ? witness_.life : 0),
          witness_.revision, witness_.writes,       false};
}

bool ConfigurationWorld::swap(const WitnessView& seen, const WitnessRecord& record) {
  if (seen.mod_revision != witness_.mod_revision) return false;
  if (!witness_.record) witness_.life = static_cast<std::uint64_t>(witness_.revision) + 1;
  witness_.record = record;
  witness_.mod_revision = ++witness_.revision;
  ++witness_.writes;
  if (record.members.is_both()) ++marks.mended;
  return true;
}

// A user asks that node for a token of its own name. The node that does not order passes it on, or goes on alone.
void ConfigurationWorld::ask_for_a_change(Machine& m, bool passed_on) {
  if (!m.up || m.busy) return;
  const std::string name = "t" + std::to_string(++changes_);
  const Agreement agreement = chance(150) ? Agreement::both : Agreement::one_is_let;
  work(m, [&] {
    Machine& other = at(engine::other(m.side));
    const bool reaches = other.up && way_[static_cast<std::size_t>(m.side)];
    if (!passed_on && !orders(m.revisions->state().epoch, m.side) && reaches && !quiet_ && chance(900))
      return ask_for_a_change(other, true);
    m.busy = true;
    const bool had_tentative = m.disk.tentative.has_value();
    ConfigurationArbiter* arbiter = m.arbiter.get();
    struct Generous final : ConfigurationArbiter {
      NodeSide side;
      explicit Generous(NodeSide s) : side(s) {}
      Outcome<ConfigurationEpoch> claim(const ConfigurationEpoch& mine, const RevisionId& newest,
                                        const Configuration&) override {
        return mine.is_only(side) ? mine : mine.next(random_uuid(), MemberSet::only(side), newest, 0);
      }
    } generous(m.side);
    if (plan_.defect == Defect::goes_on_without_asking) arbiter = &generous;
    const auto done =
        change_configuration({*m.revisions, m.side, m.partner.get(), arbiter}, "add " + name,
                             {.together = [&](Configuration& c) -> Outcome<void> {
                               if (plan_.defect == Defect::forgets_what_was_tentative && m.disk.tentative &&
                                   m.disk.head.n + 1 == m.disk.tentative->id.n)
                                 c.tokens = m.disk.configuration.tokens;
                               c.tokens.push_back({random_uuid(), name, std::string(64, '0'), Role::admin, 1, 0});
                               return {};
                             }},
                             agreement);
    m.busy = false;
    if (done) {
      promised_.insert(name);
      const bool both = m.disk.epoch.members.is_both();
      ++(both ? marks.together : marks.alone);
      if (!both && had_tentative) ++marks.tentative_taken;
    } else {
      ++marks.refused;
      if (done.error().perhaps_done)
        ++marks.unknown;
      else
        denied_.insert(name);
    }
  });
}

Outcome<RevisionId> ConfigurationWorld::change(Machine& m, const ConfigurationEdits& edits, Agreement agreement) {
  return change_configuration({*m.revisions, m.side, m.partner.get(), m.arbiter.get()}, "a volume", edits, agreement);
}

// A look at the partner, as once a second.
void ConfigurationWorld::turn(Machine& m) {
  if (!m.up) return;
  const bool was_busy = m.busy;
  work(m, [&] {
    const auto verdict = m.revisions->compare_notes(*m.partner);
    if (!verdict || *verdict != RevisionVerdict::agree || m.busy) return;
    meanwhile();
    alive(m);
    if (m.busy) return;
    m.busy = true;
    m.arbiter->on_agreement(*m.partner);
    take_up_what_is_owed(m);
  });
  m.busy = m.up && was_busy;
}

// A backup of earlier is put back. Whether the two may part after that depends on whether the witness knows better.
void ConfigurationWorld::set_back(Machine& m) {
  if (m.frames > 0 || m.backups.empty()) return;
  const ConfigurationDisk before = m.disk;
  m.disk = m.backups[pick(m.backups.size())];
  m.jobs.clear();
  ++marks.set_back;
  const auto& other = at(engine::other(m.side)).disk;
  for (const auto& name : before.tokens())
    if (!m.disk.tokens().contains(name) && !other.tokens().contains(name)) promised_.erase(name);
  const auto knows = witness_.record ? static_cast<std::int64_t>(witness_.record->generation_of(m.side)) : 0;
  const bool found_out = plan_.witness && knows > std::max(m.disk.known.reached, m.disk.head.n);
  if (witness_set_back_ && before.known != m.disk.known) excused_ = true;
  if (!found_out && (before.head != m.disk.head || before.known.reached != m.disk.known.reached)) excused_ = true;
  // A line that was lost with a database comes back with its backup.
  if (m.disk.epoch != before.epoch && !before.epoch.descends_from(m.disk.head)) excused_ = true;
  m.up = false;
}

// Who has seen more of the witness notices. Who did not see what was decided since can't know.
void ConfigurationWorld::set_witness_back() {
  const WitnessState old = old_witnesses_[pick(old_witnesses_.size())];
  const bool same =
      old.record == witness_.record && (!old.record || old.record->generations == witness_.record->generations);
  const bool noticed = std::ranges::all_of(
      machines_, [&](const Machine& m) { return m.disk.known.witness.witness_revision > old.revision; });
  if (!same && !noticed) excused_ = true;
  witness_set_back_ = true;
  witness_ = old;
}

void ConfigurationWorld::break_something() {
  Machine& m = machines_[pick(2)];
  switch (pick(plan_.set_back ? 9 : 6)) {
    case 0:
      way_[pick(2)] = chance(500);
      break;
    case 1:
      way_[0] = way_[1] = chance(600);
      break;
    case 2:
      m.sees_witness = chance(600);
      break;
    case 3:
      if (m.frames == 0) m.up = false;
      break;
    case 4:
    case 5:
      if (m.frames == 0 && !m.up) start(m);
      break;
    case 6:
      if (m.frames == 0) set_back(m);
      break;
    case 7:
      if (chance(300)) witness_ = {.record = {}, .mod_revision = 0, .revision = 1, .writes = 0, .life = 1};
      break;
    case 8:
      if (!old_witnesses_.empty() && chance(300)) set_witness_back();
      break;
  }
}

void ConfigurationWorld::step() {
  now_ += std::chrono::seconds(1);
  Machine& m = machines_[pick(2)];
  if (plan_.volumes) {
    data_plane();
    if (chance(200)) return ask_for_a_volume(m);
    if (chance(300)) return run_job(m);
    if (chance(150)) return write();
  }
  if (plan_.force && chance(60)) return force(m);
  const std::size_t what = pick(100);
  if (what < 30)
    ask_for_a_change(m);
  else if (what < 70)
    turn(m);
  else if (what < 88)
    break_something();
  else if (what < 94 && !late_.empty()) {
    ++marks.late;
    const std::size_t which = pick(late_.size());
    const auto late = late_[which];
    late_.erase(late_.begin() + static_cast<std::ptrdiff_t>(which));
    late();
  } else if (what < 97) {
    if (m.frames == 0) m.backups.push_back(m.disk);
  } else {
    old_witnesses_.push_back(witness_);
  }
}

void ConfigurationWorld::meanwhile() {
  if (quiet_ || depth_ >= 3 || !chance(120)) return;
  ++depth_;
  try {
    step();
  } catch (...) {
    --depth_;
    throw;
  }
  --depth_;
}

void ConfigurationWorld::run(int steps) {
  for (int i = 0; i < steps; ++i) step();
}

std::string ConfigurationWorld::check(bool at_the_end) {
  const auto& a = at(NodeSide::a);
  const auto& b = at(NodeSide::b);
  if (a.revisions->conflict() || b.revisions->conflict()) {
    ++marks.conflicts;
    return excused_ || marks.forced > 0 ? "" : "two lines of configuration";
  }
  if (!at_the_end) return "";
  if (a.disk.head != b.disk.head || a.disk.configuration != b.disk.configuration) return "the two do not agree";
  if (a.disk.tentative || b.disk.tentative) return "something still waits";
  if (!a.disk.epoch.members.is_both()) return "one node still decides alone";
  if (plan_.witness && (!witness_.record || witness_.record->epoch != a.disk.epoch.id))
    return "the witness does not have the epoch";
  const auto there = a.disk.tokens();
  for (const auto& name : promised_)
    if (!there.contains(name)) return "lost: " + name;
  for (const auto& name : denied_)
    if (there.contains(name) && !plan_.set_back) return "refused and yet made: " + name;
  return "";
}

std::string ConfigurationWorld::verdict() {
  late_.clear();
  quiet_ = true;
  way_ = {true, true};
  for (auto& m : machines_) {
    m.sees_witness = true;
    if (!m.up) start(m);
  }
  const auto settle = [&] {
    for (int i = 0; i < 12; ++i) {
      now_ += std::chrono::seconds(5);
      for (auto& m : machines_) turn(m);
      if (plan_.volumes) data_plane();
      for (int jobs = 0; jobs < 40; ++jobs)
        for (auto& m : machines_) run_job(m);
    }
  };
  settle();
  if (plan_.force && (at(NodeSide::a).revisions->conflict() || at(NodeSide::b).revisions->conflict())) {
    give_one_line_up();
    settle();
  }
  if (!broken_.empty()) return broken_;
  const bool parted = at(NodeSide::a).revisions->conflict() || at(NodeSide::b).revisions->conflict();
  const std::string broken = check(!parted);
  if (!broken.empty() || parted || !plan_.volumes || plan_.set_back) return broken;
  return check_volumes();
}

}  // namespace lockstep::test
