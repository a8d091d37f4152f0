#pragma once
// How much a node may have sent to its partner and not been answered, so that neither heartbeats nor other volumes'
// operations wait long behind it. Bytes are those of payloads, both ways.
//
// A node has a budget for orders, one for forwards, one for resyncs' copies. Each has a limit for all volumes together;
// each volume has a share. A share may grow as long as it is smaller
// than three times what is left of the budget: one volume alone gets three quarters, and one whose partner's disk
// stands still leaves a quarter, and then three quarters of that, for the next. The limit is soft: what is begun below
// it may end above it, by one operation of at most kMaxLinkPayload.
//
// Two full nodes must not wait for one another. An order is answered when the partner's disk has it, whatever waits
// elsewhere; so those who hold a part of the orders' budget always end, and with them the locks that they hold. A
// forward waits for such locks, and for what the partner sends because of it: that takes no part of any budget (the
// forwards' own budget bounds it), and no forward ever takes a part of the orders' budget. Membership's messages take
// none either.
#include <cstdint>

#include "engine/base/result.hpp"
#include "engine/seams/clock.hpp"
#include "replication/core/pool.hpp"

namespace lockstep::replication {

struct LinkLimits {
  std::uint64_t bytes = 0;
  std::uint64_t requests = 0;
};

class LinkBudget;

/// One volume's part of a budget. What it still has when it ends goes back.
class LinkShare {
 public:
  /// `wake` runs, never from inside a call of these, when the share may be ready again after it was not.
  LinkShare(LinkBudget& budget, engine::Callback<> wake) : budget_(budget), wake_(std::move(wake)) {}
  LinkShare(const LinkShare&) = delete;
  LinkShare& operator=(const LinkShare&) = delete;
  ~LinkShare();

  /// One more operation may be sent. If not, `wake` follows.
  [[nodiscard]] bool ready();
  /// For one request that is being sent, whether ready or not.
  void take(std::uint64_t bytes);
  /// It was answered, or ended with its way.
  void give_back(std::uint64_t bytes);
  [[nodiscard]] LinkLimits taken() const { return taken_; }

  Hook<LinkShare> hook;  ///< while it waits

 private:
  friend class LinkBudget;
  LinkBudget& budget_;
  engine::Callback<> wake_;
  LinkLimits taken_;
};

/// Owned by the node's reactor, outlives its shares.
class LinkBudget {
 public:
  LinkBudget(engine::Clock& clock, LinkLimits limits) : clock_(clock), limits_(limits) {}
  LinkBudget(const LinkBudget&) = delete;
  LinkBudget& operator=(const LinkBudget&) = delete;
  ~LinkBudget() { clock_.cancel(wake_timer_); }

  [[nodiscard]] LinkLimits taken() const { return taken_; }

 private:
  friend class LinkShare;
  [[nodiscard]] bool has_room_for(const LinkLimits& share) const;
  [[nodiscard]] bool is_spent() const { return taken_.bytes >= limits_.bytes || taken_.requests >= limits_.requests; }
  void wake_later();
  void wake();

  engine::Clock& clock_;
  LinkLimits limits_;
  LinkLimits taken_;
  List<LinkShare> waiting_;
  engine::TimerId wake_timer_ = engine::TimerId::none;
};

}  // namespace lockstep::replication
