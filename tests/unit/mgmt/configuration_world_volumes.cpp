// Volumes in the world of configuration_world.hpp: jobs that change the configuration as VolumeJobs does, by the
// product's own edits; a data plane that is right by definition, of which only members and files are told; operators
// that force a node, and give a line up.
#include <algorithm>

#include "mgmt/control/volume_edits.hpp"
#include "tests/unit/mgmt/configuration_world.hpp"

namespace lockstep::test {

using engine::Uuid;

bool ConfigurationWorld::linked() const { return machines_[0].up && machines_[1].up && way_[0] && way_[1]; }

bool ConfigurationWorld::has_in_service(const Machine& m, const Uuid& id) const {
  const Volume* v = m.disk.configuration.volume(id);
  return v && v->lifecycle == Lifecycle::ready && !v->copy(m.side).unmade && m.files.contains(id);
}

bool ConfigurationWorld::has_data(const Machine& m, const Uuid& id) {
  const auto file = m.files.find(id);
  return file != m.files.end() && file->second != kBlank;
}

bool ConfigurationWorld::is_lone(const Machine& m, const Uuid& id) {
  if (plan_.defect == Defect::deletes_without_looking) return true;
  return has_in_service(m, id) && truths_[id].members == MemberSet::only(m.side);
}

// ---- what hosts and lockstepds do ----

/// Who is left goes on alone; who comes back is brought up to date.
void ConfigurationWorld::data_plane() {
  for (auto& [id, truth] : truths_) {
    if (truth.members.is_both() && !linked()) {
      Machine& one = machines_[pick(2)];
      Machine& survivor = one.up ? one : at(engine::other(one.side));
      if (survivor.up && survivor.files.contains(id)) truth.members = MemberSet::only(survivor.side);
    }
    if (truth.members.is_both() || !linked()) continue;
    const Machine& source = at(truth.members.contains(NodeSide::a) ? NodeSide::a : NodeSide::b);
    Machine& target = at(engine::other(source.side));
    if (!has_in_service(source, id) || !has_in_service(target, id)) continue;
    target.files[id] = source.files.at(id);
    truth.members = MemberSet::both();
  }
}

void ConfigurationWorld::write() {
  for (auto& [id, truth] : truths_) {
    for (Machine& m : machines_) {
      if (!m.up || !truth.members.contains(m.side) || !has_in_service(m, id)) continue;
      if (truth.members.is_both() && !linked()) continue;
      ++truth.written;
      for (Machine& member : machines_)
        if (truth.members.contains(member.side) && member.files.contains(id)) member.files[id] = truth.written;
      // Its deletion was answered already: what is acknowledged now is lost.
      if (truth.deleted && marks.forced == 0 && !plan_.set_back) broken_ = "written after it was deleted";
      break;
    }
  }
}

/// On a node that is asked by the other one: false when it is not there, or ends with it.
bool ConfigurationWorld::there(Machine& other, const std::function<void()>& effect) {
  try {
    durably(other, effect);
    return true;
  } catch (const Crash& crash) {
    if (crash.side != other.side) throw;
    return false;
  }
}

/// True when it is done.
bool ConfigurationWorld::destroy(Machine& m, const Uuid& id) {
  const Volume* v = m.disk.configuration.volume(id);
  if (v && v->lifecycle == Lifecycle::ready) broken_ = "removed on a node where it is in service";
  if (!truths_[id].to_delete) broken_ = "removed, and nobody asked for it";
  return there(m, [&] { m.files.erase(id); });
}

// ---- what users ask for ----

void ConfigurationWorld::ask_for_a_volume(Machine& m, bool passed_on) {
  if (!m.up || m.busy) return;
  work(m, [&] {
    Machine& other = at(engine::other(m.side));
    const bool reaches = other.up && way_[static_cast<std::size_t>(m.side)];
    if (!passed_on && !orders(m.revisions->state().epoch, m.side) && reaches) return ask_for_a_volume(other, true);
    m.busy = true;
    const auto& volumes = m.disk.configuration.volumes;
    const std::size_t which = volumes.size() < 2 || chance(500) ? volumes.size() : pick(volumes.size());
    if (which == volumes.size() && volumes.size() < 8)
      begin_making(m);
    else if (!volumes.empty()) {
      const Uuid id = volumes[which % volumes.size()].id;
      chance(700) ? begin_deleting(m, id) : grow(m, id);
    }
    m.busy = false;
  });
}

// Each way has a volume of its own: the partner may have kept the one for both.
void ConfigurationWorld::begin_making(Machine& m) {
  const std::string name = "v" + std::to_string(++changes_);
  Uuid made;
  const auto forget_job = [&] { std::erase_if(m.jobs, [&](const VolumeJob& job) { return job.volume == made; }); };
  const auto begin = [&](Configuration& c, bool alone) -> Outcome<void> {
    Volume v;
    v.id = random_uuid();
    v.name = name;
    v.size = 1;
    if (alone && plan_.defect != Defect::makes_it_for_both) make_on_one_node(v, m.side);
    forget_job();
    made = v.id;
    m.jobs.push_back({.volume = v.id, .removes = false, .alone = alone, .step = 0, .since = now_});
    c.volumes.push_back(v);
    return {};
  };
  const auto done = change(m,
                           {.together = [&](Configuration& c) { return begin(c, false); },
                            .alone = [&](Configuration& c) { return begin(c, true); }},
                           Agreement::one_is_let);
  for (auto& job : m.jobs)
    if (job.volume == made && done) job.step = 1;
  if (!done) forget_job();
}

void ConfigurationWorld::begin_deleting(Machine& m, const Uuid& id) {
  const auto at_work = [&](const Machine& one) {
    return std::ranges::find(one.jobs, id, &VolumeJob::volume) != one.jobs.end();
  };
  if (at_work(machines_[0]) || at_work(machines_[1])) return;  // each node is told of the other's jobs
  const auto begin = [&](Configuration& c, bool alone) -> Outcome<void> {
    Volume* v = c.volume(id);
    if (!v || v->lifecycle != Lifecycle::ready) return refuse(RefusalKind::conflict, "");
    if (alone && !is_lone(m, id)) return refuse(RefusalKind::not_current, "");
    std::erase_if(m.jobs, [&](const VolumeJob& job) { return job.volume == id; });
    m.jobs.push_back({.volume = id, .removes = true, .alone = alone, .step = 0, .since = now_});
    v->lifecycle = Lifecycle::deleting;
    truths_[id].to_delete = true;
    return {};
  };
  const auto done = change(m,
                           {.together = [&](Configuration& c) { return begin(c, false); },
                            .alone = [&](Configuration& c) { return begin(c, true); }},
                           Agreement::one_is_let);
  for (auto& job : m.jobs)
    if (job.volume == id && done) job.step = 1;
  if (!done) std::erase_if(m.jobs, [&](const VolumeJob& job) { return job.volume == id; });
}

void ConfigurationWorld::grow(Machine& m, const Uuid& id) {
  std::int64_t size = 0;
  bool alone = false;
  const auto larger = [&](Configuration& c, bool by_one) -> Outcome<void> {
    Volume* v = c.volume(id);
    if (!v || v->lifecycle != Lifecycle::ready) return refuse(RefusalKind::conflict, "");
    if (by_one && !is_lone(m, id)) return refuse(RefusalKind::not_current, "");
    alone = by_one;
    size = ++v->size;
    return {};
  };
  const auto done = change(m,
                           {.together = [&](Configuration& c) { return larger(c, false); },
                            .alone = [&](Configuration& c) { return larger(c, true); }},
                           Agreement::one_is_let);
  if (!done) return;
  truths_[id].size = std::max(truths_[id].size, size);
  if (alone) ++marks.grown_alone;
}

// ---- jobs ----

void ConfigurationWorld::run_job(Machine& m) {
  if (!m.up || m.busy || m.jobs.empty()) return;
  work(m, [&] {
    m.busy = true;
    VolumeJob job = m.jobs[pick(m.jobs.size())];
    const bool goes_on = take_step(m, job);
    const auto kept = std::ranges::find(m.jobs, job.volume, &VolumeJob::volume);
    if (kept != m.jobs.end() && goes_on) *kept = job;
    if (kept != m.jobs.end() && !goes_on) m.jobs.erase(kept);
    m.busy = false;
  });
}

/// False: the job has ended.
bool ConfigurationWorld::take_step(Machine& m, VolumeJob& job) {
  const Uuid id = job.volume;
  const auto agreement = job.alone ? Agreement::one_is_let : Agreement::both;
  Machine& other = at(engine::other(m.side));
  const Volume* v = m.disk.configuration.volume(id);
  if (!v) return false;
  const RevisionState now = m.revisions->state();
  if (job.alone && now.epoch.members.is_both() && !orders(now.epoch, m.side)) {  // the other one goes on
    const bool too_early = job.step > 0 && now_ - job.since < kAtWorkAlone && marks.forced == 0;
    if (too_early) broken_ = "a job was cut short because the partner came back";
    return false;
  }
  if (job.step == 0) {  // the node ended as it was begun
    if (v->lifecycle != (job.removes ? Lifecycle::deleting : Lifecycle::creating)) return false;
    job.step = 1;
    return true;
  }
  const bool reaches = other.up && way_[static_cast<std::size_t>(m.side)];
  if (!job.removes) {
    if (job.step == 1) {
      if (!job.alone && !reaches) return true;
      if (!job.alone && !there(other, [&] { other.files[id] = 0; })) return true;
      durably(m, [&] { m.files[id] = 0; });
      truths_[id].members = job.alone ? MemberSet::only(m.side) : MemberSet::both();
      job.step = 2;
      return true;
    }
    const auto published = change(m, {.together = [&](Configuration& c) -> Outcome<void> {
                                    Volume* made = c.volume(id);
                                    if (!made || made->lifecycle == Lifecycle::deleting)
                                      return refuse(RefusalKind::conflict, "");
                                    made->lifecycle = Lifecycle::ready;
                                    return {};
                                  }},
                                  agreement);
    if (!published) return published.error().kind == RefusalKind::not_current;
    truths_[id].made = true;
    if (job.alone) ++marks.volumes_alone;
    return false;
  }
  if (job.step == 1) {
    const bool adopted = reaches && other.disk.head == m.disk.head;
    if (!job.alone && !(plan_.defect == Defect::removes_before_adoption ? other.up : adopted)) return true;
    if (!job.alone && !destroy(other, id)) return true;
    if (!destroy(m, id)) throw Crash{m.side};
    job.step = 2;
    return true;
  }
  const auto forgotten = change(m, {.together = [&](Configuration& c) -> Outcome<void> {
                                  const bool alone = job.alone && plan_.defect != Defect::forgets_what_is_owed;
                                  (void)forget_volume(c, id, m.side, alone);
                                  return {};
                                }},
                                agreement);
  if (!forgotten) return true;
  truths_[id].deleted = true;
  if (job.alone) ++marks.deleted_alone;
  return false;
}

/// As ReturnedPartner and the job that makes a copy do it.
void ConfigurationWorld::take_up_what_is_owed(Machine& m) {
  const RevisionState state = m.revisions->state();
  if (!plan_.volumes || !state.epoch.members.is_both() || !orders(state.epoch, m.side)) return;
  const std::vector<Volume> volumes = m.disk.configuration.volumes;
  for (const Volume& v : volumes) {
    const auto at_work = [&](const Machine& one) {
      return std::ranges::find(one.jobs, v.id, &VolumeJob::volume) != one.jobs.end();
    };
    if (at_work(machines_[0]) || at_work(machines_[1])) continue;
    for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
      const Owed owed = owed_on(v, side);
      if (owed == Owed::removal) {
        ++marks.removals_owed;
        m.jobs.push_back({.volume = v.id, .removes = true, .alone = false, .step = 1, .since = now_});
        break;
      }
      Machine& target = at(side);
      const bool survivor_alone = truths_[v.id].members == MemberSet::only(engine::other(side)) &&
                                  has_in_service(at(engine::other(side)), v.id);
      if (owed != Owed::copy || !linked() || !survivor_alone) continue;
      if (!there(target, [&] { target.files[v.id] = kBlank; })) return;
      const auto published = change(m, {.together = [&](Configuration& c) -> Outcome<void> {
                                      if (Volume* now = c.volume(v.id)) now->copy(side) = {.number = 2, .folder = ""};
                                      return {};
                                    }},
                                    Agreement::both);
      if (published) ++marks.copies_owed;
    }
  }
}

// ---- operators ----

void ConfigurationWorld::force(Machine& m) {
  if (!m.up || m.busy) return;
  const Uuid before = m.disk.epoch.id;
  work(m, [&] {
    const Machine& other = at(engine::other(m.side));
    if (other.up && way_[static_cast<std::size_t>(m.side)]) return;  // it answers
    if (m.revisions->conflict()) return;
    m.busy = true;
    (void)m.revisions->force(m.side, "forced");
    m.busy = false;
  });
  // Also where the node ended before it could say so.
  if (m.disk.epoch.forced && m.disk.epoch.id != before) ++marks.forced;
}

void ConfigurationWorld::give_one_line_up() {
  Machine& ends = machines_[pick(2)];
  const Machine& stays = at(engine::other(ends.side));
  gave_up_ = ends.side;
  ++marks.given_up;
  for (const auto& name : ends.disk.tokens())
    if (!stays.disk.tokens().contains(name)) promised_.erase(name);
  for (const auto& v : ends.disk.configuration.volumes) {
    if (has_data(ends, v.id) && !stays.disk.configuration.volume(v.id)) kept_aside_[v.id] = ends.files.at(v.id);
  }
  ends.jobs.clear();
  if (!ends.revisions->give_up(ends.revisions->state(), stays.revisions->current())) broken_ = "it can't be given up";
}

std::string ConfigurationWorld::check_volumes() {
  for (const auto& m : machines_)
    if (!m.jobs.empty() && marks.given_up == 0) return "a job has not ended";
  for (const auto& [id, written] : kept_aside_) {
    const auto& files = at(gave_up_).files;
    if (!files.contains(id) || files.at(id) != written) return "data of the line that was given up is gone";
  }
  if (marks.given_up > 0) return "";  // one of two lines may have deleted what the other one kept
  for (const auto& [id, truth] : truths_)
    if (auto broken = check_volume(id, truth); !broken.empty()) return broken;
  return "";
}

std::string ConfigurationWorld::check_volume(const Uuid& id, const Truth& truth) {
  const Machine& a = at(NodeSide::a);
  const Machine& b = at(NodeSide::b);
  const Volume* v = a.disk.configuration.volume(id);
  if (truth.made && !truth.to_delete && !v) return "a volume is lost";
  if (truth.deleted && v) return "a deleted volume is back";
  if (truth.deleted && (has_data(a, id) || has_data(b, id))) return "a deleted volume's data is left";
  if (!v || v->lifecycle != Lifecycle::ready) return "";
  if (v->size < truth.size) return "a volume became smaller";
  if (!has_in_service(a, id) || !has_in_service(b, id)) return "a node has no copy";
  if (a.files.at(id) != truth.written || b.files.at(id) != truth.written) return "what was written is lost";
  return "";
}

}  // namespace lockstep::test
