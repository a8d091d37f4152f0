#include "mgmt/data_plane/left_record_files.hpp"

#include <filesystem>
#include <fstream>
#include <vector>

#include <boost/asio/post.hpp>

#include "mgmt/data_plane/durable_file.hpp"
#include "mgmt/log/log.hpp"
#include "replication/core/replica_state.hpp"

namespace lockstep::data_plane {

using mgmt::log_error;
using mgmt::log_warning;

using engine::Errc;
using engine::Uuid;

LeftRecordFiles::LeftRecordFiles(engine::Reactor& home, const std::string& state_folder)
    : home_(home), folder_(state_folder + "/left") {
  std::error_code failed;
  std::filesystem::directory_iterator entry(folder_, failed);
  for (; !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
    const auto volume = Uuid::parse(entry->path().filename().string());
    if (volume) read(entry->path().string(), *volume);
  }
  readable_ = !failed || failed == std::errc::no_such_file_or_directory;
  if (!readable_) log_error("The folder " + folder_ + " can't be read: " + failed.message() + ".");
}

void LeftRecordFiles::read(const std::string& path, const Uuid& volume) {
  std::vector<char> bytes(replication::kMaxStateBytes + 1);  // one more than it may have
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const auto count = static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0));
  const auto state = replication::decode_state(std::as_bytes(std::span(bytes).first(count)));
  if (!state) log_error(path + " can't be read: " + state.error().message() + ".");
  kept_[volume] = state ? engine::IoResult<engine::EpochRecord>(state->record) : std::unexpected(state.error());
}

void LeftRecordFiles::keep(const Uuid& volume, const engine::EpochRecord& record, engine::IoCallback done) {
  {
    const std::lock_guard lock(mutex_);
    kept_[volume] = record;
  }
  log_warning("A replica leaves, and its metadata can't be written: " + path_of(volume) + " keeps that.");
  replication::ReplicaState state;
  state.record = record;
  auto work = [this, path = path_of(volume), bytes = replication::encode_state(state),
               done = std::move(done)]() mutable {
    auto written = make_folder_durably(folder_);
    if (written) written = write_durably(path, bytes, "Can't write " + path);
    if (!written) log_error(written.error().message);
    home_.post([ok = written.has_value(), done = std::move(done)]() mutable {
      done(ok ? std::error_code{} : make_error_code(Errc::io_error));
    });
  };
  boost::asio::post(writer_, std::move(work));
}

engine::IoResult<std::optional<engine::EpochRecord>> LeftRecordFiles::kept(const Uuid& volume) const {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(volume);
  if (found == kept_.end() && !readable_) return std::unexpected(make_error_code(Errc::io_error));
  if (found == kept_.end()) return std::nullopt;
  if (!found->second) return std::unexpected(found->second.error());
  return *found->second;
}

void LeftRecordFiles::forget(const Uuid& volume) {
  {
    const std::lock_guard lock(mutex_);
    if (kept_.erase(volume) == 0) return;
  }
  boost::asio::post(writer_, [path = path_of(volume)] {
    if (const auto removed = remove_durably(path); !removed) log_error(removed.error().message);
  });
}

}  // namespace lockstep::data_plane
