#include "mgmt/control/turn_loop.hpp"

#include <fmt/format.h>

#include "mgmt/log/log.hpp"

namespace lockstep::mgmt {

TurnLoop::TurnLoop(std::string name, std::chrono::milliseconds between, std::function<void()> turn)
    : name_(std::move(name)), between_(between), turn_(std::move(turn)) {}

void TurnLoop::start() {
  thread_ = std::thread([this] { run(); });
}

void TurnLoop::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  poked_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void TurnLoop::poke() {
  {
    const std::lock_guard lock(mutex_);
    poke_ = true;
  }
  poked_.notify_all();
}

void TurnLoop::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    poke_ = false;
    lock.unlock();
    try {
      turn_();
    } catch (const std::exception& e) {
      log_error(fmt::format("{}: {}", name_, e.what()));
    }
    lock.lock();
    poked_.wait_for(lock, between_, [this] { return poke_ || stopping_; });
  }
}

}  // namespace lockstep::mgmt
