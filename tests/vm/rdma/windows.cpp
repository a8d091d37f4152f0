// The parts of the trial in which memory is exposed through windows, and in which arenas come and go.
#include <array>
#include <cstring>
#include <optional>

#include <sys/mman.h>

#include "tests/vm/rdma/trial.hpp"

namespace lockstep::rdma::trial {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint32_t kWindows = 64;
constexpr Wanted kWanted{.sends = 256, .receives = 128, .reads = 16, .max_inline = 64, .windows = kWindows};

/// A connection on which the caller exposes, and the callee hears of it by a message and answers by one.
struct Exposing {
  explicit Exposing(World& w) : world(w) {
    pair = world.connect(kWanted, [&](End& end) {
      auto& receives = &end.side == world.a.get() ? a_receives : b_receives;
      receives = end.side.pool.allocate(kPage);
      for (std::uint64_t id = 1; id <= 8; ++id) post(end, receives, id);
    });
    world.a->on([&] {
      ours = world.a->pool.allocate(16 * kPage);
      fill(ours.span(), 1);
      pair.caller->when_completed = [this](const Completion& completion) {
        if (completion.error) return;
        if (completion.work == Work::hide) hidden = completion.id;
        if (completion.work != Work::receive) return;
        post(*pair.caller, a_receives, completion.id);
        if (completion.invalidated) invalidated = *completion.invalidated;
        ++answers;
      };
    });
    world.b->on([&] {
      theirs = world.b->pool.allocate(16 * kPage);
      fill(theirs.span(), 2);
      pair.callee->when_completed = [this](const Completion& completion) {
        if (completion.error && !failed) failure = completion.error, failed = true;
        if (completion.error) return;
        if (completion.work == Work::read || completion.work == Work::write) ++moved;
        if (completion.work != Work::receive) return;
        post(*pair.callee, b_receives, completion.id);
        ++heard;
      };
    });
  }
  ~Exposing() {
    pair.caller->end();
    pair.callee->end();
    world.a->on([&] { ours.reset(), a_receives.reset(); });
    world.b->on([&] { theirs.reset(), b_receives.reset(); });
  }

  static void post(End& end, engine::Buffer& receives, std::uint64_t id) {
    end.pair->receive(receives.span().subspan(id * 64, 64), {}, id);
  }
  /// The callee has heard of it.
  Remote expose(std::span<std::byte> memory, Access access) {
    Remote remote;
    const std::uint32_t before = heard;
    world.a->on([&] {
      remote = pair.caller->pair->expose(memory, access);
      const std::array<std::span<const std::byte>, 1> pieces = {bytes_of("a key")};
      pair.caller->pair->send({.pieces = pieces, .id = 1});
    });
    wait_for("the callee hears of it", [&] { return heard == before + 1 || pair.caller->lost; });
    check(!pair.caller->lost, "it may be exposed: " + pair.caller->reason());
    return remote;
  }
  void use(const Remote& remote, bool reads) {
    const std::uint32_t before = moved;
    world.b->on([&] {
      if (reads) pair.callee->pair->read(theirs.span().first(kPage), remote, 1);
      if (!reads) pair.callee->pair->write(theirs.span().first(kPage), remote, 1);
    });
    wait_for("it is carried out, or not", [&] { return moved == before + 1 || pair.callee->lost; });
  }
  void answer(std::optional<std::uint32_t> invalidates) {
    const std::uint32_t before = answers;
    world.b->on([&] {
      const std::array<std::span<const std::byte>, 1> pieces = {bytes_of("an answer")};
      pair.callee->pair->send({.pieces = pieces, .invalidates = invalidates, .id = 1});
    });
    wait_for("the answer comes", [&] { return answers == before + 1 || pair.callee->lost; });
  }
  void check_refused(const std::string& what) {
    wait_for("the callee loses it", [&] { return pair.callee->lost.load(); });
    check(failed && failure == make_error_code(RdmaErrc::remote_access), what + ": " + pair.callee->reason());
    check(filled(ours.span(), 1), "nothing was written");
    wait_for("the caller, too", [&] { return pair.caller->lost.load(); });
    say("        " + what + ": " + pair.callee->reason() + "; the caller's: " + pair.caller->reason());
  }

  World& world;
  World::Pair pair;
  engine::Buffer ours, theirs, a_receives, b_receives;
  std::error_code failure;
  std::atomic<bool> failed = false;
  std::atomic<std::uint32_t> heard = 0, answers = 0, moved = 0, invalidated = 0;
  std::atomic<std::uint64_t> hidden = 0;
};

void invalidated_by_the_peer(World& world, bool reads) {
  Exposing on(world);
  const auto memory = on.ours.span().first(kPage);
  const Remote remote = on.expose(memory, reads ? Access::read : Access::write);
  on.use(remote, reads);
  check(!on.pair.callee->lost, "it may be done: " + on.pair.callee->reason());
  on.answer(remote.key);
  check(on.invalidated == remote.key, "the key is reported");
  check(filled(memory, reads ? 1 : 2), "the caller's is what was read, or written");
  check(filled(on.theirs.span().first(kPage), reads ? 1 : 2), "and the callee's");
  fill(on.ours.span(), 1);
  on.use(remote, reads);
  on.check_refused(std::string(reads ? "a read" : "a write") + " through a window that the peer invalidated");
}

void hidden_by_its_owner(World& world, bool reads) {
  Exposing on(world);
  const Remote remote = on.expose(on.ours.span().first(kPage), reads ? Access::read : Access::write);
  on.use(remote, reads);
  check(!on.pair.callee->lost, "it may be done: " + on.pair.callee->reason());
  on.answer({});
  check(on.invalidated == 0, "nothing was invalidated");
  world.a->on([&] { on.pair.caller->pair->hide(remote.key, 77); });
  wait_for("it is hidden", [&] { return on.hidden == 77 || on.pair.caller->lost; });
  check(!on.pair.caller->lost, "it may be hidden: " + on.pair.caller->reason());
  fill(on.ours.span(), 1);
  on.use(remote, reads);
  on.check_refused(std::string(reads ? "a read" : "a write") + " through a window that was hidden");
}

void not_allowed(World& world, bool reads) {
  Exposing on(world);
  on.use(on.expose(on.ours.span().first(kPage), reads ? Access::write : Access::read), reads);
  on.check_refused(std::string(reads ? "a read of what may be written" : "a write of what may be read"));
}

void on_another_connection(World& world) {
  Exposing one(world), other(world);
  other.use(one.expose(one.ours.span().first(kPage), Access::read), true);
  other.check_refused("a read through another connection's window");
  check(!one.pair.caller->lost && !one.pair.callee->lost, "that one stands");
}

/// What the device does with a range that begins in the window and ends behind it is told, not demanded.
void beyond_the_end(World& world) {
  Exposing on(world);
  Remote remote = on.expose(on.ours.span().first(kPage), Access::read);
  remote.address += kPage / 2;
  on.use(remote, true);
  say("        a read across the window's end: " + on.pair.callee->reason());
}

void closed_with_windows_open(World& world) {
  const Resources before = resources();
  for (int round = 0; round < 20; ++round) {
    Exposing on(world);
    std::vector<Remote> open;
    for (std::size_t page = 0; page < 8; ++page) {
      open.push_back(
          on.expose(on.ours.span().subspan(page * kPage, kPage), page % 2 == 0 ? Access::read : Access::write));
    }
    // Much is under way through them.
    world.b->on([&] {
      for (std::size_t page = 0; page < 8; ++page) {
        const auto memory = on.theirs.span().subspan(page * kPage, kPage);
        if (page % 2 == 0) on.pair.callee->pair->read(memory, open[page], page + 1);
        if (page % 2 != 0) on.pair.callee->pair->write(memory, open[page], page + 1);
      }
    });
    if (round % 2 == 0) on.pair.caller->end();
    if (round % 2 != 0) on.pair.callee->end();
    if (round % 2 == 0) {
      fill(on.ours.span(), 5);
      wait_for("the callee hears", [&] { return on.pair.callee->lost.load(); });
      check(filled(on.ours.span(), 5), "nothing is written after close() has called back");
    }
  }
  const Resources after = resources();
  check(after == before, "nothing is left: before " + before.text() + "; after " + after.text());
}

void more_than_the_device_has(World& world) {
  const Resources before = resources();
  Wanted wanted = kWanted;
  wanted.windows = 2'000'000;
  auto caller = world.dial(world.local + ":9", wanted, "");
  wait_for(
      "it is lost", [&] { return caller->lost.load(); }, 300);
  check(caller->why == make_error_code(RdmaErrc::no_windows), "for that reason: " + caller->reason());
  say("        " + caller->reason());
  caller->end();
  const Resources after = resources();
  check(after == before, "nothing is left: before " + before.text() + "; after " + after.text());
}

}  // namespace

void windows(World& world) {
  for (const bool reads : {true, false}) {
    invalidated_by_the_peer(world, reads);
    hidden_by_its_owner(world, reads);
    not_allowed(world, reads);
  }
  on_another_connection(world);
  beyond_the_end(world);
  closed_with_windows_open(world);
  more_than_the_device_has(world);
}

namespace {

/// What the caller asks the callee for, in a message of its own.
struct Request {
  Remote remote;
  std::uint32_t number = 0, slot = 0;
};
struct Answer {
  std::uint32_t number = 0, slot = 0;
};

template <class Message>
void send(QueuePair& pair, const Message& message, std::optional<std::uint32_t> invalidates) {
  const std::array<std::span<const std::byte>, 1> pieces = {std::as_bytes(std::span(&message, 1))};
  pair.send({.pieces = pieces, .invalidates = invalidates, .id = 1});
}

template <class Message>
Message message_in(std::span<const std::byte> memory) {
  Message message;
  std::memcpy(&message, memory.data(), sizeof message);
  return message;
}

bool is_of(std::uint32_t number, std::span<const std::byte> page) {
  return message_in<std::uint32_t>(page) == number && message_in<std::uint32_t>(page.last(4)) == ~number;
}

void mark(std::uint32_t number, std::span<std::byte> page) {
  const std::uint32_t last = ~number;
  std::memcpy(page.data(), &number, 4);
  std::memcpy(page.last(4).data(), &last, 4);
}

/// Requests one after another in each of kWindows slots, every one with a window of its own: even ones let the callee
/// read, odd ones let it write; two of three are invalidated by the answer, the third is hidden.
struct Requests {
  Requests(World& w, std::uint32_t all) : world(w), total(all) {
    pair = world.connect(kWanted, [&](End& end) {
      auto& receives = &end.side == world.a.get() ? a_receives : b_receives;
      receives = end.side.pool.allocate(kWindows * 64);
      for (std::uint64_t slot = 0; slot < kWindows; ++slot) post(end, receives.span(), slot);
    });
    world.b->on([&] {
      theirs = world.b->pool.allocate(kWindows * kPage);
      asked.resize(kWindows);
      pair.callee->when_completed = [this](const Completion& completion) { callee_completed(completion); };
    });
    world.a->on([&] {
      ours = world.a->pool.allocate(kWindows * kPage);
      open.resize(kWindows);
      pair.caller->when_completed = [this](const Completion& completion) { caller_completed(completion); };
      for (std::uint32_t slot = 0; slot < kWindows; ++slot) next(slot);
    });
  }
  ~Requests() {
    pair.caller->end();
    pair.callee->end();
    world.a->on([&] { ours.reset(), a_receives.reset(); });
    world.b->on([&] { theirs.reset(), b_receives.reset(); });
  }

  static void post(End& end, std::span<std::byte> receives, std::uint64_t slot) {
    end.pair->receive(receives.subspan(slot * 64, 64), {}, slot);
  }
  std::span<std::byte> page(engine::Buffer& of, std::uint32_t slot) const {
    return of.span().subspan(slot * kPage, kPage);
  }

  void next(std::uint32_t slot) {
    if (number == total) return;
    const bool reads = number % 2 == 0;
    mark(reads ? number : 0, page(ours, slot));
    const Remote remote = pair.caller->pair->expose(page(ours, slot), reads ? Access::read : Access::write);
    open[slot] = remote.key;
    send(*pair.caller->pair, Request{remote, number++, slot}, {});
  }
  void callee_completed(const Completion& completion) {
    if (completion.error) return;
    if (completion.work == Work::receive) {
      const auto request = message_in<Request>(b_receives.span().subspan(completion.id * 64));
      post(*pair.callee, b_receives.span(), completion.id);
      asked[request.slot] = request;
      const auto memory = page(theirs, request.slot);
      mark(request.number % 2 == 0 ? 0 : request.number, memory);
      if (request.number % 2 == 0) return pair.callee->pair->read(memory, request.remote, request.slot + 1);
      pair.callee->pair->write(memory, request.remote, 0);
      answer(request);
    } else if (completion.work == Work::read) {
      const Request& request = asked[completion.id - 1];
      check(is_of(request.number, page(theirs, request.slot)), "it is read as it was exposed");
      answer(request);
    }
  }
  void answer(const Request& request) {
    const bool invalidates = request.number % 3 != 0;
    send(*pair.callee->pair, Answer{request.number, request.slot},
         invalidates ? std::optional(request.remote.key) : std::nullopt);
  }
  void caller_completed(const Completion& completion) {
    if (completion.error) return;
    if (completion.work == Work::hide) return over(static_cast<std::uint32_t>(completion.id - 1));
    if (completion.work != Work::receive) return;
    const auto answered = message_in<Answer>(a_receives.span().subspan(completion.id * 64));
    post(*pair.caller, a_receives.span(), completion.id);
    check(is_of(answered.number, page(ours, answered.slot)), "it lies there as it was read or written");
    check(completion.invalidated.has_value() == (answered.number % 3 != 0), "it is invalidated where it was asked for");
    if (!completion.invalidated) return pair.caller->pair->hide(open[answered.slot], answered.slot + 1);
    check(*completion.invalidated == open[answered.slot], "the key is the window's");
    over(answered.slot);
  }
  void over(std::uint32_t slot) {
    ++done;
    next(slot);
  }

  World& world;
  std::uint32_t total, number = 0;
  std::atomic<std::uint32_t> done = 0;
  World::Pair pair;
  engine::Buffer ours, theirs, a_receives, b_receives;
  std::vector<std::uint32_t> open;
  std::vector<Request> asked;
};

/// As the devices of this machine count them.
std::string messages_without_receive() { return run("cat /sys/class/infiniband/*/ports/1/hw_counters/rcvd_rnr_err"); }

}  // namespace

void windows_reused(World& world, std::uint32_t times) {
  const std::string before_missed = messages_without_receive();
  Requests requests(world, kWindows * times);
  std::uint32_t before = 0;
  while (requests.done < requests.total) {
    wait_for("more than " + std::to_string(before) + " of them",
             [&] { return requests.done == requests.total || requests.done > before || requests.pair.caller->lost; });
    check(!requests.pair.caller->lost && !requests.pair.callee->lost,
          "it stands: " + requests.pair.caller->reason() + "; " + requests.pair.callee->reason());
    before = requests.done;
  }
  check(messages_without_receive() == before_missed, "each message found a receive: " + messages_without_receive());
  say("        " + std::to_string(requests.total) + " requests through " + std::to_string(kWindows) + " windows");
}

void arenas(World& world) {
  // More than there is room for at once, so that places are used again.
  constexpr int kRounds = 300;
  const std::string before_missed = messages_without_receive();
  Requests elsewhere(world, 1'000'000'000);
  Exposing on(world);
  int regions = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::size_t bytes = (1 + static_cast<std::size_t>(round % 7)) * kPage;
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(at != MAP_FAILED, "memory");
    const std::span<std::byte> arena(static_cast<std::byte*>(at), bytes);
    fill(arena, 9);
    const auto is_registered = [&] {
      bool is = false;
      world.a->on([&] { is = on.pair.caller->pair->is_registered(arena); });
      return is;
    };
    check(!is_registered(), "it is not registered yet");
    world.fabric->add_arena(arena);
    check(is_registered(), "it is registered");
    if (round == 0) regions = resources().regions;
    const Remote remote = on.expose(arena.first(kPage), Access::read);
    on.use(remote, true);
    on.answer(remote.key);
    check(!on.pair.callee->lost && filled(on.theirs.span().first(kPage), 9), "it is read: " + on.pair.callee->reason());
    world.fabric->remove_arena(arena);
    check(!is_registered(), "it is not registered any more");
    ::munmap(at, bytes);
  }
  check(resources().regions == regions - 2, "both domains have forgotten it: " + resources().text());
  check(!elsewhere.pair.caller->lost && !elsewhere.pair.callee->lost,
        "another connection stands: " + elsewhere.pair.caller->reason() + "; " + elsewhere.pair.callee->reason());
  const std::uint32_t then = elsewhere.done;
  check(messages_without_receive() == before_missed, "each message found a receive: " + messages_without_receive());
  wait_for("its requests go on", [&] { return elsewhere.done > then; });
  say("        " + std::to_string(kRounds) + " arenas came and went beside " + std::to_string(elsewhere.done) +
      " requests");
}

}  // namespace lockstep::rdma::trial
