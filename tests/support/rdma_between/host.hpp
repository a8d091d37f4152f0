#pragma once
// What a process has of the fabric, and what each of its reactors has.
#include <atomic>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/rdma/verbs.hpp"
#include "engine/runtime/reactor.hpp"
#include "tests/support/rdma_between/folder.hpp"
#include "tests/support/rdma_between/socket.hpp"

namespace lockstep::test::between {

/// Any thread.
class Arenas {
 public:
  void add(std::span<std::byte> arena);
  void remove(std::span<std::byte> arena);
  /// All of it lies in one.
  [[nodiscard]] bool has(std::span<const std::byte> memory) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::span<std::byte>> arenas_;
};

/// Any thread.
struct Process {
  explicit Process(Folder in) : folder(std::move(in)) {}
  void fault(std::string_view sentence);
  [[nodiscard]] std::vector<std::string> faults() const;
  [[nodiscard]] std::uint32_t new_key() { return ++last_key_; }
  [[nodiscard]] std::uint16_t new_port() { return static_cast<std::uint16_t>(40'000 + ++last_port_ % 20'000); }

  const Folder folder;
  Arenas arenas;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> faults_;
  std::atomic<std::uint32_t> last_key_{0x100};
  std::atomic<std::uint32_t> last_port_{0};
};

/// What hangs on the cable.
class Plugged {
 public:
  virtual void cable_changed(Cable now) = 0;

 protected:
  ~Plugged() = default;
};

/// Looks at the folder's files every few milliseconds. On one reactor, or while no thread runs it.
class CableWatch {
 public:
  CableWatch(const Folder& folder, engine::Reactor& reactor);
  ~CableWatch();
  CableWatch(const CableWatch&) = delete;
  CableWatch& operator=(const CableWatch&) = delete;

  [[nodiscard]] Cable now() const { return now_; }
  void plug(Plugged& plugged) { plugged_.push_back(&plugged); }
  void unplug(Plugged& plugged) { std::erase(plugged_, &plugged); }

 private:
  void look();
  void look_later();

  const Folder& folder_;
  engine::Reactor& reactor_;
  Cable now_;
  std::vector<Plugged*> plugged_;
  engine::TimerId timer_ = engine::TimerId::none;
};

class Host final : public rdma::Completions {
 public:
  Host(Process& of, engine::Reactor& on) : process(of), reactor(on), cable(of.folder, on), room(kPacketRoom) {}

  Process& process;
  engine::Reactor& reactor;
  CableWatch cable;
  std::vector<std::byte> room;  ///< for the packet that is being looked at
};

}  // namespace lockstep::test::between
