#pragma once
// The inside of PathsLink; for paths_link.cpp and paths_link_requests.cpp alone.
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "replication/link/path_tasks.hpp"
#include "replication/link/paths_link.hpp"

namespace lockstep::replication {

struct PathsLink::Impl {
  using Task = PathTask;
  using Stream = PathTaskStream;
  struct NoSession {};
  struct Beginning {  ///< the path asks for a new session
    PathSlot path;
    engine::TimePoint since;
    engine::Uuid partner{};  ///< that has let it in, and is to be shown that data pass; nil: not yet
  };
  struct Established {
    engine::Uuid partner;  ///< its process
  };
  struct Plain {  ///< the partner knows no numbers: the mirror's requests go as they are
    PathSlot path;
  };
  /// Of sessions that ended meanwhile, since something as large has come through.
  struct Lost {
    engine::Uuid partner;  ///< its process
    unsigned losses = 0;   ///< of the request that was lost most
    engine::TimePoint since;
    std::size_t bytes = 0;  ///< of the largest that was lost
  };
  struct Ending {     ///< until all paths are destroyed that had part in it
    PathSet closing;  ///< those
  };

  Impl(engine::Clock& c, const engine::Uuid& own, std::vector<PathOut> all, PathTimes times, std::size_t proof_bytes)
      : clock(c), process(own), paths(std::move(all)), manager(times, ranks_of(paths)), proof(proof_bytes) {}

  static std::vector<PathRank> ranks_of(const std::vector<PathOut>& paths) {
    std::vector<PathRank> ranks;
    for (const PathOut& path : paths) ranks.push_back(path.rank);
    return ranks;
  }

  engine::Clock& clock;
  engine::Uuid process;
  std::vector<PathOut> paths;
  PathManager manager;
  LinkEvents* events = nullptr;
  std::variant<NoSession, Beginning, Established, Plain, Ending> state;
  bool stopped = false;
  unsigned ends_by_lost_data = 0;  ///< of sessions, since something large has come through
  Lost lost_before;
  std::uint64_t session = 0;        ///< number of the latest
  unsigned overtaken_in_a_row = 0;  ///< joins that the partner answered so, since the last that it let in
  std::uint16_t version = 0;
  PathSet up;                          ///< their links are
  PathSet probing;                     ///< with a question under way
  PathSet being_proven;                ///< with a proof under way
  const std::vector<std::byte> proof;  ///< what one consists of, on every path
  std::array<std::uint64_t, kMaxPaths> load{};
  std::array<std::size_t, kMaxPaths> ahead_out{};  ///< copies of heartbeats, answered elsewhere or not
  WindowBytes window{kMaxBytesUnderWay};           ///< of numbered requests
  AnswerNumber told;                               ///< acknowledged to the partner, of numbered requests
  Stream ahead{FrameKind::ahead, kAheadWindow, Copies::every_path};
  Stream numbered{FrameKind::numbered, kNumberedWindow, Copies::one};
  std::vector<PathAddress> addresses;
  std::string problem;
  unsigned faults = 0;
  PathTaskPool pool{kNumberedWindow + kAheadWindow};
  std::vector<Task*> late_tasks;  ///< that failed in send()
  engine::TimerId late_timer = engine::TimerId::none, tick_timer = engine::TimerId::none,
                  finish_timer = engine::TimerId::none, rest_timer = engine::TimerId::none;
  engine::Duration lease = std::chrono::milliseconds(1500);

  [[nodiscard]] Link& link(PathSlot path) { return paths[index_of(path)].link; }
  template <class Which>
  [[nodiscard]] bool is() const {
    return std::holds_alternative<Which>(state);
  }
  template <class Do>
  void for_each(PathSet which, Do what) {
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (which.contains(static_cast<PathSlot>(i))) what(static_cast<PathSlot>(i));
    }
  }

  // ---- paths ----

  void on_path_up(PathSlot path);
  void take_part(PathSlot path);
  void ask_to_join(PathSlot path, const engine::Uuid& partner);
  void on_overtaken();
  void on_join_answer(PathSlot path, const engine::IoResult<LinkAnswer>& result);
  void session_stands(const engine::Uuid& partner);
  void path_failed(PathSlot path);
  void on_path_down(PathSlot path);
  void on_path_failing(PathSlot path);
  void ask_by_another(PathSlot path);
  void begin_anew();

  // ---- the time ----

  void cancel_timers();
  void tick_later();
  void tick();
  void renew_in_time(PathSlot path);
  void probe(PathSlot path);
  void on_probe_answer(PathSlot path, const engine::IoResult<LinkAnswer>& result);
  void prove(PathSlot path);
  void limit_proof();
  void on_proof_answer(PathSlot path, const engine::IoResult<LinkAnswer>& result);
  bool measure(PathSlot path, std::span<const std::byte> payload, engine::Callback<bool> done);

  // ---- requests ----

  void send(std::span<const std::byte> header, std::span<const std::byte> payload_out, std::span<std::byte> payload_in,
            engine::Callback<engine::IoResult<LinkAnswer>>& done);
  void pump();
  void pump_ahead();
  [[nodiscard]] bool takes_ahead(PathSlot path) const;
  void pump_numbered();
  [[nodiscard]] bool has_room_for(RequestBytes next) const;
  static Task& number_first(Stream& stream);
  void give_numbered(Task& task);
  void give_copy(Stream& stream, Task& task, PathSlot path, std::span<const std::byte> out, std::span<std::byte> in);
  void on_copy_end(Task::Copy& copy, const engine::IoResult<LinkAnswer>& result);
  void end(Task& task, engine::IoResult<LinkAnswer> outcome);
  void give_back_if_over(Task& task);
  void end_later(Task& task, engine::Errc code);

  // ---- the end of a link session ----

  void note_loss(Task& task);
  void remember_losses();
  void has_come_through(std::size_t bytes);
  [[nodiscard]] bool is_lost_for_good(const Task& task) const;
  [[nodiscard]] bool must_carry() const;
  void data_does_not_pass();
  void partner_is_wrong(std::string why);
  void end_session(std::string why);
  void finish_session();
  bool end_all_of(Stream& stream);
  void session_is_over();
};

}  // namespace lockstep::replication
