#pragma once
// An initiator's session carries volumes of every shard: the shard that has to close them closes them for all. What
// came over them for the others' volumes must not be started any more either, here or at the partner, when the
// initiators send it again through the partner. So every shard takes part, and the sessions are closed when each has
// said that it is ready. Lives on the home reactor.
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "engine/base/result.hpp"

namespace lockstep::data_plane {

class SessionFence {
 public:
  struct Hands {
    std::function<void(unsigned shard)> join;       ///< PairNode::fence() of that shard
    std::function<void(engine::Callback<>)> close;  ///< all sessions; calls back when none brings anything any more
  };
  explicit SessionFence(Hands hands) : hands_(std::move(hands)) {}

  /// Numbered from 0. One that comes while the others are waited for takes part.
  void add_shard();
  /// A shard's NodeObserver::on_fencing() …
  void begin();
  /// … and on_fenced(): `closed` is called here.
  void ready(unsigned shard, engine::Callback<> closed);
  /// No session is to be closed, or about to be.
  [[nodiscard]] bool is_idle() const { return phase_ == Phase::idle; }

 private:
  /// Gathering: not every shard is ready. Closing: they are, and the sessions are not closed yet.
  enum class Phase : std::uint8_t { idle, gathering, closing };
  void close_if_ready();
  using Ready = std::map<unsigned, engine::Callback<>>;
  void closed(Ready round);

  Hands hands_;
  unsigned shards_ = 0;
  Phase phase_ = Phase::idle;
  bool again_ = false;  ///< a shard has begun while they were being closed
  Ready ready_;
};

}  // namespace lockstep::data_plane
