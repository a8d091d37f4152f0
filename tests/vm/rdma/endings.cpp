// The parts of the trial in which connections end: before they stand, in the middle, from both sides, and with their
// device.
#include <array>
#include <chrono>
#include <map>
#include <random>
#include <thread>

#include "tests/vm/rdma/trial.hpp"

namespace lockstep::rdma::trial {
namespace {

constexpr Wanted kSmall{.sends = 32, .receives = 32, .reads = 4, .max_inline = 64};

std::string port_of(const Listener& listener) { return listener.address().substr(listener.address().rfind(':')); }

/// Sends as fast as the queues take them, and posts each receive again.
void flood(End& end) {
  auto sent = std::make_shared<engine::Buffer>(end.side.pool.allocate(4096));
  auto got = std::make_shared<engine::Buffer>(end.side.pool.allocate(32 * 4096));
  for (std::uint64_t i = 0; i < 32; ++i) end.pair->receive(got->span().subspan(i * 4096, 4096), {}, i + 1);
  const auto send = [&end, sent] {
    const std::array<std::span<const std::byte>, 1> pieces = {sent->span()};
    end.pair->send({.pieces = pieces, .id = 1});
  };
  end.when_established = [send] {
    for (int i = 0; i < 16; ++i) send();
  };
  end.when_completed = [&end, send, got](const Completion& completion) {
    if (completion.error || end.lost) return;
    if (completion.work == Work::send) return send();
    end.pair->receive(got->span().subspan((completion.id - 1) * 4096, 4096), {}, completion.id);
  };
}

enum class When { at_once, soon, established, flooding, both, callee, call_dropped, call_kept };

struct Count {
  int caller_lost = 0, callee_lost = 0, established = 0;
};

void close_one(World& world, When when, std::mt19937& random, Count& count) {
  End callee(*world.b);
  std::atomic<bool> accepted = false;
  std::unique_ptr<Call> kept;
  world.b->on([&] {
    world.called = [&](std::unique_ptr<Call> call) {
      if (when == When::call_dropped) return;
      if (when == When::call_kept) return void(kept = std::move(call));
      if (accepted) return;
      callee.pair = call->accept(*world.b->completions, Domain::link, kSmall, {}, callee);
      if (when == When::flooding || when == When::both) flood(callee);
      accepted = true;
    };
  });
  auto caller = world.dial(world.local + port_of(*world.listener), kSmall, "x", [&](End& end) {
    if (when == When::flooding || when == When::both) flood(end);
    if (when == When::at_once) end.close();
    if (when == When::established) end.when_established = [&end] { end.close(); };
  });
  switch (when) {
    case When::at_once:
      break;
    case When::soon:
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
      break;
    case When::established:
      wait_for("closed once it stands", [&] { return caller->closing || caller->lost; });
      break;
    case When::flooding:
    case When::both:
      wait_for("some data", [&] { return caller->completions > 20 || caller->lost; });
      if (when == When::both) world.b->reactor.post([&callee] { callee.close(); });
      break;
    case When::callee:
      wait_for("accepted", [&] { return accepted.load(); });
      world.b->on([&] { callee.close(); });
      wait_for("the caller hears", [&] { return caller->lost.load(); });
      break;
    case When::call_dropped:
      wait_for("refused", [&] { return caller->lost.load(); });
      check(caller->why == std::errc::connection_refused, "it says refused: " + caller->reason());
      break;
    case When::call_kept:
      wait_for("called", [&] {
        bool has = false;
        world.b->on([&] { has = kept != nullptr; });
        return has || caller->lost;
      });
      break;
  }
  caller->end();
  count.caller_lost += caller->lost ? 1 : 0;
  count.established += caller->established ? 1 : 0;
  world.b->on([&] {
    world.called = {};
    // The caller is gone by now, and the call may be accepted still.
    if (kept) {
      callee.pair = kept->accept(*world.b->completions, Domain::link, kSmall, {}, callee);
      kept.reset();
      accepted = true;
    }
  });
  if (!accepted) return;
  if (when != When::both && when != When::callee) wait_for("the callee hears", [&] { return callee.lost.load(); });
  callee.end();
  count.callee_lost += callee.lost ? 1 : 0;
}

}  // namespace

void refusals(World& world) {
  auto nobody = world.dial(world.local + ":9", kSmall, "");
  wait_for("nobody listens", [&] { return nobody->lost.load(); });
  check(nobody->why == std::errc::connection_refused, "refused: " + nobody->reason());
  nobody->end();
  auto nowhere = world.dial("192.0.2.1:3260", kSmall, "");
  wait_for("no such address", [&] { return nowhere->lost.load(); });
  say("        to an address that is nowhere: " + nowhere->reason());
  nowhere->end();
  auto nonsense = world.dial("nonsense", kSmall, "");
  wait_for("no address at all", [&] { return nonsense->lost.load(); });
  nonsense->end();
  world.b->on([&] { world.called = [](std::unique_ptr<Call>) {}; });
  auto refused = world.dial(world.local + port_of(*world.listener), kSmall, "");
  wait_for("the call is dropped", [&] { return refused->lost.load(); });
  check(refused->why == std::errc::connection_refused, "refused: " + refused->reason());
  check(!refused->established, "it never stood");
  refused->end();
  // A listener that is gone.
  auto listener = world.fabric->listen(*world.b->completions, "0.0.0.0:0", [](std::unique_ptr<Call>) {});
  const std::string port = port_of(**listener);
  listener->reset();
  auto late = world.dial(world.local + port, kSmall, "");
  wait_for("nobody listens any more", [&] { return late->lost.load(); });
  late->end();
  world.b->on([&] { world.called = {}; });
}

void closing(World& world, int rounds) {
  std::mt19937 random(4);
  const Resources before = resources();
  {
    auto pair = world.connect(kSmall);
    check(resources().queue_pairs == before.queue_pairs + 2, "a connection has two: " + resources().text());
    pair.caller->end();
    pair.callee->end();
  }
  const std::map<When, const char*> ways = {
      {When::at_once, "in the turn of connect()"}, {When::soon, "within 8 ms"},
      {When::established, "in on_established()"},  {When::flooding, "in a flood"},
      {When::both, "both at once, in a flood"},    {When::callee, "by the callee, at once"},
      {When::call_dropped, "call dropped"},        {When::call_kept, "accepted after the caller left"}};
  for (const auto& [when, name] : ways) {
    Count count;
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; ++i) close_one(world, when, random, count);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    say("        closed " + std::to_string(rounds) + " times " + name + ": stood " + std::to_string(count.established) +
        ", lost by the caller " + std::to_string(count.caller_lost) + ", by the callee " +
        std::to_string(count.callee_lost) + " (" + std::to_string(took.count()).substr(0, 5) + " s)");
  }
  const Resources after = resources();
  check(after == before, "nothing is left: before " + before.text() + "; after " + after.text());
  say("        as before: " + after.text());
}

void pinning_forbidden(World& world) {
  const auto listener = world.fabric->listen(*world.b->completions, world.local + ":0", [](std::unique_ptr<Call>) {});
  check(!listener, "nobody listens with memory that may not be pinned");
  say("        " + listener.error().message);
  check(listener.error().message.find("LimitMEMLOCK") != std::string::npos, "it names the setting");
  auto caller = world.dial(world.local + ":9", kSmall, "");
  wait_for("nobody calls", [&] { return caller->lost.load(); });
  check(caller->why == make_error_code(RdmaErrc::memory_not_pinned), "for that reason: " + caller->reason());
  caller->end();
  auto called = world.dial("127.0.0.1:9", kSmall, "");
  wait_for("nor on an address without a device", [&] { return called->lost.load(); });
  called->end();
}

void interface_down(World& world, const std::string& interface) {
  auto link = world.connect(kSmall, [](End& end) { flood(end); });
  auto portal = world.connect(
      kSmall, [](End& end) { flood(end); }, Domain::initiators);
  wait_for("data on both", [&] { return link.caller->completions > 50 && portal.caller->completions > 50; });
  const auto begun = std::chrono::steady_clock::now();
  const auto since = [&] {
    return std::to_string(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count()) +
           " ms";
  };
  run("ip link set " + interface + " down");
  wait_for(
      "the link's connection is lost", [&] { return link.caller->lost.load(); }, 30);
  say("        down: the link's caller after " + since() + ": " + link.caller->reason());
  wait_for(
      "the link's callee", [&] { return link.callee->lost.load(); }, 30);
  say("        the link's callee after " + since() + ": " + link.callee->reason());
  try {
    wait_for(
        "the portal's connection is lost", [&] { return portal.caller->lost.load(); }, 20);
    say("        the portal's caller after " + since() + ": " + portal.caller->reason());
  } catch (const Wrong&) {
    say("        the portal's caller heard nothing in 20 s");
  }
  run("ip link set " + interface + " up");
  for (End* end : {link.caller.get(), link.callee.get(), portal.caller.get(), portal.callee.get()}) end->end();
  // It has its addresses and identifiers again a moment later.
  const auto up = std::chrono::steady_clock::now();
  for (;;) {
    auto probe = world.dial(world.local + ":9", kSmall, "");
    wait_for("an answer", [&] { return probe->lost.load(); });
    const bool reached = probe->why == std::errc::connection_refused;
    probe->end();
    if (reached) break;
    check(std::chrono::steady_clock::now() - up < std::chrono::seconds(30), "reached again: " + probe->reason());
  }
  auto again = world.connect();
  again.caller->end();
  again.callee->end();
}

// A call that nobody has taken yet, when its listener goes, the peer hangs up, and both.
void calls_that_wait(World& world) {
  for (int i = 0; i < 30; ++i) {
    std::unique_ptr<Call> kept;
    std::atomic<bool> called = false;
    auto second = world.fabric->listen(*world.b->completions, world.local + ":0", [&](std::unique_ptr<Call> call) {
      kept = std::move(call);
      called = true;
    });
    check(second.has_value(), "one more listens");
    auto caller = world.dial(world.local + port_of(**second), kSmall, "");
    wait_for("the call", [&] { return called.load(); });
    if (i % 3 != 0) second->reset();
    if (i % 3 != 1) caller->end();
    // What the peer's end brings is told before the call is dropped.
    if (i % 2 == 0) world.b->on([] {});
    world.b->on([&] { kept.reset(); });
    if (i % 3 == 1) {
      wait_for("it is refused", [&] { return caller->lost.load(); });
      caller->end();
    }
  }
  auto after = world.connect();
  after.caller->end();
  after.callee->end();
}

// Nobody is connected, and the one who listens does so on any address: no id of ours is on the device but its guard.
void idle_unplug(World& world, const std::string& device, const std::string& interface) {
  for (int i = 0; i < 2; ++i) {
    run("timeout 30 rdma link del " + device);
    run("rdma link add " + device + " type rxe netdev " + interface);
    auto again = world.connect();
    again.caller->end();
    again.callee->end();
  }
}

void hot_plug(World& world, const std::string& device, const std::string& interface, int rounds) {
  const auto bound = world.fabric->listen(*world.b->completions, world.local + ":0", [&](std::unique_ptr<Call> call) {
    if (world.called) world.called(std::move(call));
  });
  check(bound.has_value(), "somebody listens on the device's address");
  for (int i = 0; i < rounds; ++i) {
    auto flooding = world.connect(kSmall, [](End& end) { flood(end); });
    Wanted with_window = kSmall;
    with_window.windows = 2;
    auto quiet = world.connect(with_window);
    engine::Buffer exposed;
    world.a->on([&] {
      exposed = world.a->pool.allocate(4096);
      (void)quiet.caller->pair->expose(exposed.span(), Access::write);
    });
    wait_for("data", [&] { return flooding.caller->completions > 20; });
    const int files = open_files();
    const auto begun = std::chrono::steady_clock::now();
    std::atomic<bool> deleted = false;
    std::thread removal([&] {
      run("rdma link del " + device);
      deleted = true;
    });
    std::array<End*, 4> ends = {flooding.caller.get(), flooding.callee.get(), quiet.caller.get(), quiet.callee.get()};
    for (End* end : ends) {
      wait_for("the device's connections are lost", [&] { return end->lost.load(); });
      check(end->why == make_error_code(RdmaErrc::device_removed), "the reason: " + end->reason());
    }
    for (End* end : ends) end->end();
    world.a->on([&] { exposed.reset(); });
    wait_for(
        "\"rdma link del\" ends", [&] { return deleted.load(); }, 30);
    removal.join();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begun;
    auto none = world.dial(world.local + port_of(*world.listener), kSmall, "");
    wait_for("no device", [&] { return none->lost.load(); });
    say("        removed in " + std::to_string(took.count()) + " ms; without it: " + none->reason() + "; files " +
        std::to_string(files) + ", then " + std::to_string(open_files()));
    none->end();
    run("rdma link add " + device + " type rxe netdev " + interface);
    auto again = world.connect();
    again.caller->end();
    again.callee->end();
    // The one on the address comes back by itself.
    wait_for("the address is listened on again", [&] {
      std::atomic<bool> called = false;
      world.b->on([&] { world.called = [&](std::unique_ptr<Call>) { called = true; }; });
      auto probe = world.dial(world.local + port_of(**bound), kSmall, "");
      wait_for("an answer", [&] { return probe->lost.load(); });
      probe->end();
      world.b->on([&] { world.called = {}; });
      return called.load();
    });
  }
}

}  // namespace lockstep::rdma::trial
