#include "mgmt/control/saved_copy_verdict.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "mgmt/control/pair_members.hpp"

namespace lockstep::mgmt {
namespace {

std::string name_of_found(const FoundReplica& replica) {
  const bool named = replica.identity && !replica.identity->name.empty();
  return named ? replica.identity->name : replica.volume.to_string();
}

bool is_unfinished(const Volume& v) { return v.lifecycle != Lifecycle::ready || !v.import_secret.empty(); }

/// The names for one sentence.
class Names {
 public:
  void add(const std::string& name) { names_ += (names_.empty() ? "" : ", ") + name; }
  /// `what` has a place for the names.
  void tell(std::string& sentences, const char* what) const {
    if (!names_.empty()) sentences += (sentences.empty() ? "" : " ") + fmt::format(fmt::runtime(what), names_);
  }

 private:
  std::string names_;
};

class SavedCopyJudge {
 public:
  SavedCopyJudge(const SavedConfiguration& saved, const std::optional<DataPlaneStatus>& status,
                 const std::vector<FoundReplica>& replicas)
      : saved_(saved), status_(status), replicas_(replicas), side_(saved.here()->side) {
    verdict_.told = status ? status->revision : 0;
  }

  SavedCopyVerdict judge() {
    tell_age();
    find_unknown_volumes();
    for (const auto& volume : saved_.configuration.volumes) {
      look_for_later_copy(volume);
      if (is_unfinished(volume)) decide_on(volume);
    }
    tell();
    return std::move(verdict_);
  }

 private:
  [[nodiscard]] bool is_older() const { return verdict_.told > saved_.revision.n; }
  /// lockstepd was told this very revision last, so that nothing was finished since.
  [[nodiscard]] bool is_of_now() const { return verdict_.told == saved_.revision.n; }
  [[nodiscard]] bool is_in_use(const Uuid& volume) const { return is_older() && status_->volume(volume); }
  [[nodiscard]] bool is_ours(const FoundReplica& r) const {
    return r.left_alone.empty() && r.identity->pair == saved_.configuration.pair->id && r.identity->owner == side_;
  }
  [[nodiscard]] bool has_replica(const Uuid& volume) const {
    return std::ranges::any_of(replicas_, [&](const FoundReplica& r) { return r.volume == volume && is_ours(r); });
  }
  [[nodiscard]] std::string name_of(const Uuid& volume) const {
    const auto found = std::ranges::find(replicas_, volume, &FoundReplica::volume);
    return found == replicas_.end() ? volume.to_string() : name_of_found(*found);
  }

  void tell_age() {
    if (is_older())
      verdict_.loses =
          fmt::format("lockstepd here has orders of revision {}: what was changed since revision {} is lost.",
                      verdict_.told, saved_.revision.n);
    else if (verdict_.told == 0)
      verdict_.loses = fmt::format(
          "Nothing here tells the age of this copy: if anything was changed since revision {}, that is lost.",
          saved_.revision.n);
  }

  void find_unknown_volumes() {
    std::vector<Uuid> told_of;
    const auto add = [&](const Uuid& volume) {
      if (saved_.configuration.volume(volume) || std::ranges::find(told_of, volume) != told_of.end()) return;
      told_of.push_back(volume);
      unknown_.add(name_of(volume));
    };
    if (is_older())
      for (const auto& in_use : status_->volumes) add(in_use.volume);
    for (const auto& replica : replicas_)
      if (!is_of_now() && is_ours(replica)) add(replica.volume);
  }

  /// As where a configuration is made of the replicas alone: the newest copy counts, if it was whole. One whose
  /// metadata can't be used may have been the volume's, too.
  void look_for_later_copy(const Volume& volume) {
    const Copy& copy = volume.copy(side_);
    const FoundReplica* newest = nullptr;
    for (const auto& replica : replicas_) {
      const bool other = replica.left_alone.empty() && !is_ours(replica);
      const bool later = replica.copy > copy.number || (copy.unmade && replica.copy == copy.number);
      if (replica.volume == volume.id && later && !other && (!newest || replica.copy > newest->copy)) newest = &replica;
    }
    if (!newest || is_of_now() || volume.lifecycle == Lifecycle::deleting) return;
    const bool usable = newest->left_alone.empty();
    if (usable && newest->epoch.members.contains(side_)) {
      verdict_.later.push_back({volume.id, newest->copy});
      later_.add(volume.name);
    } else if (verdict_.problem.empty()) {
      verdict_.problem = fmt::format(
          "A later copy of the volume {0} ({1}), number {2}, is here than the saved configuration names. It {3}, so "
          "that it can't be told which one was in use. Use a newer copy of the configuration, this node's or the other "
          "one's; if there is none, move the files of that volume's copies away that are not to be used.",
          volume.name, volume.id.to_string(), newest->copy, usable ? "was not whole yet" : "can't be used");
    }
  }

  void decide_on(const Volume& volume) {
    const bool in_use = is_in_use(volume.id);
    const bool may_be_good = in_use || (is_older() ? has_replica(volume.id) : !is_of_now());
    if (volume.lifecycle == Lifecycle::deleting || !may_be_good) {
      deleted_.add(volume.name);
      return;
    }
    const bool was_filled = !volume.import_secret.empty();
    verdict_.kept.push_back({volume.id, was_filled && !in_use});
    if (was_filled) (in_use ? filled_ : perhaps_filled_).add(volume.name);
    if (!was_filled && !in_use) perhaps_made_.add(volume.name);
  }

  void tell() {
    std::string& loses = verdict_.loses;
    unknown_.tell(loses, "Volumes that the copy does not know are out of service then, though their files stay: {}.");
    later_.tell(loses,
                "Of these volumes another copy is here, which took the place of the one that was in use at that time. "
                "It is the one that is used: {}.");
    filled_.tell(loses,
                 "Its import was under way then, and it is in use: it is kept, though perhaps only a part of it was "
                 "filled. Compare it with its source before you rely on it: {}.");
    perhaps_filled_.tell(loses,
                         "Its import was under way then, and it may have been in use since: it is kept, and no host "
                         "may use it. Compare it with its source, and let the hosts in, or delete it: {}.");
    perhaps_made_.tell(loses,
                       "It was being made then, and may have been in use since: it is kept. Delete it if it never "
                       "was: {}.");
    deleted_.tell(loses, "Deleted, since its making, filling or deleting was under way: {}.");
  }

  const SavedConfiguration& saved_;
  const std::optional<DataPlaneStatus>& status_;
  const std::vector<FoundReplica>& replicas_;
  const NodeSide side_;
  SavedCopyVerdict verdict_;
  Names unknown_, later_, filled_, perhaps_filled_, perhaps_made_, deleted_;
};

}  // namespace

SavedCopyVerdict judge_saved_copy(const SavedConfiguration& saved, const std::optional<DataPlaneStatus>& status,
                                  const std::vector<FoundReplica>& replicas) {
  return SavedCopyJudge(saved, status, replicas).judge();
}

void apply_verdict(const SavedCopyVerdict& verdict, NodeSide here, Configuration& configuration) {
  for (const auto& later : verdict.later)
    if (Volume* v = configuration.volume(later.volume)) v->copy(here) = {.number = later.number, .folder = ""};
  for (const auto& kept : verdict.kept) {
    Volume* v = configuration.volume(kept.volume);
    if (!v) continue;
    v->lifecycle = Lifecycle::ready;
    v->import_secret.clear();
    if (!kept.closed) continue;
    v->any_initiator = false;
    v->access.clear();
  }
  cut_off_volumes(configuration);
}

}  // namespace lockstep::mgmt
