#include "mgmt/control/import_jobs.hpp"

#include <algorithm>
#include <chrono>
#include <future>

#include <fmt/format.h>

#include "mgmt/control/job_steps.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/control/validation.hpp"
#include "mgmt/control/volume_service.hpp"
#include "mgmt/records/json.hpp"

namespace lockstep::mgmt {
namespace {

using records::json;
using Clock = std::chrono::steady_clock;
constexpr auto kFirstRetry = std::chrono::seconds(1);
constexpr auto kLastRetry = std::chrono::seconds(30);
constexpr double kMade = 0.02;  // of the whole progress, when copying begins

json parameters_of(const Job& job) { return json::parse(job.parameters); }

StepResult move_on(Job& job, const char* step, std::string message) {
  job.step = step;
  job.message = std::move(message);
  return StepResult::again_now;
}

LunAddress source_of(const json& p) {
  const json& s = p.at("source");
  LunAddress address;
  address.what = "The source";
  ImportSource source;
  source.host = s.at("host");
  source.port = s.at("port");
  address.portal = source.portal();
  address.target = s.at("target");
  address.lun = s.at("lun");
  address.initiator = p.at("initiator");
  if (s.contains("user")) address.chap = Chap{s.at("user"), s.at("secret")};
  return address;
}

// A job that was begun before there was such a thing lacks it.
struct KeptWish {
  static constexpr records::Rules rules(const Volume*) {
    return {.required = "name physical_block thin read_only removable write_cache access",
            .written = "encrypted any_initiator",
            .hidden = "id serial lun size block_size lifecycle first_epoch import_secret created_ms shard copies"};
  }
  static void read(const json& j, Volume& wish) {
    if (!j.contains("any_initiator")) wish.any_initiator = wish.access.empty();  // meant by it, then
  }
};

VolumeWish wish_of(const json& p) {
  auto wish = records::from_json<KeptWish, VolumeWish>(p.at("volume"));
  wish.size = p.at("size");
  wish.block_size = p.at("block_size");
  wish.physical_block = std::max(wish.physical_block, wish.block_size);
  return wish;
}

// The job is finished: how to log in to the source is nobody's business any more.
void forget_secret(Job& job) {
  json p = parameters_of(job);
  p["source"].erase("secret");
  job.parameters = p.dump();
}

std::string amount(double bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 || bytes >= 100 ? 0 : 1, kUnits[unit]);
}

std::string duration(std::uint64_t seconds) {
  if (seconds < 120) return fmt::format("{} seconds", std::max<std::uint64_t>(seconds, 1));
  if (seconds < 7200) return fmt::format("{} minutes", seconds / 60);
  return fmt::format("{} hours {} minutes", seconds / 3600, seconds / 60 % 60);
}

std::string told(const CopyProgress& now, std::uint64_t size) {
  std::string text =
      fmt::format("Copied {} of {}", amount(static_cast<double>(now.position)), amount(static_cast<double>(size)));
  if (now.rate > 0)
    text += fmt::format(", {} a second, about {} left", amount(static_cast<double>(now.rate)),
                        duration((size - now.position) / now.rate));
  return text + ".";
}

}  // namespace

struct ImportJobs::Probe {
  std::atomic<bool> stop{false};
  std::future<std::expected<LunShape, LunFault>> shape;
  ~Probe() { stop = true; }  // the future's end waits for the thread
};

struct ImportJobs::Work {
  Probe probe;
  std::unique_ptr<LunCopier> copier;
  bool fresh = false;  ///< nothing was written yet
  Clock::time_point retry_at;
  Clock::duration pause = kFirstRetry;
};

std::string import_parameters(const ImportWish& wish) {
  json source = {{"host", wish.source.host},
                 {"port", wish.source.port},
                 {"target", wish.source.target},
                 {"lun", wish.source.lun},
                 {"shown", wish.source.shown()}};
  if (wish.source.chap) {
    source["user"] = wish.source.chap->user;
    source["secret"] = wish.source.chap->secret;
  }
  return json{{"source", source},
              {"initiator", wish.initiator},
              {"position", 0},
              {"begun", false},
              {"volume", records::to_json<KeptWish>(wish.volume)}}
      .dump();
}

ImportJobs::ImportJobs(NodeCore& core, VolumeJobs& volumes) : core_(core), volumes_(volumes) {}
ImportJobs::~ImportJobs() = default;

void ImportJobs::teach(JobRunner& runner) {
  // It writes over a volume that may have come into service since.
  runner.teach_sure(kImportKind, [this](Job& job) { return step(job); });
}

StepResult ImportJobs::step(Job& job) {
  const bool own =
      job.step == "probe" || job.step == "name" || job.step == "make" || job.step == "sync" || job.step == "copy";
  StepResult result = StepResult::again_now;
  if (own && is_in_service(job)) {
    result = fail(core_, job,
                  {RefusalKind::conflict,
                   "The volume is in service, so that nothing is copied over it. Look at it, and delete it and import "
                   "it again if it is not whole.",
                   {}});
  } else if (own && is_cancelled(core_, job)) {
    work_.erase(job.id);
    Refusal reason{RefusalKind::conflict, "The import was cancelled; nothing of it is left behind.", {}};
    const bool made = job.volume && core_.configuration()->volume(*job.volume);
    result = made ? begin_undo(job, std::move(reason)) : fail(core_, job, std::move(reason));
  } else if (job.step == "probe") {
    result = probe(job);
  } else if (job.step == "name") {
    job.volume = random_uuid();  // durable before the volume is
    result = move_on(job, "make", fmt::format("Makes the volume {}.", wish_of(parameters_of(job)).name));
  } else if (job.step == "make") {
    result = make(job);
  } else if (job.step == "copy") {
    result = copy(job);
  } else if (job.step == "open") {
    result = open(job);
  } else {
    const double before = job.progress;
    result = volumes_.step(job);
    if (!job.finished()) job.progress = std::max(before, std::min(job.progress, kMade));
  }
  if (!job.finished()) return result;
  work_.erase(job.id);
  forget_cancel(core_, job);
  forget_secret(job);
  return result;
}

/// Its job stands where it stood before: hosts may have written since.
bool ImportJobs::is_in_service(const Job& job) const {
  const auto configuration = core_.configuration();
  const Volume* volume = job.volume ? configuration->volume(*job.volume) : nullptr;
  return volume && volume->import_secret.empty();
}

StepResult ImportJobs::probe(Job& job) {
  auto& work = work_[job.id];
  if (!work) {
    work = std::make_unique<Work>();
    work->probe.shape = std::async(std::launch::async, [address = source_of(parameters_of(job)), &probe = work->probe] {
      auto session = LunSession::open(address, probe.stop);
      return session ? std::expected<LunShape, LunFault>((*session)->shape()) : std::unexpected(session.error());
    });
  }
  if (work->probe.shape.wait_for(std::chrono::milliseconds(500)) != std::future_status::ready)
    return StepResult::again_later;
  const auto shape = work->probe.shape.get();
  work_.erase(job.id);
  if (!shape) return fail(core_, job, {RefusalKind::conflict, shape.error().sentence, {}});
  return take_shape(job, *shape);
}

StepResult ImportJobs::take_shape(Job& job, const LunShape& shape) {
  json p = parameters_of(job);
  if (shape.block_size != 512 && shape.block_size != 4096) {
    return fail(core_, job,
                {RefusalKind::conflict,
                 fmt::format("The source has blocks of {} bytes; only 512 and 4096 can be imported.", shape.block_size),
                 {}});
  }
  const auto granule = static_cast<std::uint64_t>(kVolumeGranule);
  const std::uint64_t size = std::max((shape.size + granule - 1) / granule * granule, std::uint64_t{kMinVolumeSize});
  p["source_size"] = shape.size;
  p["identity"] = shape.identity;
  p["size"] = size;
  p["block_size"] = shape.block_size;
  job.parameters = p.dump();
  return move_on(job, "name", fmt::format("The source has {}.", amount(static_cast<double>(shape.size))));
}

StepResult ImportJobs::make(Job& job) {
  const json p = parameters_of(job);
  const auto changed =
      core_.change(fmt::format("Volume {} begun", wish_of(p).name), [&](Configuration& c) -> Outcome<void> {
        if (c.volume(*job.volume)) return {};  // made, and then the process ended
        auto volume = describe_new(wish_of(p), c, *job.volume, volumes_.shards());
        if (!volume) return std::unexpected(volume.error());
        volume->import_secret = random_password(32);
        return add_new(std::move(*volume), c);
      });
  if (changed) return move_on(job, "replica_here", job.message);
  if (changed.error().kind != RefusalKind::not_current) return fail(core_, job, changed.error());
  job.message = changed.error().detail;
  return StepResult::again_later;
}

StepResult ImportJobs::copy(Job& job) {
  const auto configuration = core_.configuration();
  const Volume* volume = configuration->volume(*job.volume);
  if (!volume) return fail(core_, job, {RefusalKind::internal, "The volume is gone.", {}});
  auto& work = work_[job.id];
  if (!work) work = std::make_unique<Work>();
  if (work->copier) return go_on_copying(job, *work, *volume);
  if (Clock::now() < work->retry_at) return StepResult::again_later;
  json p = parameters_of(job);
  if (!p.at("begun").get<bool>()) {  // durable before the first byte is written
    p["begun"] = true;
    job.parameters = p.dump();
    job.message = "Copies.";
    work->fresh = true;
    return StepResult::again_now;
  }
  CopyPlan plan;
  plan.from = source_of(p);
  const Importer importer = importer_of(*volume);
  plan.to = {"The new volume",
             configuration->node(*core_.side())->portals.front(),
             configuration->pair->target_name,
             static_cast<int>(volume->lun),
             importer.initiator,
             importer.chap};
  plan.size = p.at("source_size");
  plan.block_size = p.at("block_size");
  plan.identity = p.value("identity", "");  // a job that was begun before it was kept lacks it
  plan.position = p.at("position");
  plan.resumed = !std::exchange(work->fresh, false);
  work->copier = std::make_unique<LunCopier>(std::move(plan));
  return StepResult::again_later;
}

StepResult ImportJobs::go_on_copying(Job& job, Work& work, const Volume& volume) {
  json p = parameters_of(job);
  const CopyProgress now = work.copier->progress();
  const std::uint64_t size = p.at("source_size"), before = p.at("position");
  if (now.position != before || !now.ended) {
    p["position"] = now.position;
    job.parameters = p.dump();
    job.progress =
        std::max(job.progress, kMade + (0.99 - kMade) * static_cast<double>(now.position) / static_cast<double>(size));
    if (now.position != before) work.pause = kFirstRetry;
    if (now.position != before || !job.message.starts_with("Copied")) job.message = told(now, size);
  }
  if (!now.ended) return StepResult::again_later;
  work.copier.reset();
  if (!now.fault) return move_on(job, "open", fmt::format("Puts {} into service.", volume.name));
  if (!now.fault->passing) return begin_undo(job, {RefusalKind::conflict, now.fault->sentence, {}});
  job.message =
      fmt::format("{} Tries again; {} are copied.", now.fault->sentence, amount(static_cast<double>(now.position)));
  work.retry_at = Clock::now() + work.pause;
  work.pause = std::min<Clock::duration>(work.pause * 2, kLastRetry);
  return StepResult::again_later;
}

StepResult ImportJobs::open(Job& job) {
  std::string name, hint;
  const auto changed = core_.change("Volume imported", [&](Configuration& c) -> Outcome<void> {
    if (Volume* v = c.volume(*job.volume)) {
      v->import_secret.clear();
      name = v->name;
      hint = closed_hint(*v);
    }
    return {};
  });
  if (!changed) {
    job.message = changed.error().detail;
    return StepResult::again_later;
  }
  const std::string from = parameters_of(job).at("source").at("shown");
  core_.events.append({.kind = "volume.imported",
                       .side = {},
                       .volume = job.volume,
                       .message = fmt::format("{} was imported from {}.", name, from)});
  return finish(job, fmt::format("{} was imported from {}.{}", name, from, hint));
}

}  // namespace lockstep::mgmt
