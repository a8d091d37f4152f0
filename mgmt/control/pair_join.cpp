// The joining node's part: the steps of a pair.join job. ask -> confirm -> replicas -> done; when the outcome of
// confirm is not known: settle, which asks the partner until it says whether it committed.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/fence_check.hpp"
#include "mgmt/control/https_client.hpp"
#include "mgmt/control/pair_service.hpp"
#include "mgmt/control/replace_verdict.hpp"
#include "mgmt/control/secrets.hpp"

namespace lockstep::mgmt {
namespace {

using nlohmann::json;

HttpsTarget target_of(const Job& job) {
  const auto parameters = json::parse(job.parameters);
  return {parameters.at("address"), parameters.at("fingerprint")};
}

std::string line_that_ended(const SavedConfiguration& copy, const Configuration& now, const std::string& kept_as) {
  std::string names;
  for (const auto& v : copy.configuration.volumes)
    if (!now.volume(v.id)) names += (names.empty() ? "" : ", ") + v.name;
  return fmt::format(
      "The copy of the configuration on this node was of revision {}, which the pair does not have: what was changed "
      "on "
      "this node alone is lost, and the copy is kept as {}.{}",
      copy.revision.n, kept_as,
      names.empty() ? "" : fmt::format(" Out of service with that, though their files stay on this node: {}.", names));
}

bool unknown_outcome(const Refusal& refusal) { return refusal.kind == RefusalKind::not_current; }

/// What became of the replicas that a node which joins is to have.
struct MadeReplicas {
  std::vector<std::string> made{};    ///< ids of volumes, kept in the job: each is made once
  std::string unserved{};             ///< names of volumes that the inviting node does not serve
  std::string failed{};               ///< sentences
  std::optional<std::string> away{};  ///< lockstepd is, so that none can be made now
};

void add_name(std::string& names, const std::string& name) { names += (names.empty() ? "" : ", ") + name; }

/// One volume that can't have its replica now keeps no other from its own.
void make_replicas(ReplicaAgent& agent, const Configuration& configuration, const CopyView& source,
                   MadeReplicas& replicas) {
  for (const auto& volume : configuration.volumes) {
    const std::string id = volume.id.to_string();
    const bool is_made = std::ranges::find(replicas.made, id) != replicas.made.end();
    if (volume.lifecycle != Lifecycle::ready || is_made) continue;
    // Of the epoch in which the other node is alone, so that this copy serves nothing before it was brought up to date.
    const auto lone = lone_epoch_of(source, volume);
    if (!lone && source.status(volume) && source.status(volume)->state == "in_sync") continue;  // made already
    if (!lone) {
      add_name(replicas.unserved, volume.name);
      continue;
    }
    const auto made = agent.carry_out({.kind = ReplicaOrder::Kind::create,
                                       .volume = volume,
                                       .birth = {.both = false, .clean = false, .joins = *lone}});
    if (made) {
      replicas.made.push_back(id);
      continue;
    }
    if (made.error().kind == RefusalKind::data_plane_away) {
      replicas.away = fmt::format("Waits to make the replica of {}: {}", volume.name, made.error().detail);
      return;
    }
    replicas.failed += fmt::format(" Its replica of {} could not be made: {}", volume.name, made.error().detail);
  }
}

}  // namespace

StepResult PairService::join_step(Job& job) {
  if (job.step == "ask") return ask(job);
  if (job.step == "confirm") return confirm(job);
  if (job.step == "settle") return settle(job);
  if (job.step == "replicas") return replicas(job);
  return fail(core_, job, {RefusalKind::internal, "The job is at a step that this version does not know.", {}});
}

StepResult PairService::ask(Job& job) {
  const auto request = wire::join_request_from(json::parse(job.parameters).at("request").get<std::string>());
  if (!request) return fail(core_, job, request.error());
  const HttpsTarget target = target_of(job);
  const auto offer = connect_(target)->ask_to_join(*request);
  if (!offer) {
    Refusal reason = offer.error();
    if (unknown_outcome(reason)) {  // nothing was decided there: an offer lapses by itself
      reason.kind = RefusalKind::conflict;
      reason.detail =
          fmt::format("The inviting node {}. Check that the two can reach each other, then try again.", reason.detail);
    }
    return fail(core_, job, std::move(reason));
  }
  if (core_.configuration()->pair)
    return fail(core_, job, {RefusalKind::conflict, "This node got into a pair meanwhile.", {}});
  if (!offer->replaces)
    if (auto good = check_nothing_served(); !good) return fail(core_, job, good.error());
  const auto offered = from_document(offer->document);
  if (!offered) return fail(core_, job, offered.error());
  if (offered->pair && offered->pair->arbiter.fence)
    if (auto usable = try_fence_of_running(data_plane_); !usable) return fail(core_, job, usable.error());
  core_.revision_tables.put_tentative({offer->id, "Joined", offer->document});
  auto parameters = json::parse(job.parameters);
  parameters["replaces"] = offer->replaces;
  parameters["pair"] = offered->pair->id.to_string();
  job.parameters = parameters.dump();
  job.step = "confirm";
  job.progress = 0.4;
  job.message = "Was offered a place in the pair, and takes it.";
  return StepResult::again_now;
}

/// lockstep-mgmtd ended between its commit and the job's next step, or a pair was made or recovered here meanwhile. A
/// job of an earlier version does not say which pair it is for.
StepResult PairService::in_a_pair(Job& job) {
  const std::string here = core_.configuration()->pair->id.to_string();
  if (json::parse(job.parameters).value("pair", here) == here) return joined(job);
  return fail(core_, job,
              {RefusalKind::conflict,
               "This node got into another pair meanwhile. Should the inviting node have let it in all the same, it "
               "is taken out there with `lockstep pair leave SIDE --lost`.",
               {}});
}

StepResult PairService::confirm(Job& job) {
  const auto tentative = core_.revision_tables.tentative();
  if (core_.side()) return in_a_pair(job);
  if (!tentative) return fail(core_, job, {RefusalKind::conflict, "The join was taken back. Try again.", {}});
  const auto confirmed = connect_(target_of(job))->confirm_join(tentative->id);
  if (!confirmed && unknown_outcome(confirmed.error())) {
    job.step = "settle";
    job.message =
        fmt::format("The inviting node {}. Asks it whether this node is in the pair.", confirmed.error().detail);
    return StepResult::again_later;
  }
  if (!confirmed) {
    forget_join();
    return fail(core_, job, confirmed.error());
  }
  const auto configuration = from_document(tentative->document);
  if (!configuration) return fail(core_, job, configuration.error());
  return take_over(job, tentative->id, *configuration);
}

StepResult PairService::settle(Job& job) {
  if (core_.side()) return in_a_pair(job);
  const auto theirs = connect_(target_of(job))->ask();
  if (!theirs && unknown_outcome(theirs.error())) {
    // A newer attempt takes this one's place: the operator has decided.
    const auto others = core_.jobs.unfinished();
    const bool replaced = std::ranges::any_of(others, [&](const Job& o) {
      return o.kind == "pair.join" && o.id != job.id && o.created_ms >= job.created_ms;
    });
    if (replaced)
      return fail(core_, job, {RefusalKind::conflict, "A newer attempt to join took the place of this one.", {}});
    return StepResult::again_later;
  }
  const auto configuration = theirs ? from_document(theirs->document) : std::unexpected(theirs.error());
  if (theirs && !configuration) return fail(core_, job, configuration.error());
  const auto is_this = [this](const Node& n) { return n.id == core_.node_id; };
  if (!theirs || std::ranges::none_of(configuration->nodes, is_this)) {
    forget_join();
    return fail(
        core_, job,
        {RefusalKind::conflict, "The connection broke before the inviting node let this one in. Try again.", {}});
  }
  return take_over(job, theirs->state.head, *configuration);
}

/// The copy of a line that ended may have a higher number: it would count as newer than all that is decided from now
/// on. A pair that was made or recovered here meanwhile stays.
StepResult PairService::take_over(Job& job, const RevisionId& id, const Configuration& configuration) {
  const auto there = core_.copy.read();
  const bool ended = there && there->configuration.pair->id == configuration.pair->id && there->revision.n >= id.n;
  const std::string aside = fmt::format("{}.before-join-{}", core_.saved_file.path().string(), id.n);
  // What can't be set aside stays, and health tells of it.
  const bool kept = ended && core_.copy.set_aside(aside);
  for (bool taken = false; !taken;) {
    const RevisionState before = core_.revisions.state();
    if (core_.configuration()->pair) {
      core_.save_copy();
      return in_a_pair(job);
    }
    taken = core_.revisions.begin_epoch(before, id, "Joined the pair", configuration);
  }
  if (kept)
    core_.events.append({.kind = "configuration.given_up",
                         .severity = Severity::warning,
                         .side = core_.side(),
                         .volume = {},
                         .message = line_that_ended(*there, configuration, aside)});
  return joined(job);
}

void PairService::forget_join() { core_.revision_tables.drop_tentative(); }

StepResult PairService::joined(Job& job) {
  auto parameters = json::parse(job.parameters);
  parameters.erase("request");  // the secret has done its work
  job.parameters = parameters.dump();
  job.step = "replicas";
  job.progress = 0.7;
  job.message = "Is in the pair.";
  begin_deleting_cut_off_volumes();
  return StepResult::again_now;
}

std::string PairService::place_taken() const {
  const auto configuration = core_.configuration();
  std::string message =
      fmt::format("This node is in the pair {}, as side {}.", configuration->pair->name, side_name(*core_.side()));
  for (const auto& id : core_.missing_replicas()) {
    const Volume& volume = *configuration->volume(id);
    message += fmt::format(" Its replica of {} is missing.", volume.name);
    // The machine whose place this one took may have had a disk that this one has not.
    if (const std::string& folder = volume.copy(*core_.side()).folder; !folder.empty())
      message += fmt::format(
          " It was in {}, and a new one is made there: mount that, or name another folder, `lockstep "
          "replica replace {} --node {} --store FOLDER`.",
          folder, volume.name, side_name(*core_.side()));
  }
  return message;
}

StepResult PairService::replicas(Job& job) {
  const auto configuration = core_.configuration();
  // What there is of the replaced node's replicas is attached as it is; the mirror knows what it is good for.
  if (json::parse(job.parameters).value("replaces", false)) return finish(job, place_taken());
  if (configuration->volumes.empty()) return finish(job, place_taken());
  const auto peer = core_.peer();
  const auto seen = peer ? peer->look() : Outcome<NodeReport>(refuse(RefusalKind::no_pair, "is gone"));
  if (!seen) {
    job.message = fmt::format("Is in the pair. Waits to make replicas: the inviting node {}.",
                              trouble_with_partner(seen.error()));
    return StepResult::again_later;
  }
  const CopyView source{core_.partner(*configuration), *seen};
  auto parameters = json::parse(job.parameters);
  MadeReplicas copies{.made = parameters.value("made", std::vector<std::string>())};
  make_replicas(agent_, *configuration, source, copies);
  const std::int64_t since_ms = parameters.value("replicas_since_ms", wall_clock_ms());
  parameters["made"] = copies.made;
  parameters["replicas_since_ms"] = since_ms;
  job.parameters = parameters.dump();
  if (copies.away) {
    job.message = fmt::format("Is in the pair. {}", *copies.away);
    return StepResult::again_later;
  }
  const std::string unserved =
      copies.unserved.empty() ? "" : fmt::format(" {} does not serve {}.", source.node->name, copies.unserved);
  if (!copies.failed.empty())
    return fail(core_, job,
                {RefusalKind::conflict, fmt::format("This node is in the pair.{}{}", copies.failed, unserved), {}});
  if (unserved.empty()) return finish(job, place_taken());
  // It may serve in a moment. If it does not, the other jobs of the pair are not to wait for it.
  if (age_ms(since_ms) < core_.local.create_patience.count() * 1000) {
    job.message = fmt::format("Is in the pair. Waits to make the replica of {}:{}", copies.unserved, unserved);
    return StepResult::again_later;
  }
  return finish(job, fmt::format("{}{} Once it does, `lockstep replica replace --all --node {}` makes what is missing.",
                                 place_taken(), unserved, side_name(*core_.side())));
}

}  // namespace lockstep::mgmt
