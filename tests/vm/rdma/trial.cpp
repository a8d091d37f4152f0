#include "tests/vm/rdma/trial.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <thread>
#include <utility>

#include <infiniband/verbs.h>
#include <sys/mman.h>

namespace lockstep::rdma::trial {

namespace {

[[noreturn]] void wrong(const std::string& what) {
  say("        " + what);  // what is in the way of an exception may end the process
  throw Wrong(what);
}

}  // namespace

void check(bool holds, const std::string& what) {
  if (!holds) wrong("not so: " + what);
}

void wait_for(const std::string& what, const std::function<bool()>& holds, int seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) wrong("never came: " + what);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

std::string run(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "re");
  std::string output;
  std::array<char, 4096> some{};
  while (const std::size_t got = std::fread(some.data(), 1, some.size(), pipe)) output.append(some.data(), got);
  const int status = ::pclose(pipe);
  check(status == 0, "\"" + command + "\" ends well: " + output);
  return output;
}

Side::Side(Fabric& fabric, const std::string& name) : reactor({.name = name}) {
  fabric.add_arena(pool.arena());
  completions = fabric.attach(reactor);
  reactor.start();
}

Side::~Side() {
  on([this] { completions.reset(); });
  reactor.stop();
  reactor.join();
}

void Side::on(const std::function<void()>& work) {
  std::latch done(1);
  reactor.post([&] {
    work();
    done.count_down();
  });
  done.wait();
}

void End::on_established(std::span<const std::byte> data) {
  check(!established && !lost && !closing, "established is told once, and first");
  hello.assign(data.begin(), data.end());
  established = true;
  if (when_established) when_established();
}

void End::on_completion(const Completion& completion) {
  check(established && !closing, "completions come between established and close()");
  if (completion.error == make_error_code(RdmaErrc::flushed)) return;  // what was left when it ended
  ++completions;
  if (when_completed) when_completed(completion);
}

void End::on_lost(std::error_code error) {
  check(!lost && !closing, "a loss is told once, and not after close()");
  why = error;
  lost = true;
}

void End::close() {
  if (closing.exchange(true)) return;
  pair->close([this] { closed = true; });
}

void End::end() {
  side.on([this] { close(); });
  wait_for("close() calls back", [this] { return closed.load(); });
  side.on([this] { pair.reset(); });
}

World::World(const std::string& address) : local(address) {
  auto opened = open_fabric();
  check(opened.has_value(), opened ? "" : opened.error().message);
  fabric = std::move(*opened);
  a = std::make_unique<Side>(*fabric, "caller");
  b = std::make_unique<Side>(*fabric, "callee");
  auto listens = fabric->listen(*b->completions, "0.0.0.0:0", [this](std::unique_ptr<Call> call) {
    if (called) called(std::move(call));
  });
  check(listens.has_value(), listens ? "" : listens.error().message);
  listener = std::move(*listens);
}

World::~World() {
  listener.reset();
  a.reset();
  b.reset();
  fabric.reset();
}

std::unique_ptr<End> World::dial(const std::string& to, const Wanted& wanted, std::string_view greeting,
                                 const std::function<void(End&)>& prepare, Domain domain) {
  auto end = std::make_unique<End>(*a);
  a->on([&] {
    end->pair = fabric->connect(*a->completions, domain, "", to, wanted, bytes_of(greeting), *end);
    if (prepare) prepare(*end);
  });
  return end;
}

World::Pair World::connect(const Wanted& wanted, const std::function<void(End&)>& prepare, Domain domain) {
  Pair out;
  out.callee = std::make_unique<End>(*b);
  std::atomic<bool> accepted = false;
  b->on([&] {
    called = [&](std::unique_ptr<Call> call) {
      out.callee->pair = call->accept(*b->completions, domain, wanted, bytes_of("here"), *out.callee);
      if (prepare) prepare(*out.callee);
      accepted = true;
    };
  });
  const std::string port = listener->address().substr(listener->address().rfind(':'));
  out.caller = dial(local + port, wanted, "there", prepare, domain);
  wait_for("a call", [&] { return accepted || out.caller->lost; });
  check(!out.caller->lost, "the caller is connected: " + out.caller->reason());
  wait_for("both stand", [&] { return out.caller->established && out.callee->established; });
  b->on([&] { called = {}; });
  return out;
}

Exposed::Exposed(End& end, std::size_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(at != MAP_FAILED, "memory");
  memory = {static_cast<std::byte*>(at), bytes};
  region = ibv_reg_mr(verbs_of(*end.pair)->pd, at, bytes,
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND);
  check(region != nullptr, "memory is registered");
  remote = {reinterpret_cast<std::uint64_t>(at), region->rkey};
}

Exposed::~Exposed() {
  ibv_dereg_mr(region);
  ::munmap(memory.data(), memory.size());
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

void fill(std::span<std::byte> memory, std::uint32_t seed) {
  for (std::byte& each : memory) each = static_cast<std::byte>((seed = seed * 1664525 + 1013904223) >> 24);
}

bool filled(std::span<const std::byte> memory, std::uint32_t seed) {
  for (const std::byte each : memory) {
    if (each != static_cast<std::byte>((seed = seed * 1664525 + 1013904223) >> 24)) return false;
  }
  return true;
}

int open_files() {
  return static_cast<int>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

Resources resources() {
  Resources out;
  const std::string shown = run("rdma resource show");
  const auto sum = [&](std::string_view word) {
    int count = 0;
    for (std::size_t at = shown.find(word); at != std::string::npos; at = shown.find(word, at + 1)) {
      count += std::stoi(shown.substr(at + word.size()));
    }
    return count;
  };
  out.queue_pairs = sum(" qp ");
  out.queues = sum(" cq ");
  out.ids = sum(" cm_id ");
  out.regions = sum(" mr ");
  out.domains = sum(" pd ");
  out.files = open_files();
  return out;
}

std::string Resources::text() const {
  return std::to_string(queue_pairs) + " queue pairs, " + std::to_string(queues) + " completion queues, " +
         std::to_string(ids) + " ids, " + std::to_string(regions) + " regions, " + std::to_string(domains) +
         " domains, " + std::to_string(files) + " files";
}

}  // namespace lockstep::rdma::trial

namespace {

using namespace lockstep::rdma::trial;

std::string only;  // a part; empty: all

int part(const char* name, const std::function<void()>& work) {
  if (!only.empty() && name != only) return 0;
  const auto begun = std::chrono::steady_clock::now();
  try {
    work();
  } catch (const Wrong& wrong) {
    say("FAILED  " + std::string(name) + ": " + wrong.what());
    std::_Exit(1);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  say("ok      " + std::string(name) + " (" + std::to_string(took.count()).substr(0, 5) + " s)");
  return 0;
}

}  // namespace

/// rdma_trial ADDRESS DEVICE INTERFACE [PING_PONGS [CLOSES [PART]]], or, where memory may not be pinned, rdma_trial
/// ADDRESS
int main(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  if (argc < 2) return 2;
  const auto number = [&](std::size_t at, int otherwise) {
    return words.size() > at ? std::stoi(words[at]) : otherwise;
  };
  if (argc > 6) only = words[6];
  World world(words[1]);
  if (argc < 4) return part("pinning forbidden", [&] { pinning_forbidden(world); });
  part("hello", [&] { hello(world); });
  part("messages", [&] { messages(world); });
  part("remote memory", [&] { remote_memory(world); });
  part("invalidation", [&] { invalidation(world); });
  part("windows", [&] { windows(world); });
  part("reused", [&] { windows_reused(world, 1000); });
  part("arenas", [&] { arenas(world); });
  part("many reads", [&] { many_reads(world); });
  part("quiet sends", [&] { quiet_sends(world); });
  part("wrong key", [&] { wrong_key(world); });
  part("refusals", [&] { refusals(world); });
  part("closing", [&] { closing(world, number(5, 200)); });
  part("ping-pong", [&] { ping_pong(world, static_cast<std::uint32_t>(number(4, 100'000))); });
  part("interface down", [&] { interface_down(world, words[3]); });
  part("calls that wait", [&] { calls_that_wait(world); });
  part("unplugged while idle", [&] { idle_unplug(world, words[2], words[3]); });
  part("hot plug", [&] { hot_plug(world, words[2], words[3], 3); });
  return 0;
}
