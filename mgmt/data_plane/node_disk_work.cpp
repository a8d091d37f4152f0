// Work on the disks of replicas: attached, made, lengthened, deleted. All else that the node is asked waits for it, one
// thing after the other, but for a while only: a disk that hangs holds up its own replica, for as long as it hangs.
#include <algorithm>
#include <system_error>

#include <sys/stat.h>

#include "engine/stores/file_draft.hpp"
#include "mgmt/data_plane/node.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::data_plane {

using mgmt::log_warning;

using engine::Result;

/// `go_on` runs when the disk has not answered within `patience`.
void Node::begin_disk_work(const Place& place, engine::Duration patience, engine::Callback<> go_on) {
  DiskWork& work = disk_work_[place];
  work.since = home().now();
  work.go_on = std::move(go_on);
  work.timer = home().call_after(patience, [this, place] {
    DiskWork& silent = disk_work_.at(place);
    silent.timer = {};
    log_warning("The disk of " + place.data + " has not answered what it was asked; all else goes on without it.");
    auto rest = std::exchange(silent.go_on, {});
    rest();
    end_replica_work();
  });
}

/// False: all has gone on without it.
bool Node::is_waited_for(const Place& place) const { return bool(disk_work_.at(place).go_on); }

/// False: too late.
bool Node::has_answered(const Place& place) {
  home().cancel(std::exchange(disk_work_.at(place).timer, {}));
  return is_waited_for(place);
}

/// Nothing of it is open any more, or it is attached. Gives what was to go on without it, if that has not.
engine::Callback<> Node::end_disk_work(const Place& place) {
  (void)has_answered(place);
  DiskWork work = std::move(disk_work_.extract(place).mapped());
  for (auto& each : work.after) each.again();
  end_replica_work();
  return std::move(work.go_on);
}

/// Runs `again` when the work on that place's disk has ended, or `give_up`. False when there is none.
bool Node::await_disk(const Place& place, engine::Callback<> again, engine::Callback<> give_up) {
  const auto work = disk_work_.find(place);
  if (work == disk_work_.end()) return false;
  auto& after = work->second.after;
  after.push_back({std::move(again), std::move(give_up)});
  if (after.size() <= kMaxWaiting) return true;
  Waiting oldest = std::move(after.front());  // who asked that long ago waits no more, but its request is to end
  after.pop_front();
  oldest.give_up();
  return true;
}

bool Node::has_replica_work() const {
  return std::ranges::any_of(disk_work_, [](const auto& each) { return bool(each.second.go_on); });
}

void Node::end_replica_work() {
  if (has_replica_work()) return;
  if (auto then = std::exchange(after_replica_work_, {})) then();
}

engine::Callback<> Node::answer_silence(const Reply& reply, const std::string& path) {
  return [reply, path] { (*reply)(engine::fail(engine::Errc::timed_out, silence(path))); };
}

std::string Node::silence(const std::string& path) {
  return "Its disk (" + path +
         ") has not answered what it was asked. It is tried again when it has; until then the copy here stays as it "
         "is, out of service or not, and all else goes on. If it never does, make a new copy on another disk.";
}

// ---- on threads of their own ----

/// Reserving much space, or giving it back, may take a file system longer than a lease lasts.
void Node::work_on_files(std::function<Result<void>()> work, FilesDone done) {
  auto then = std::make_shared<FilesDone>(std::move(done));
  const auto self = file_workers_.emplace(file_workers_.end());
  try {
    *self = std::thread([this, self, work = std::move(work), then]() mutable {
      auto outcome = work();
      home().post([this, self, outcome = std::move(outcome), then]() mutable {
        self->join();  // it has ended, or is about to
        file_workers_.erase(self);
        (*then)(std::move(outcome));
      });
    });
  } catch (const std::system_error&) {
    file_workers_.erase(self);
    (*then)(engine::fail(engine::Errc::resource_exhausted, "The system has no thread for it now. Try again."));
  }
}

/// What a reactor looks at next: where a disk does not answer even that, a thread waits for it.
void Node::look_first(const Place& place, const std::string& metadata, engine::Callback<> then) {
  std::vector<std::string> all{place.data, metadata, engine::draft_name(place.data), engine::draft_name(metadata)};
  auto look = [paths = std::move(all)]() -> Result<void> {
    struct stat unused {};
    for (const std::string& path : paths) (void)::stat(path.c_str(), &unused);
    return {};
  };
  work_on_files(std::move(look), [then = std::move(then)](const Result<void>&) mutable { then(); });
}

FileWorker Node::file_worker() {
  return [this](auto work, auto done) { work_on_files(std::move(work), std::move(done)); };
}

/// For whoever is on another reactor than this node.
FileWorker Node::file_worker_for(engine::Reactor& other) {
  return [this, &other](auto work, auto done) {
    home().post([this, &other, work = std::move(work), done = std::move(done)]() mutable {
      work_on_files(std::move(work), [&other, done = std::move(done)](Result<void> outcome) mutable {
        other.post([outcome = std::move(outcome), done = std::move(done)]() mutable { done(std::move(outcome)); });
      });
    });
  };
}

}  // namespace lockstep::data_plane
