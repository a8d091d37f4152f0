#pragma once
// What a node puts on the paths of its link, judged from outside: each request's number is the next one when it first
// goes out; a copy goes by another path only after the one before has ended; a path that has come back carries new
// requests only when it has proven itself, by data too, while another one is there that never failed.
#include <array>
#include <map>
#include <string>
#include <vector>

#include "engine/seams/clock.hpp"
#include "replication/link/paths_link.hpp"
#include "tests/simulation/violation.hpp"

namespace lockstep::simulation {

class PathsJudge {
 public:
  PathsJudge(engine::Clock& clock, Verdict& verdict) : clock_(clock), verdict_(verdict) {}

  void watch(const replication::PathsLink& link) { link_ = &link; }
  void path_joined(std::size_t path) {
    paths_[path] = {.failed = paths_[path].failed, .joined = true, .since = clock_.now()};
  }
  /// What is large has come to the other end.
  void path_carried(std::size_t path) { paths_[path].carried = true; }
  void path_down(std::size_t path, bool session_goes_on) {
    paths_[path].failed |= session_goes_on && !paths_[path].changes;
    paths_[path].joined = false;
  }
  /// Its owner ends it, which is no loss; nothing is sent by it any more.
  void path_changes(std::size_t path) { paths_[path].changes = true; }
  /// It has said that it failed: it carries nothing any more, and is down in a moment.
  void path_fails(std::size_t path) { paths_[path].fails = true; }
  void path_reset(std::size_t path) {
    paths_[path].closing = true;
    paths_[path].failed |= link_ != nullptr && !link_->is_ending();
  }
  void session_over() { last_ = 0, copies_.clear(); }

  void copy_sent(std::size_t path, std::uint64_t number) {
    if (paths_[path].changes) verdict_.fail("a request was given to a path that its owner ends");
    if (paths_[path].fails) verdict_.fail("a request was given to a path that has said that it failed");
    if (number > last_) {
      if (number != ++last_) verdict_.fail("requests on the link are not numbered one after the other");
      judge_choice(path);
    } else if (!copies_.contains(number)) {
      verdict_.fail("a number on the link was used again");
    } else if (copies_[number] != 0) {
      verdict_.fail("a request was sent again while a path that is not destroyed has it");
    }
    ++copies_[number];
  }
  void copy_ended(std::uint64_t number, bool answered) {
    --copies_[number];
    if (answered) copies_.erase(number);
  }

 private:
  static constexpr engine::Duration kProof = std::chrono::milliseconds(2900), kSurely = std::chrono::milliseconds(3300);
  struct Path {
    bool failed = false;  ///< before, while its session went on
    bool joined = false;
    bool closing = false;
    bool changes = false;
    bool fails = false;
    bool carried = false;
    engine::TimePoint since;
  };
  void judge_choice(std::size_t path) {
    const engine::TimePoint now = clock_.now();
    if (!paths_[path].failed || (paths_[path].carried && now - paths_[path].since >= kProof)) return;
    for (const Path& other : paths_) {
      const bool is_there = other.joined && other.carried && !other.closing && !other.changes && !other.fails;
      if (other.failed || !is_there || now - other.since < kSurely) continue;
      verdict_.fail("a path of the link that came back was used before it had proven itself");
    }
  }

  engine::Clock& clock_;
  Verdict& verdict_;
  const replication::PathsLink* link_ = nullptr;
  std::array<Path, replication::kMaxPaths> paths_{};
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, int> copies_;  ///< under way, of each unanswered request
};

/// A path as it is, under the judge's eyes.
class JudgedPath final : public replication::Link {
 public:
  JudgedPath(replication::Link& path, PathsJudge& judge, std::size_t number)
      : path_(path), judge_(judge), number_(number) {}

  [[nodiscard]] bool is_up() const override { return path_.is_up(); }
  [[nodiscard]] std::uint16_t version() const override { return path_.version(); }
  void reset() override {
    judge_.path_reset(number_);
    path_.reset();
  }
  void send(std::span<const std::byte> header, std::span<const std::byte> payload_out, std::span<std::byte> payload_in,
            engine::Callback<engine::IoResult<replication::LinkAnswer>> done) override {
    if (replication::is_join(header)) return join(header, std::move(done));
    const auto frame = replication::decode_request_frame(header);
    if (frame && frame->kind == replication::FrameKind::measure) return prove(header, payload_out, std::move(done));
    if (!frame || frame->kind != replication::FrameKind::numbered) {
      return path_.send(header, payload_out, payload_in, std::move(done));
    }
    const std::uint64_t number = frame->number.value;
    judge_.copy_sent(number_, number);
    path_.send(header, payload_out, payload_in, [this, number, done = std::move(done)](auto result) mutable {
      judge_.copy_ended(number, result.has_value());
      done(result);
    });
  }

 private:
  void join(std::span<const std::byte> header, engine::Callback<engine::IoResult<replication::LinkAnswer>> done) {
    path_.send(header, {}, {}, [this, done = std::move(done)](auto result) mutable {
      if (result) {
        const auto answer = replication::decode_join_answer(result->header);
        if (answer && answer->verdict == replication::JoinVerdict::welcome) judge_.path_joined(number_);
      }
      done(result);
    });
  }

  void prove(std::span<const std::byte> header, std::span<const std::byte> payload,
             engine::Callback<engine::IoResult<replication::LinkAnswer>> done) {
    path_.send(header, payload, {}, [this, done = std::move(done)](auto result) mutable {
      if (result) judge_.path_carried(number_);
      done(result);
    });
  }

  replication::Link& path_;
  PathsJudge& judge_;
  std::size_t number_;
};

}  // namespace lockstep::simulation
