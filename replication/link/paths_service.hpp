#pragma once
// The way in over several paths: what the mirror sees as one inbound session. Takes what the partner's PathsLink sends
// by each path, delivers it in order and once, and keeps each answer until the partner has told that it has it. A
// partner of an earlier version sends the mirror's requests as they are, by one path: they are handed on.
//
// A session of the partner's is over when a later one begins, when no path of it has been left for longer than the
// partner waits, or when it says what makes no sense; and when what waits for its turn has all the buffers that the
// request whose turn it is would need.
#include <memory>
#include <vector>

#include "engine/base/uuid.hpp"
#include "engine/seams/clock.hpp"
#include "replication/core/link.hpp"
#include "replication/link/channel/channel_frames.hpp"

namespace lockstep::replication {

class PathsService {
 public:
  static constexpr engine::Duration kWithoutPath = std::chrono::milliseconds(1000);
  static constexpr engine::Duration kStarved = std::chrono::milliseconds(1000);
  /// Of answers that are kept. What their sender has under way is less (PathsLink::kMaxBytesUnderWay).
  static constexpr std::size_t kMaxBytesKept = std::size_t{96} << 20;

  /// `process`: this node's incarnation. `addresses`: where the partner can reach it, too. `mirror` outlives this, and
  /// answers nothing after this is gone.
  PathsService(engine::Clock& clock, const engine::Uuid& process, LinkEvents& mirror,
               std::vector<PathAddress> addresses = {});
  /// Whether a request waits for a buffer before it can come to on_request().
  void ask_for_starving(std::move_only_function<bool()> starves);
  ~PathsService();

  /// For good: the mirror hears of nothing any more, if no path tells of anything.
  void stop();

  // A path's own LinkEvents, of its way in.
  void on_path_up(PathSlot path);
  void on_path_down(PathSlot path);
  void on_request(PathSlot path, InboundRequest& request);

  /// Why the last session ended, where that was the partner's fault; a sentence for a person.
  [[nodiscard]] const std::string& problem() const;
  /// How often that was so.
  [[nodiscard]] unsigned faults() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::replication
