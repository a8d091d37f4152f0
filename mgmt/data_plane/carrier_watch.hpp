#pragma once
// What carries the link's data, RDMA or TCP, over time: how often it went over from one to the other, and what is to be
// said then. Pure.
#include <cstdint>
#include <optional>
#include <string>

#include "engine/seams/clock.hpp"
#include "replication/link/channel/path_manager.hpp"

namespace lockstep::data_plane {

/// Since lockstepd started.
struct Carried {
  struct Switch {
    replication::PathTransport to{};
    engine::TimePoint at;
    engine::Duration after{};  ///< that it was the other one
    std::string why;           ///< to TCP: a sentence
  };
  engine::Duration by_rdma{}, by_tcp{};  ///< without the time that the link was down
  std::uint64_t to_rdma = 0, to_tcp = 0;
  std::optional<Switch> last;
};

class CarrierWatch {
 public:
  /// `carries`: nothing while the link is down. `why_not_rdma`: a sentence, where it is TCP. Gives a sentence when the
  /// data has gone over from one to the other; also when the link was down in between.
  [[nodiscard]] std::optional<std::string> look(std::optional<replication::PathTransport> carries,
                                                const std::string& why_not_rdma, engine::TimePoint now);
  /// As of the last look.
  [[nodiscard]] const Carried& carried() const { return carried_; }

 private:
  void count_time(std::optional<replication::PathTransport> carries, engine::TimePoint now);

  std::optional<replication::PathTransport> last_;     ///< that carried
  std::optional<replication::PathTransport> carries_;  ///< at the last look
  engine::TimePoint since_;
  engine::TimePoint looked_;
  Carried carried_;
};

}  // namespace lockstep::data_plane
