#pragma once
// The fence command as the mirror holds it. lockstepd itself runs nothing: it asks lockstep-fence, which systemd starts
// for each question, over a Unix socket (docs/developer/fence.md). Used where the pair's arbiter is a fence, else not.
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "engine/runtime/reactor.hpp"
#include "replication/core/fencing.hpp"

namespace lockstep::data_plane {

/// What lockstep-fence answered, or why it did not.
struct FenceWord {
  bool done = false;
  bool off = false;     ///< the machine was seen to be off
  std::string problem;  ///< a sentence; empty when done
};

class FenceCall;

class FenceSlot final : public replication::Fence {
 public:
  /// Of what is told: "fence.begun", "fence.succeeded", "fence.failed", "fence.stopped", "fence.found", "fence.lost".
  using Tell = engine::Callback<const std::string&, const std::string&>;

  /// Answers, on the reactor, whether the partner is connected.
  using Connected = std::function<void(engine::Callback<bool>)>;

  /// `look_again`: after a look that failed.
  FenceSlot(engine::Reactor& reactor, std::string socket, Tell tell, Connected connected,
            engine::Duration look_again = std::chrono::seconds(5));
  ~FenceSlot() override;

  void use(bool on);
  /// The device answered when it was looked at last, and did not say that a connected partner is off; looked at every
  /// minute.
  [[nodiscard]] bool ready() const { return in_use_ && ready_; }
  /// A sentence; empty: there is no problem.
  [[nodiscard]] std::string finding() const;
  /// Looks once, also where the arbiter is another.
  void look(engine::Callback<const FenceWord&> done);

  [[nodiscard]] bool configured() const override { return in_use_; }
  void power_off(engine::TimePoint since, engine::Callback<const replication::FenceEnd&> done) override;
  void stop() override;

 private:
  static constexpr engine::Duration kLookEvery = std::chrono::seconds(60);
  /// lockstep-fence has limits of its own, and ends sooner: an order's is 10 minutes, a delay's a minute.
  static constexpr engine::Duration kOrderLimit = std::chrono::seconds(700);
  static constexpr engine::Duration kLookLimit = std::chrono::seconds(30);

  std::shared_ptr<FenceCall> ask(const char* order, engine::Duration limit, engine::Callback<const FenceWord&> done);
  void watch();
  void compare_with_link(const FenceWord& word);
  void note(const FenceWord& word, bool is_wrong);
  void look_later(engine::Duration delay);

  engine::Reactor& reactor_;
  std::string socket_;
  Tell tell_;
  Connected connected_;
  const engine::Duration look_again_;
  std::atomic<bool> in_use_ = false;  ///< looked at from any shard's reactor
  bool ready_ = false, looked_ = false;
  bool doubted_ = false;  ///< the last look said that a connected partner is off
  bool wrong_ = false;    ///< and the one before, too; until one sees the partner run
  std::string problem_;   ///< of a device that does not answer
  std::string last_failure_;
  engine::TimerId timer_ = engine::TimerId::none;
  std::shared_ptr<FenceCall> order_, look_;
};

}  // namespace lockstep::data_plane
