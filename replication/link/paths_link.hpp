#pragma once
// The way out over several paths: what the mirror sees as one Link. Each path is a Link of its own (a session over one
// TCP or RDMA connection, which dials by itself); requests are numbered (channel/), go by the path that the path
// manager picks, and are sent again on another when their path is destroyed. So the mirror sees a link that goes down
// only when no path has been left for 300 ms, when reset() says so, or when the partner says what makes no sense.
//
// With a partner that does not know this (a lower version than kSeveralPaths) it is the first path that comes up, as it
// is.
#include <memory>
#include <string>
#include <vector>

#include "engine/base/uuid.hpp"
#include "engine/seams/clock.hpp"
#include "replication/core/link.hpp"
#include "replication/link/channel/channel_frames.hpp"

namespace lockstep::replication {

struct PathOut {
  Link& link;
  PathRank rank;
};

class PathsLink final : public Link {
 public:
  static constexpr std::size_t kMaxWaiting = 16384;  ///< requests behind the window; more end with resource_exhausted
  /// What those in the window take of the partner's reserve, in blocks; and what their answers take here and there
  /// until they are acknowledged.
  static constexpr std::size_t kMaxBytesUnderWay = std::size_t{24} << 20;
  /// By which a path that has joined shows that data pass: frames of full size, and over RDMA a read of memory.
  static constexpr std::size_t kProof = std::size_t{64} << 10;

  /// `process`: this node's incarnation. The paths outlive this, and tell what happens to them by the calls below.
  /// `proof`: bytes.
  PathsLink(engine::Clock& clock, const engine::Uuid& process, std::vector<PathOut> paths, PathTimes times = {},
            std::size_t proof = kProof);
  /// No callback runs afterwards, not even of what was outstanding, if none of the paths' does.
  ~PathsLink() override;

  /// For good: what is outstanding is forgotten, and what is sent from now on.
  void stop();

  /// Before any path comes up.
  void start(LinkEvents& events);
  // A path's own LinkEvents.
  void on_path_up(PathSlot path);
  void on_path_down(PathSlot path);
  /// Before it is down: what is sent from now on goes by others.
  void on_path_failing(PathSlot path);
  /// Its owner is about to make it anew, or to end it: no loss, and nothing is sent by it any more.
  void on_path_closing(PathSlot path);

  [[nodiscard]] bool is_up() const override;
  [[nodiscard]] std::uint16_t version() const override;
  void send(std::span<const std::byte> header, std::span<const std::byte> payload_out, std::span<std::byte> payload_in,
            engine::Callback<engine::IoResult<LinkAnswer>> done) override;
  void reset() override;

  /// Sends bytes by that path that nobody reads, beside what else it carries. False: it has not joined a session.
  /// `done`: true when they have come there; never from in here. `payload` stays until then.
  [[nodiscard]] bool measure(PathSlot path, std::span<const std::byte> payload, engine::Callback<bool> done);

  /// The longest that either node may hold. What is lost again and again for two of them ends the link session, and
  /// none begins before contact has run out.
  void set_lease(engine::Duration lease);
  void set_rank(PathSlot path, const PathRank& rank);
  [[nodiscard]] const PathManager& paths() const;
  /// Where the partner says that it can be reached.
  [[nodiscard]] const std::vector<PathAddress>& partner_addresses() const;
  /// Why the last link session ended, a sentence for a person.
  [[nodiscard]] const std::string& problem() const;
  /// The last session ended since data did not pass, and no other one stands yet.
  [[nodiscard]] bool loses_data() const;
  /// A session's end is under way: every path of it is closed.
  [[nodiscard]] bool is_ending() const;
  /// Sessions that ended because the partner said what makes no sense.
  [[nodiscard]] unsigned faults() const;
  /// What was sent and is not over: it was not called back, or a path still has a copy of it.
  [[nodiscard]] std::size_t tasks_in_use() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::replication
