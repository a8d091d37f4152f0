#include "replication/link/path_measurement.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::replication {

using engine::Duration;
using engine::TimePoint;

namespace {

constexpr std::size_t kMostBytes = std::size_t{2} << 20;
constexpr std::size_t kMostAtOnce = 16;

/// The p-th of a hundred, of at least one.
Duration nth(std::vector<Duration>& times, std::size_t p) {
  const auto place = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) * p / 100);
  std::ranges::nth_element(times, place);
  return *place;
}

}  // namespace

struct PathMeasurement::Run : std::enable_shared_from_this<Run> {
  Run(engine::Clock& c, PathsLink& l, PathSlot p, engine::Callback<const PathMeasured&> d, engine::Buffer m)
      : clock(c), link(l), path(p), done(std::move(d)), memory(std::move(m)), own(memory ? 0 : kMaxLinkPayload) {
    std::ranges::fill(memory.span(), std::byte{0});
  }

  engine::Clock& clock;
  PathsLink& link;
  PathSlot path;
  engine::Callback<const PathMeasured&> done;  ///< none: given up, or over
  engine::Buffer memory;
  std::vector<std::byte> own;
  PathMeasured found;
  std::size_t step = 0;  ///< two of each size
  TimePoint begun;
  std::vector<Duration> times;
  std::uint64_t answered = 0;
  std::size_t under_way = 0;

  [[nodiscard]] std::size_t size() const { return kMeasuredSizes.at(step / 2); }
  [[nodiscard]] std::span<const std::byte> payload() const {
    const std::span<const std::byte> all = memory ? memory.span() : std::span<const std::byte>(own);
    return all.first(size());
  }
  [[nodiscard]] bool one_by_one() const { return step % 2 == 0; }
  [[nodiscard]] std::size_t at_once() const {
    return one_by_one() ? 1 : std::clamp<std::size_t>(kMostBytes / size(), 1, kMostAtOnce);
  }

  void begin_step() {
    begun = clock.now();
    times.clear();
    answered = 0;
    fill();
  }

  void fill() {
    while (done && under_way < at_once()) {
      const bool sent = link.measure(
          path, payload(), [self = shared_from_this(), at = clock.now()](bool came) { self->on_end(at, came); });
      if (!sent) return end(false);
      ++under_way;
    }
  }

  void on_end(TimePoint sent_at, bool came) {
    --under_way;
    if (!done) return;
    if (!came) return end(false);
    const TimePoint now = clock.now();
    ++answered;
    if (one_by_one()) times.push_back(now - sent_at);
    if (now - begun < kEach) return fill();
    if (under_way == 0) end_step(now);
  }

  void end_step(TimePoint now) {
    if (one_by_one()) {
      found.sizes.push_back({size(), answered, std::ranges::min(times), nth(times, 50), nth(times, 99), 0});
    } else {
      const auto nanoseconds = static_cast<double>(std::chrono::nanoseconds(now - begun).count());
      found.sizes.back().bytes_a_second =
          static_cast<std::uint64_t>(static_cast<double>(answered * size()) * 1e9 / nanoseconds);
    }
    if (++step == 2 * kMeasuredSizes.size()) return end(true);
    begin_step();
  }

  void end(bool whole) {
    found.whole = whole;
    auto tell = std::exchange(done, nullptr);
    if (tell) tell(found);
  }
};

PathMeasurement::PathMeasurement(engine::Clock& clock, PathsLink& link, PathSlot path,
                                 engine::Callback<const PathMeasured&> done, engine::Buffer memory)
    : run_(std::make_shared<Run>(clock, link, path, std::move(done), std::move(memory))) {
  clock.call_after(Duration{0}, [run = run_] { run->begin_step(); });
}

PathMeasurement::~PathMeasurement() { run_->done = nullptr; }

}  // namespace lockstep::replication
