#include "tests/simulation/batch.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <map>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replication/core/marks.hpp"
#include "tests/simulation/required_marks.hpp"

#ifndef LOCKSTEP_COMMIT
#define LOCKSTEP_COMMIT "unknown"
#endif

namespace lockstep::simulation {

namespace {

struct Tally {
  std::uint64_t passed = 0;
  std::uint64_t failed = 0;
  std::uint64_t events = 0;
  std::uint64_t writes = 0;
  std::uint64_t reads = 0;
  std::uint64_t digest = 0;  ///< the sum of the worlds' hashes, in any order the same

  void add(const Tally& other) {
    passed += other.passed;
    failed += other.failed;
    digest += other.digest;
    events += other.events;
    writes += other.writes;
    reads += other.reads;
  }
};

constexpr unsigned kMostReports = 20;  ///< failures told in full, each process

WorldOptions world_options(const BatchOptions& options, std::uint64_t seed) {
  WorldOptions world;
  world.seed = seed;
  world.without_faults = options.without_faults;
  world.switches = options.switches;
  return world;
}

Outcome run_once(const BatchOptions& options, std::uint64_t seed) {
  return World(world_options(options, seed), *options.kind).run();
}

void report(const BatchOptions& options, const Outcome& outcome) {
  const std::string extra = std::string(options.without_faults ? " --no-faults" : "") + options.switches.text();
  std::printf("FAILED seed %" PRIu64 "  hash %016" PRIx64
              "  commit %s\n  %s\n  %s\n  reproduce: simulation --seed %" PRIu64 "%s --trace\n",
              outcome.seed, outcome.hash, LOCKSTEP_COMMIT, outcome.scenario.c_str(), outcome.violation.c_str(),
              outcome.seed, extra.c_str());
}

/// Where a process of the batch stands, in memory that it shares with its parent: what a crash leaves behind.
struct Share {
  std::uint64_t seed = 0;
  Tally tally;
};

/// Every `jobs`-th seed from `seed` on.
void run_share(const BatchOptions& options, Share& share) {
  Tally& tally = share.tally;
  for (; share.seed <= options.to; share.seed += options.jobs) {
    const bool once = options.first || share.seed % options.twice_every != 0;
    const Outcome outcome = once ? run_once(options, share.seed) : run_twice(options, share.seed);
    tally.digest += outcome.hash;
    tally.events += outcome.events;
    tally.writes += outcome.writes;
    tally.reads += outcome.reads;
    if (outcome.violation.empty()) {
      ++tally.passed;
    } else {
      ++tally.failed;
      if (tally.failed <= kMostReports) report(options, outcome);
    }
    std::fflush(stdout);
    if (options.first && tally.failed != 0) return;
  }
}

/// What a process tells its parent at its end: one line for each mark.
std::string pack_marks() {
  std::string text;
  for (const auto& [name, count] : replication::all_marks())
    text += std::string(name) + " " + std::to_string(count) + "\n";
  return text;
}

void unpack_marks(const std::string& text, std::map<std::string, std::uint64_t>& marks) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t space = text.find(' ', at);
    const std::size_t end = text.find('\n', space);
    marks[text.substr(at, space - at)] += std::strtoull(text.c_str() + space, nullptr, 10);
    at = end + 1;
  }
}

std::string read_all(int fd) {
  std::string text;
  char chunk[4096];
  for (ssize_t n; (n = ::read(fd, chunk, sizeof chunk)) > 0;) text.append(chunk, static_cast<std::size_t>(n));
  return text;
}

bool write_all(int fd, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(fd, text.data() + at, text.size() - at);
    if (n <= 0) return false;
    at += static_cast<std::size_t>(n);
  }
  return true;
}

/// Says how many seeds nobody ran, where no process could be had for them; --first ends with the first that fails.
std::uint64_t judge_count(const BatchOptions& options, std::uint64_t seeds, const Tally& sum) {
  const std::uint64_t run = sum.passed + sum.failed;
  if (run >= seeds || (options.first && sum.failed != 0)) return 0;
  std::printf("FAILED %" PRIu64 " seeds were not run: there was no process for them\n", seeds - run);
  return seeds - run;
}

/// Says which marks were not reached; how many of them are required.
std::uint64_t judge_marks(const BatchOptions& options, const std::map<std::string, std::uint64_t>& marks) {
  std::uint64_t missing = 0;
  for (const auto& [name, count] : marks) {
    if (options.marks) std::printf("mark %-40s %" PRIu64 "\n", name.c_str(), count);
    if (count == 0) std::printf("mark never reached: %s\n", name.c_str());
  }
  std::vector<std::string> required = options.required;
  if (options.ci) required.insert(required.end(), kRequiredMarks.begin(), kRequiredMarks.end());
  for (const std::string& name : required) {
    const auto found = marks.find(name);
    if (found != marks.end() && found->second != 0) continue;
    ++missing;
    std::printf("FAILED required mark not reached by any seed: %s\n", name.c_str());
  }
  return missing;
}

}  // namespace

Outcome run_twice(const BatchOptions& options, std::uint64_t seed) {
  Outcome first = run_once(options, seed);
  if (!first.violation.empty()) return first;
  const Outcome second = run_once(options, seed);
  if (second.hash != first.hash) {
    char text[160];
    std::snprintf(text, sizeof text,
                  "the same seed ran differently the second time: hash %016" PRIx64 ", then %016" PRIx64, first.hash,
                  second.hash);
    first.violation = text;
  }
  return first;
}

int trace_one(const BatchOptions& options) {
  WorldOptions world = world_options(options, options.from);
  world.trace = stdout;
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 16);  // a crash leaves the trace whole
  const Outcome outcome = World(world, *options.kind).run();
  if (outcome.violation.empty()) {
    std::printf("seed %" PRIu64 " passed  hash %016" PRIx64 "  %" PRIu64 " events\n1 passed, 0 failed\n", outcome.seed,
                outcome.hash, outcome.events);
    return 0;
  }
  report(options, outcome);
  std::puts("0 passed, 1 failed");
  return 1;
}

namespace {

struct Child {
  pid_t pid = -1;
  int fd = -1;
};

Child start(const BatchOptions& options, Share& share) {
  int fds[2];
  if (::pipe(fds) != 0) return {};
  std::fflush(stdout);
  const pid_t pid = ::fork();
  if (pid < 0) {
    ::close(fds[0]);
    ::close(fds[1]);
    return {};
  }
  if (pid == 0) {
    ::close(fds[0]);
    run_share(options, share);
    const bool told = write_all(fds[1], pack_marks());
    std::fflush(stdout);
    ::_exit(told ? 0 : 1);
  }
  ::close(fds[1]);
  return {pid, fds[0]};
}

/// Waits for a child. After a crash its seed has failed, and another goes on behind it.
void see_through(const BatchOptions& options, Child child, Share& share, std::map<std::string, std::uint64_t>& marks) {
  while (child.pid > 0) {
    unpack_marks(read_all(child.fd), marks);
    ::close(child.fd);
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    if (status == 0) return;
    ++share.tally.failed;
    if (share.tally.failed <= kMostReports) {
      Outcome crash;
      crash.seed = share.seed;
      crash.violation = "the process died (wait status " + std::to_string(status) + ")";
      report(options, crash);
    }
    if (options.first) return;
    share.seed += options.jobs;
    child = start(options, share);
  }
}

}  // namespace

int run_batch(const BatchOptions& given) {
  BatchOptions options = given;
  const std::uint64_t seeds = options.to - options.from + 1;
  options.jobs = static_cast<unsigned>(std::clamp<std::uint64_t>(options.jobs, 1, std::min<std::uint64_t>(seeds, 64)));
  void* memory =
      ::mmap(nullptr, options.jobs * sizeof(Share), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 2;
  auto* shares = static_cast<Share*>(memory);
  std::vector<Child> children;
  for (unsigned job = 0; job < options.jobs; ++job) {
    shares[job].seed = options.from + job;
    children.push_back(start(options, shares[job]));
  }
  Tally sum;
  std::map<std::string, std::uint64_t> marks;
  for (unsigned job = 0; job < options.jobs; ++job) {
    see_through(options, children[job], shares[job], marks);
    sum.add(shares[job].tally);
  }
  ::munmap(memory, options.jobs * sizeof(Share));
  sum.failed += judge_count(options, seeds, sum);
  sum.failed += judge_marks(options, marks);
  std::printf("%" PRIu64 " seeds, %" PRIu64 " writes, %" PRIu64 " reads, %" PRIu64
              " events in the first runs, digest %016" PRIx64 "; commit %s\n",
              seeds, sum.writes, sum.reads, sum.events, sum.digest, LOCKSTEP_COMMIT);
  std::printf("%" PRIu64 " passed, %" PRIu64 " failed\n", sum.passed, sum.failed);
  return sum.failed == 0 ? 0 : 1;
}

}  // namespace lockstep::simulation
