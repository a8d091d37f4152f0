#include "mgmt/data_plane/end_watch.hpp"

#include <system_error>
#include <utility>

namespace lockstep::data_plane {

EndWatch::~EndWatch() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

void EndWatch::begin(engine::Duration patience) {
  try {
    watcher_ = std::thread([this, patience] {
      std::unique_lock lock(mutex_);
      if (!changed_.wait_for(lock, patience, [this] { return over_; })) end_without_(what_);
    });
  } catch (const std::system_error&) {  // the system has no thread now
  }
}

void EndWatch::waits_for(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

}  // namespace lockstep::data_plane
