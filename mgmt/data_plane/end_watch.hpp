#pragma once
// The end of the process, which is not to take for ever: a driver or a file system that hangs keeps the thread that
// asked it something, and with it this process, its lock and its addresses from the one that follows.
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "engine/seams/clock.hpp"

namespace lockstep::data_plane {

class EndWatch {
 public:
  /// Ends the process, which waits for that. On a thread of its own.
  using EndWithout = std::function<void(const std::string& what)>;

  explicit EndWatch(EndWithout end_without) : end_without_(std::move(end_without)) {}
  /// The end has come to its end.
  ~EndWatch();
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

  /// From now on the end may take `patience` in all. Once. Not watched where the system has no thread for it.
  void begin(engine::Duration patience);
  /// What the end waits for from now on; does not return when it took too long already.
  void waits_for(std::string what);

 private:
  EndWithout end_without_;
  std::mutex mutex_;  ///< guards what follows; held as the process is ended, so that nothing is taken apart meanwhile
  std::condition_variable changed_;
  std::string what_;
  bool over_ = false;
  std::thread watcher_;
};

}  // namespace lockstep::data_plane
