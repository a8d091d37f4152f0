#pragma once
// The memory that the sessions of one reactor take their commands' data in: fair_share.hpp says who may have it, the
// pool has it. Also looks after sessions that hold some and don't move it while others wait.
#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "engine/runtime/buffer_pool.hpp"
#include "engine/seams/clock.hpp"
#include "iscsi_target/session/fair_share.hpp"

namespace lockstep::iscsi_target {

/// A session as its memory's keeper sees it.
class BufferUser : public FairShare::Member {
 public:
  /// A claim that waited is granted.
  virtual void buffer_ready(FairShare::Claim& claim, engine::Buffer buffer) = 0;
  /// Called every DataBuffers::kLook while anybody waits. `is_in_the_way`: one who waits has less of what it waits for
  /// than this one, so that what this one holds and does not move is to be let go.
  virtual void look(bool is_in_the_way) = 0;

 protected:
  ~BufferUser() = default;
};

class DataBuffers {
 public:
  static constexpr engine::Duration kLook = std::chrono::milliseconds(500);

  DataBuffers(engine::Clock& clock, engine::BufferPool& pool);
  ~DataBuffers();
  DataBuffers(const DataBuffers&) = delete;
  DataBuffers& operator=(const DataBuffers&) = delete;

  /// `address` without the port.
  void join(BufferUser& user, const std::string& name, const std::string& address);
  void leave(BufferUser& user);

  /// Memory for `bytes` that `claim`, which is idle, stands for from now on. Empty: it waits for buffer_ready() (never
  /// called from in here), or, when it is idle still, it is more than there may ever be for hosts.
  [[nodiscard]] engine::Buffer take_or_wait(FairShare::Claim& claim, std::size_t bytes);
  /// The same of the little that there is for data nobody has asked for; empty: there is none now.
  [[nodiscard]] engine::Buffer take_stash(FairShare::Claim& claim, std::size_t bytes);
  /// The memory of a granted claim went back to the pool, or a claim waits no more. Idle: nothing.
  void give_back(FairShare::Claim& claim);
  [[nodiscard]] bool anybody_waits() const { return share_.anybody_waits(); }

 private:
  /// Beyond the pool's zones: what comes unasked. Its memory is medium or small.
  static constexpr std::size_t kStashZone = engine::BufferPool::kMaxZones;
  static_assert(kStashZone < FairShare::kMaxZones);
  [[nodiscard]] static std::array<std::size_t, FairShare::kMaxZones> budgets(const engine::BufferPool& pool);
  void serve();
  void serve(std::size_t zone);
  void look_later();
  void look();

  engine::Clock& clock_;
  engine::BufferPool& pool_;
  FairShare share_;
  std::map<std::string, FairShare::Host, std::less<>> names_, addresses_;
  std::vector<BufferUser*> users_;
  engine::TimerId serve_timer_ = engine::TimerId::none;
  engine::TimerId look_timer_ = engine::TimerId::none;
};

}  // namespace lockstep::iscsi_target
