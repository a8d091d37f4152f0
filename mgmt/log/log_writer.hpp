#pragma once
// Lines on their way to a descriptor that may take them slowly or never: a pipe that nobody reads, a journal that
// hangs. Whoever logs waits for nothing but a mutex that is held for the length of a copy, and a daemon stops although
// its lines are taken by nobody.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace lockstep::mgmt {

struct LogBounds {
  std::size_t lines = 2048;       ///< that wait; one more takes the place of the oldest
  std::size_t line_bytes = 2048;  ///< longer lines are cut; below PIPE_BUF, so that a pipe with room takes a line whole
};

class LogWriter {
 public:
  explicit LogWriter(int descriptor, LogBounds bounds = {});
  /// Writes what is left if that can be done at once; a thread that is stuck in the kernel is left behind.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// Any thread. Control characters within the line become '?'. How many lines were lost is said in their place.
  void put(std::string_view line) noexcept;
  /// True when all that was put before has been written.
  bool drain(std::chrono::milliseconds patience);
  /// Safe in a signal's handler: gives the lines a moment to be written, unless nobody takes them anyway.
  void drain_in_signal_handler() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::mgmt
