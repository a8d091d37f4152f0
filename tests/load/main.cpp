// Many sessions at once, and crowds that only stand at the door: what the target promises for them, check by
// check, each with its figures. tests/load/run starts a target and then this.
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <list>
#include <memory>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/load/initiator.hpp"

namespace lockstep::load {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string portal, target, crowd_from;
  std::uint32_t sessions = 1000;
  std::uint32_t half_open = 1000;
  std::uint32_t most_kib = 64;
  int pid = 0;
};

double seconds_since(Clock::time_point begun) { return std::chrono::duration<double>(Clock::now() - begun).count(); }

/// Of the target's process.
std::uint64_t resident_bytes(int pid) {
  std::ifstream file(fmt::format("/proc/{}/statm", pid));
  std::uint64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t descriptors(int pid) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid))) {
    (void)entry;
    ++count;
  }
  return count;
}

bool eventually(const std::function<bool()>& condition) {
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

class Load {
 public:
  explicit Load(Options options) : options_(std::move(options)) {}

  int run() {
    const std::size_t descriptors_before = descriptors(options_.pid);
    check("sessions log in", [this] { return log_in(); });
    check("an idle session's memory", [this] { return memory(); });
    check("every session writes and reads back what it wrote", [this] { return input_output(); });
    check("half-open logins from one address keep nobody out", [this] { return half_open({crowd_address(0)}); });
    check("half-open logins from many addresses keep nobody out", [this] {
      std::vector<std::string> addresses;
      for (unsigned i = 0; i < 50; ++i) addresses.push_back(crowd_address(i));
      return half_open(addresses);
    });
    check("idle discovery sessions keep nobody out", [this] { return discoveries(); });
    check("honest logins while a flood goes on", [this] { return flood(); });
    check("every session is still there, and logs out", [this] { return log_out(); });
    check("nothing is left open", [&] {
      const bool back = eventually([&] { return descriptors(options_.pid) <= descriptors_before; });
      if (!back) throw Failure{fmt::format("{} descriptors, {} before", descriptors(options_.pid), descriptors_before)};
      return fmt::format("{} descriptors as before, {} MiB resident", descriptors_before,
                         resident_bytes(options_.pid) >> 20);
    });
    fmt::print("{} passed, {} failed\n", passed_, failed_);
    return failed_ == 0 ? 0 : 1;
  }

 private:
  void check(const char* what, const std::function<std::string()>& does) {
    const auto begun = Clock::now();
    try {
      const std::string figures = does();
      ++passed_;
      fmt::print("ok      {} ({:.1f} s): {}\n", what, seconds_since(begun), figures);
    } catch (const Failure& failure) {
      ++failed_;
      fmt::print("FAILED  {} ({:.1f} s): {}\n", what, seconds_since(begun), failure.what);
    }
    std::cout.flush();
  }

  [[nodiscard]] Initiator::Who who(std::uint32_t number) const {
    return {.portal = options_.portal, .target = options_.target, .from = {}, .number = number};
  }

  [[nodiscard]] std::string crowd_address(unsigned number) const {
    return options_.crowd_from + std::to_string(1 + number);
  }

  std::string log_in() {
    // What the first sessions cost, the later ones find made.
    {
      Initiator first(who(0));
      first.begin_logout(), first.finish_logout();
    }
    resident_before_ = resident_bytes(options_.pid);
    const auto begun = Clock::now();
    for (std::uint32_t i = 0; i < options_.sessions; ++i) sessions_.push_back(std::make_unique<Initiator>(who(i)));
    // The power-on unit attention is the first answer of each.
    for (auto& session : sessions_) session->begin_test_unit_ready();
    for (auto& session : sessions_) {
      try {
        session->finish();
      } catch (const Failure&) {
      }
    }
    return fmt::format("{} sessions, {:.2f} ms each", sessions_.size(),
                       1000 * seconds_since(begun) / options_.sessions);
  }

  std::string memory() {
    const std::uint64_t now = resident_bytes(options_.pid);
    const double each = now > resident_before_ ? double(now - resident_before_) / 1024 / options_.sessions : 0;
    const std::string figure = fmt::format("{:.1f} KiB resident each", each);
    if (each >= options_.most_kib) throw Failure{figure};
    return figure;
  }

  std::string input_output() {
    constexpr std::uint32_t kBytes = 4096, kBlocks = kBytes / 512, kRounds = 4;
    const auto begun = Clock::now();
    const auto content = [](std::uint32_t session, std::uint32_t round) {
      std::vector<std::byte> bytes(kBytes);
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i * 7 + session * 31 + round);
      return bytes;
    };
    const auto each = [&](const std::function<void(std::uint32_t)>& does) {
      for (std::uint32_t i = 0; i < sessions_.size(); ++i) does(i);
    };
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      each([&](std::uint32_t i) { sessions_[i]->begin_write(i * kBlocks, content(i, round)); });
      each([&](std::uint32_t i) { sessions_[i]->finish(); });
      each([&](std::uint32_t i) { sessions_[i]->begin_read(i * kBlocks, kBytes); });
      each([&](std::uint32_t i) {
        if (sessions_[i]->finish() != content(i, round)) throw Failure{"a session read back something else"};
      });
    }
    return fmt::format("{:.0f} commands/s", 2 * kRounds * sessions_.size() / seconds_since(begun));
  }

  // Stalled at each stage in turn.
  Connection stalled(unsigned stage, std::uint32_t number, const std::string& from) {
    using namespace iscsi;
    Connection connection(options_.portal, from);
    auto header = make_header<LoginRequestHeader>(Opcode::login_request);
    header.opcode |= kImmediate;
    header.isid = {0x80, 0, 0, 0, 0, 2};
    const std::string text = login_text(who(1'000'000 + number));
    const auto bytes = std::as_bytes(std::span(text));
    switch (stage % 5) {
      case 0:  // says nothing
        break;
      case 1:  // half a header
        connection.send(std::span<const std::byte>(bytes_of(header)).first(20));
        break;
      case 2: {  // a header that promises text
        auto any = header_as<AnyHeader>(bytes_of(header));
        any.data_length = 8000;
        connection.send(bytes_of(any));
        break;
      }
      case 3:  // text that goes on in the next request
        header.flags = kContinue;
        connection.send(bytes_of(header), bytes);
        (void)connection.receive();
        break;
      default:  // answered, and then nothing
        connection.send(bytes_of(header), bytes);
        (void)connection.receive();
        break;
    }
    return connection;
  }

  void honest(const std::string& from) {
    auto me = who(2'000'000 + ++honest_);
    me.from = from;
    Initiator initiator(me);
    initiator.begin_logout();
    initiator.finish_logout();
  }

  std::string half_open(const std::vector<std::string>& addresses) {
    std::list<Connection> crowd;
    std::uint32_t gone = 0;
    for (std::uint32_t i = 0; i < options_.half_open; ++i) {
      try {
        crowd.push_back(stalled(i, i, addresses[i % addresses.size()]));
      } catch (const Failure&) {
        ++gone;
      }
    }
    const auto begun = Clock::now();
    honest({});
    honest(addresses.front());
    const double took = seconds_since(begun) / 2;
    const auto here = crowd.size();
    crowd.remove_if([](Connection& connection) { return connection.ends_within(0); });
    return fmt::format("{} came, {} stand; the honest logins took {:.1f} ms each", here + gone, crowd.size(),
                       1000 * took);
  }

  std::string discoveries() {
    std::list<Initiator> idle;
    for (std::uint32_t i = 0; i < options_.half_open; ++i) {
      auto me = who(i);
      me.target.clear();
      me.from = crowd_address(i % 50);
      idle.emplace_back(me);
    }
    honest({});
    honest(crowd_address(0));
    return fmt::format("{} came", idle.size());
  }

  std::string flood() {
    std::atomic<bool> over = false;
    std::atomic<std::uint64_t> came = 0;
    std::jthread crowd([&] {
      std::list<Connection> some;
      for (std::uint32_t i = 0; !over; ++i) {
        try {
          some.push_back(stalled(i % 3, i, crowd_address(i % 50)));
          ++came;
        } catch (const Failure&) {
        }
        if (some.size() > 1000) some.pop_front();
      }
    });
    const auto begun = Clock::now();
    constexpr int kLogins = 50;
    try {
      for (int i = 0; i < kLogins; ++i) honest({});
    } catch (...) {
      over = true;
      throw;
    }
    const double took = seconds_since(begun);
    over = true;
    return fmt::format("{} logins, {:.1f} ms each, while {:.0f} connections/s came", kLogins, 1000 * took / kLogins,
                       static_cast<double>(came) / took);
  }

  std::string log_out() {
    for (auto& session : sessions_) session->begin_test_unit_ready();
    for (auto& session : sessions_) session->finish();
    for (auto& session : sessions_) session->begin_logout();
    for (auto& session : sessions_) session->finish_logout();
    return fmt::format("{} sessions", sessions_.size());
  }

  Options options_;
  std::vector<std::unique_ptr<Initiator>> sessions_;
  std::uint64_t resident_before_ = 0;
  std::uint32_t honest_ = 0;
  int passed_ = 0, failed_ = 0;
};

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace
}  // namespace lockstep::load

int main(int argc, char** argv) {
  CLI::App app("Opens many sessions with a target, and crowds that never finish their login.");
  lockstep::load::Options options;
  app.add_option("--portal", options.portal, "ADDRESS:PORT")->required();
  app.add_option("--target", options.target, "iSCSI name")->required();
  app.add_option("--pid", options.pid, "The target's process")->required();
  app.add_option("--crowd-from", options.crowd_from, "The first three numbers of the crowd's addresses: 127.1.2.")
      ->required();
  app.add_option("--sessions", options.sessions, "How many");
  app.add_option("--half-open", options.half_open, "How many");
  app.add_option("--most-kib", options.most_kib, "Memory of an idle session, at most");
  CLI11_PARSE(app, argc, argv);
  lockstep::load::raise_descriptor_limit();
  try {
    return lockstep::load::Load(options).run();
  } catch (const lockstep::load::Failure& failure) {
    fmt::print("FAILED  {}\n0 passed, 1 failed\n", failure.what);
    return 1;
  }
}
