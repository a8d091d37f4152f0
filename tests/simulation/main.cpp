// The simulator's command line: one seed, or a batch of seeds.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <malloc.h>

#include "tests/simulation/batch.hpp"
#include "tests/simulation/pair_program.hpp"

namespace {

using namespace lockstep::simulation;

int usage() {
  std::fputs(
      "simulation --seed N [--trace]            one world, run twice (with --trace once, every event printed)\n"
      "simulation --seeds FROM..TO [--jobs N] [--ci]   a batch; --ci also asks for every required mark\n"
      "  --require MARK,MARK,...   a batch asks for these marks, too\n"
      "  --first           a batch that runs each seed once, and ends with the first that fails\n"
      "  --twice-every N   only the seeds that N divides are run twice, and held against one another\n"
      "  --marks           tells how often each rare branch of the mirror was taken\n"
      "  --no-faults       worlds in which nothing breaks\n"
      "  --with NAME, --without NAME   a kind of trouble (switches.cpp) that every seed knows, or none\n"
      "  --draw-all        also kinds that seeds do not draw by themselves\n",
      stderr);
  return 2;
}

bool parse_range(const std::string& text, BatchOptions& options) {
  const auto dots = text.find("..");
  if (dots == std::string::npos) return false;
  options.from = std::strtoull(text.c_str(), nullptr, 10);
  options.to = std::strtoull(text.c_str() + dots + 2, nullptr, 10);
  return options.to >= options.from;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    words.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return words;
}

}  // namespace

int main(int argc, char** argv) {
  // The images of a world's disks are made and thrown away with it: keep the memory for the next.
  ::mallopt(M_MMAP_THRESHOLD, 64 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 256 << 20);
  BatchOptions options;
  bool one = false;
  bool trace = false;
  bool range = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const bool more = i + 1 < argc;
    if (arg == "--trace") {
      trace = true;
    } else if (arg == "--ci") {
      options.ci = true;
    } else if (arg == "--require" && more) {
      options.required = words_of(argv[++i]);
    } else if (arg == "--first") {
      options.first = true;
    } else if (arg == "--twice-every" && more) {
      options.twice_every = std::max(1ULL, std::strtoull(argv[++i], nullptr, 10));
    } else if (arg == "--marks") {
      options.marks = true;
    } else if (arg == "--no-faults") {
      options.without_faults = true;
    } else if (arg == "--seed" && more) {
      options.from = options.to = std::strtoull(argv[++i], nullptr, 10);
      one = true;
    } else if (arg == "--seeds" && more) {
      range = parse_range(argv[++i], options);
      if (!range) return usage();
    } else if (arg == "--jobs" && more) {
      options.jobs = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
    } else if (arg == "--draw-all") {
      options.switches.draw_all = true;
    } else if ((arg == "--with" || arg == "--without") && more) {
      if (!options.switches.settle(argv[++i], arg == "--with")) {
        std::fprintf(stderr, "there is no switch named %s\n", argv[i]);
        return 2;
      }
    } else {
      return usage();
    }
  }
  if (one == range) return usage();
  options.kind = &pair_program();
  if (one && trace) return trace_one(options);
  return run_batch(options);
}
