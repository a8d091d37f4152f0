// One volume's verdict and its sentence.
#include <algorithm>

#include <fmt/format.h>

#include "mgmt/control/pair_view.hpp"
#include "mgmt/control/replace_verdict.hpp"

namespace lockstep::mgmt {
namespace {

constexpr const char* kOnlyOneNode = "Invite a second node.";

struct Replica {
  const NodeView* node = nullptr;
  const ReplicaStatus* status = nullptr;  ///< null: not known now
  bool missing = false;                   ///< its files are not there

  [[nodiscard]] bool is(std::string_view state) const { return status && status->state == state; }
  [[nodiscard]] bool serving() const { return status && status->serving; }
  [[nodiscard]] const std::string& name() const { return node->node->name; }
};

std::vector<Replica> replicas_of(const PairView& view, const Volume& volume) {
  std::vector<Replica> replicas;
  for (const auto& node : view.nodes) {
    if (!node.node) continue;
    replicas.push_back({&node, node.current() ? node.report.status->volume(volume.id) : nullptr,
                        node.current() && node.report.misses(volume.id)});
  }
  return replicas;
}

std::string duration(std::int64_t seconds) {
  if (seconds < 120) return fmt::format("{} seconds", seconds);
  if (seconds < 7200) return fmt::format("{} minutes", (seconds + 30) / 60);
  return fmt::format("{} hours", (seconds + 1800) / 3600);
}

std::string progress_of(const ReplicaStatus& r) {
  if (!r.resync_running || r.resync_total <= 0) return "";
  const auto percent = std::clamp<std::int64_t>(r.resync_done * 100 / r.resync_total, 0, 100);
  const auto left = std::max<std::int64_t>(0, r.resync_total - r.resync_done);
  if (r.resync_rate <= 0) return fmt::format(" ({} %)", percent);
  return fmt::format(" ({} %, about {} left)", percent, duration(left / r.resync_rate));
}

std::string why_absent(const Replica& r) {
  const NodeView& node = *r.node;
  if (r.missing) return fmt::format("{} has no replica of it: the files are missing there", r.name());
  if (!node.asked) return fmt::format("{} has not been asked yet", r.name());
  if (!node.reachable) return fmt::format("the management of {} cannot be reached", r.name());
  if (!node.report.running) return fmt::format("lockstepd does not run on {}", r.name());
  return fmt::format("{} does not have it attached", r.name());
}

std::string how_to_replace(const Replica& r, const Volume& volume) {
  return fmt::format("If that copy is lost for good, make a new one: lockstep replica replace {} --node {}.",
                     volume.name, side_name(r.node->node->side));
}

std::string reason_of(const Replica& r) {
  if (!r.status) return why_absent(r);
  if (!r.status->reason.empty()) {
    std::string reason = r.status->reason;
    if (reason.back() == '.') reason.pop_back();
    return fmt::format("{}: {}", r.name(), reason);
  }
  return fmt::format("its replica on {} is {}", r.name(), r.status->state);
}

std::string how_to_go_on(const std::vector<Replica>& replicas, const Volume& volume) {
  const auto waits = [](const Replica& r) { return r.is("waiting") || r.is("suspended"); };
  const auto one = std::ranges::find_if(replicas, waits);
  if (one == replicas.end()) return "";
  const bool only = std::ranges::count_if(replicas, waits) == 1;
  return fmt::format(
      "Bring the other node back, or the witness if it is away. Only if the other node is gone for good, force this "
      "one to go on alone: lockstep volume force-solo {} --node {}.",
      volume.name, only ? side_name(one->node->node->side) : "NODE");
}

VolumeVerdict not_served(const std::vector<Replica>& replicas, const Volume& volume) {
  std::string why;
  for (const auto& r : replicas) why += (why.empty() ? "" : "; ") + reason_of(r);
  // As hosts are told it (ALUA), and for a bounded time only: a failover is no alarm that is over when it is read.
  if (std::ranges::any_of(replicas, [](const Replica& r) { return r.status && r.status->access == "transitioning"; }))
    return {Verdict::degraded, fmt::format("Not served for the moment: {}.", why),
            "Wait some seconds: it is being decided which node goes on."};
  return {Verdict::critical, fmt::format("Not served: {}.", why), how_to_go_on(replicas, volume)};
}

// The only copy, and its store says so by itself: hosts are served what they read.
bool takes_no_writes(const Replica& server) { return server.status->reason.starts_with("A flush of this copy failed"); }

VolumeVerdict without_writes(const Replica& server, const std::string& until) {
  return {Verdict::critical, fmt::format("Hosts' writes are refused{}: {}.", until, reason_of(server)), ""};
}

// Served by one member alone: what about the other?
VolumeVerdict served_alone(const Replica& server, const Replica& other, const Volume& volume) {
  const std::string served = fmt::format("Served by {}", server.name());
  if (other.is("syncing_target") || server.is("syncing_source")) {
    const ReplicaStatus& figures = server.status->resync_running ? *server.status
                                   : other.status                ? *other.status
                                                                 : *server.status;
    if (takes_no_writes(server))
      return without_writes(server, fmt::format(" until {} is up to date{}", other.name(), progress_of(figures)));
    // What keeps it from its end: a full disk, or a block that the only copy can't read.
    const std::string why = server.status->reason.empty() ? "" : fmt::format(" {}.", reason_of(server));
    return {Verdict::degraded,
            fmt::format("{}; {} is being brought up to date{}.{}", served, other.name(), progress_of(figures), why),
            ""};
  }
  if (takes_no_writes(server)) return without_writes(server, "");
  if (other.is("left"))
    return {Verdict::degraded, fmt::format("{}; {} is out for maintenance.", served, other.name()),
            "Restart lockstepd there when the maintenance is done: it is then brought up to date."};
  if (other.is("failed"))
    return {Verdict::degraded, fmt::format("{}; {}.", served, reason_of(other)),
            "Look at that node's disk and its log. " + how_to_replace(other, volume)};
  if (volume.copy(other.node->node->side).unmade)
    return {Verdict::degraded,
            fmt::format("{}, which made it while {} was away; {} makes its copy when the two are in agreement again.",
                        served, other.name(), other.name()),
            ""};
  if (volume.copy(other.node->node->side).retired)
    return {Verdict::degraded, fmt::format("{}; the copy on {} is being replaced.", served, other.name()),
            fmt::format("`lockstep job list` says how far it is. If no such job is under way: lockstep replica replace "
                        "{} --node {}.",
                        volume.name, side_name(other.node->node->side))};
  if (is_lost({other.node->node, other.node->report}, volume))
    return {Verdict::degraded, fmt::format("{} alone; {}.", served, reason_of(other)),
            "Look at what lockstepd says there. " + how_to_replace(other, volume)};
  // Members in sync acknowledge nothing alone: the other node's management is silent, its replica is not.
  if (server.is("in_sync"))
    return {Verdict::degraded, fmt::format("In sync, as {} tells; {}.", server.name(), reason_of(other)), ""};
  return {Verdict::degraded, fmt::format("{} alone; {}.", served, reason_of(other)), ""};
}

VolumeVerdict judge_two(const Replica& a, const Replica& b, const Volume& volume) {
  if (a.is("split_brain") || b.is("split_brain"))
    return {
        Verdict::critical, "Both copies went on alone, so that they differ; both are kept.",
        fmt::format("Decide which node's own changes are to be dropped, and give them up: lockstep volume give-up {} "
                    "--node NODE.",
                    volume.name)};
  if (!a.serving() && !b.serving()) return not_served({a, b}, volume);
  const auto alone = [](const Replica& r) { return (r.is("solo") || r.is("syncing_source")) && r.serving(); };
  if (alone(a) && alone(b))
    return {
        Verdict::critical,
        fmt::format("Both {} and {} serve it alone: each takes writes that the other lacks.", a.name(), b.name()),
        fmt::format("It was forced on one of them. Have its hosts use one node only, and cut them off from the other. "
                    "Then mend the link between the nodes (`lockstep link` says why it is down), and give up what that "
                    "other has alone: lockstep volume give-up {} --node NODE.",
                    volume.name)};
  if (a.is("in_sync") && b.is("in_sync")) {
    if (!a.status->failover_limited && !b.status->failover_limited) {
      for (const Replica* r : {&a, &b}) {  // a disk that is full says so; all that has its space already goes on
        if (r->status->reason.empty()) continue;
        const bool full = r->status->reason.starts_with("No space");  // any other reason says itself what to do
        return {Verdict::degraded, fmt::format("In sync on both nodes, but {}.", reason_of(*r)),
                full ? "Make space there." : ""};
      }
      return {Verdict::ok, "In sync on both nodes.", ""};
    }
    return {Verdict::degraded,
            "In sync on both nodes, but the witness has not been told yet: the loss of a node now would "
            "suspend I/O.",
            "Wait some seconds. If it stays so, look at the witness: lockstep pair witness show."};
  }
  const auto member = [](const Replica& r) { return r.is("solo") || r.is("syncing_source") || r.is("in_sync"); };
  if (member(a) && a.serving() && (!member(b) || b.is("syncing_target"))) return served_alone(a, b, volume);
  if (member(b) && b.serving() && (!member(a) || a.is("syncing_target"))) return served_alone(b, a, volume);
  const Replica& server = a.serving() ? a : b;
  return {Verdict::degraded, fmt::format("Served by {}, and changing state on the other node.", server.name()), ""};
}

/// While both decide together jobs of volumes are this node's, if it knows of all; what one made or deleted alone is
/// gone on with when the two agree again.
bool is_cut_off(const PairView& view, const Volume& volume) {
  return view.at_work && view.revision.epoch.members.is_both() &&
         std::ranges::find(*view.at_work, volume.id) == view.at_work->end();
}

/// Nobody is at work on it. A database that was set back may tell so of a volume that has long been in use.
VolumeVerdict judge_cut_off(const PairView& view, const Volume& volume) {
  VolumeVerdict verdict{Verdict::degraded, "", ""};
  if (volume.lifecycle == Lifecycle::creating) {
    verdict.summary = "Its making was cut off, and it is not in service.";
    verdict.advice = fmt::format("Delete it: lockstep volume delete {}.", volume.name);
  } else if (volume.lifecycle == Lifecycle::ready) {
    verdict.summary = "Its import was cut off, and no host is let in.";
    verdict.advice = fmt::format("Delete it, then import it again: lockstep volume delete {}.", volume.name);
  } else {
    verdict.summary = "Its deletion failed or was cut off: its name stays in use, and perhaps its data is there.";
    verdict.advice = fmt::format(
        "`lockstep job list` says why. Mend that, then delete it again: lockstep volume delete {}.", volume.name);
  }
  if (view.newer_copy != 0)
    verdict.advice =
        "Do not delete it yet: the database of this node's management is of an earlier time, and the volume may be in "
        "use. See to the database first.";
  return verdict;
}

VolumeVerdict judge_states(const PairView& view, const Volume& volume) {
  const bool imported = volume.lifecycle == Lifecycle::ready && !volume.import_secret.empty();
  const bool unfinished = volume.lifecycle != Lifecycle::ready || imported;
  if (unfinished && is_cut_off(view, volume)) return judge_cut_off(view, volume);
  if (volume.lifecycle == Lifecycle::creating) return {Verdict::ok, "Being made.", ""};
  if (volume.lifecycle == Lifecycle::deleting) return {Verdict::ok, "Being deleted.", ""};
  const auto replicas = replicas_of(view, volume);
  if (replicas.size() == 2) return judge_two(replicas[0], replicas[1], volume);
  if (replicas.empty() || !replicas[0].serving()) return not_served(replicas, volume);
  if (takes_no_writes(replicas[0])) return without_writes(replicas[0], "");
  return {Verdict::degraded, fmt::format("Served by {}, the pair's only node so far.", replicas[0].name()),
          kOnlyOneNode};
}

/// Where the files of a copy are missing. Another copy is made from one that is served, and from no other.
std::string how_to_get_files(const Replica& missing, const std::vector<Replica>& replicas, const Volume& volume) {
  const std::string mount = fmt::format("If a disk is not mounted on {}, mount it.", missing.name());
  const char* side = side_name(missing.node->node->side);
  const auto other = std::ranges::find_if(replicas, [&](const Replica& r) { return r.node != missing.node; });
  if (other != replicas.end() && other->serving())
    return fmt::format(
        "{} If the files are lost, run `lockstep replica replace {} --node {}`: it makes a new replica, "
        "from the other node's.",
        mount, volume.name, side);
  if (other == replicas.end() || other->missing)
    return fmt::format(
        "{} If the files are lost, so is what was in it, since there is no other copy: delete it and "
        "make it anew, `lockstep volume delete {}`.",
        mount, volume.name);
  if (!other->status)
    return fmt::format("{} Else bring {} back first, and see what its copy is good for.", mount, other->name());
  return fmt::format(
      "{} Its copy may be the only one that is current, so do that if it can be done. Only if the files "
      "are lost, force the other copy, `lockstep volume force-solo {} --node {}`, and then run `lockstep "
      "replica replace {} --node {}`.",
      mount, volume.name, side_name(other->node->node->side), volume.name, side);
}

}  // namespace

VolumeVerdict judge_volume(const PairView& view, const Volume& volume) {
  VolumeVerdict verdict = judge_states(view, volume);
  const auto replicas = replicas_of(view, volume);
  const auto missing = std::ranges::find_if(replicas, &Replica::missing);
  if (missing != replicas.end()) verdict.advice = how_to_get_files(*missing, replicas, volume);
  return verdict;
}

}  // namespace lockstep::mgmt
