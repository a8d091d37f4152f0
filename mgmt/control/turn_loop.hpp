#pragma once
// A thread that takes a turn every so often, and at once when it is poked.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace lockstep::mgmt {

/// The last member of its owner: what the turns use outlives it. A turn that throws is logged under `name`; the next
/// one comes all the same.
class TurnLoop {
 public:
  TurnLoop(std::string name, std::chrono::milliseconds between, std::function<void()> turn);
  ~TurnLoop() { stop(); }
  TurnLoop(const TurnLoop&) = delete;
  TurnLoop& operator=(const TurnLoop&) = delete;

  void start();                                              ///< once
  void stop();                                               ///< waits for a turn under way; any number of times
  void poke();                                               ///< another turn begins after this, without waiting
  [[nodiscard]] bool stopping() const { return stopping_; }  ///< for long turns

 private:
  void run();

  std::string name_;
  std::chrono::milliseconds between_;
  std::function<void()> turn_;
  std::mutex mutex_;  ///< guards poke_
  std::condition_variable poked_;
  bool poke_ = false;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep::mgmt
