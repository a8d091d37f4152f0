#pragma once
// The node's own word that a replica left, in the state folder: left/<volume's id> (replication/core/left_records.hpp).
#include <map>
#include <mutex>
#include <string>

#include <boost/asio/thread_pool.hpp>

#include "engine/runtime/reactor.hpp"
#include "replication/core/left_records.hpp"

namespace lockstep::data_plane {

class LeftRecordFiles final : public replication::LeftRecords {
 public:
  /// Reads what is there; blocks. What follows may be called on any thread; keep() calls back on `home`.
  LeftRecordFiles(engine::Reactor& home, const std::string& state_folder);
  ~LeftRecordFiles() override { end(); }
  /// What was asked for is carried out. Nothing is asked for any more.
  void end() { writer_.join(); }

  void keep(const engine::Uuid& volume, const engine::EpochRecord& record, engine::IoCallback done) override;
  [[nodiscard]] engine::IoResult<std::optional<engine::EpochRecord>> kept(const engine::Uuid& volume) const override;
  void forget(const engine::Uuid& volume) override;

 private:
  [[nodiscard]] std::string path_of(const engine::Uuid& volume) const { return folder_ + "/" + volume.to_string(); }
  void read(const std::string& path, const engine::Uuid& volume);

  engine::Reactor& home_;
  std::string folder_;
  bool readable_ = true;      ///< else it is not known which there are
  mutable std::mutex mutex_;  ///< guards what follows
  std::map<engine::Uuid, engine::IoResult<engine::EpochRecord>> kept_;
  boost::asio::thread_pool writer_{1};  // a disk may take longer than a lease
};

}  // namespace lockstep::data_plane
