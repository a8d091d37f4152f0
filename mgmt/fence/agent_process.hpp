#pragma once
// Runs a program once, with a time limit, and leaves nothing of it behind.
#include <chrono>
#include <string>

namespace lockstep::mgmt {

struct AgentEnd {
  enum class How : std::uint8_t {
    exited,      ///< by itself, with `status`
    signalled,   ///< by the signal `status`
    timed_out,   ///< it was killed at its limit
    called_off,  ///< it was killed, since whoever asked is gone
    not_begun    ///< it can't be run; `status` is an errno
  };
  How how = How::not_begun;
  int status = 0;
  std::string output;  ///< of both its outputs, the last 64 KiB
  [[nodiscard]] bool exited_with(int wanted) const { return how == How::exited && status == wanted; }
};

/// `input` goes to its standard input; its environment is a PATH and a plain locale. When it ends, and when its time is
/// over, every process of its group is killed. `caller`: a socket, the end of which calls the program off; -1: none.
/// The caller ignores SIGPIPE.
[[nodiscard]] AgentEnd run_agent(const std::string& program, const std::string& input, std::chrono::milliseconds limit,
                                 int caller);

/// Waits so long; false: the caller hung up.
[[nodiscard]] bool wait_with(int caller, std::chrono::milliseconds time);

}  // namespace lockstep::mgmt
