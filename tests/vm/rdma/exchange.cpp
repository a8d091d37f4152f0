// The parts of the trial that move data.
#include <array>
#include <cstring>
#include <deque>
#include <random>

#include <infiniband/verbs.h>

#include "tests/vm/rdma/trial.hpp"

namespace lockstep::rdma::trial {
namespace {

constexpr std::size_t kHeader = 48;
constexpr std::size_t kPage = 4096;

/// Receives of two spans each: a header, and 8 KiB that begin on a page.
struct Receives {
  struct Slot {
    engine::Buffer header, data;
  };
  Receives(End& e, std::size_t count) : end(e), slots(count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      slots[i] = {end.side.pool.allocate(kHeader), end.side.pool.allocate(8192)};
      post(i + 1);
    }
  }
  void post(std::uint64_t id) {
    Slot& slot = slots[id - 1];
    std::memset(slot.data.data(), 0xee, slot.data.size());
    end.pair->receive(slot.header.span(), slot.data.span(), id);
  }
  End& end;
  std::vector<Slot> slots;
};

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void hello(World& world) {
  for (const std::string& where : {std::string("[::]:0"), world.local + ":0", std::string("[::]:0")}) {
    End callee(*world.b);
    std::string heard;
    bool v6 = where.front() == '[';
    auto listener = world.fabric->listen(*world.b->completions, where, [&](std::unique_ptr<Call> call) {
      heard = text_of(call->private_data());
      say("        a call from " + call->peer_address() + " on " + call->local_address() + ", " +
          std::to_string(heard.size()) + " bytes of private data" +
          (call->can_invalidate() ? ", the device invalidates" : ""));
      callee.pair = call->accept(*world.b->completions, Domain::initiators, {.sends = 8, .receives = 8},
                                 bytes_of("what the callee says"), callee);
    });
    check(listener.has_value(), listener ? "" : listener.error().message);
    const std::string port = (*listener)->address().substr((*listener)->address().rfind(':'));
    const auto caller = world.dial((v6 ? "[fd00::9]" : world.local) + port, {.sends = 8, .receives = 8},
                                   "what the caller says", {}, Domain::initiators);
    wait_for("both stand", [&] { return (caller->established && callee.established) || caller->lost; });
    check(!caller->lost, "the caller is connected on " + where + ": " + caller->reason());
    check(heard.starts_with("what the caller says"), "the callee hears the caller's data: " + heard);
    check(text_of(caller->hello).starts_with("what the callee says"), "the caller hears the callee's data");
    say("        the answer has " + std::to_string(caller->hello.size()) + " bytes; " + caller->pair->local_address() +
        " to " + caller->pair->peer_address() + "; inline " + std::to_string(caller->pair->limits().max_inline) +
        ", reads " + std::to_string(caller->pair->limits().reads) + ", message " +
        std::to_string(caller->pair->limits().max_message));
    caller->end();
    wait_for("the callee learns that the caller left", [&] { return callee.lost.load(); });
    check(callee.why == std::errc::connection_reset, "the reason is the peer's: " + callee.reason());
    callee.end();
  }
  // A port is one listener's.
  const auto again = world.fabric->listen(*world.b->completions, world.listener->address(), [](auto) {});
  check(!again, "nobody listens twice on one port");
  say("        " + again.error().message);
  const auto nowhere = world.fabric->listen(*world.b->completions, "192.0.2.77:3260", [](auto) {});
  check(!nowhere, "nobody listens on an address that no device has");
  say("        " + nowhere.error().message);
}

void messages(World& world) {
  std::unique_ptr<Receives> receives;
  auto pair = world.connect({.sends = 32, .receives = 32, .max_inline = 220}, [&](End& end) {
    if (&end.side == world.b.get()) receives = std::make_unique<Receives>(end, 16);
  });
  std::atomic<std::uint32_t> seen = 0;
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = 0; bytes <= 8192; bytes = bytes < 200 ? bytes + 50 : bytes * 2) sizes.push_back(bytes);
  sizes.push_back(8192);
  world.b->on([&] {
    pair.callee->when_completed = [&](const Completion& completion) {
      check(!completion.error && completion.work == Work::receive, "received: " + completion.error.message());
      const std::size_t bytes = sizes[seen];
      const auto& slot = receives->slots[completion.id - 1];
      check(completion.id == seen % 16 + 1, "receives complete in order");
      check(completion.bytes == kHeader + bytes, "it is as long as it was sent");
      check(filled(slot.header.span(), seen + 1), "the header is in the first span");
      check(filled(slot.data.span().first(bytes), seen + 1000), "the data are in the second, from its first byte on");
      check(reinterpret_cast<std::uintptr_t>(slot.data.data()) % kPage == 0, "which begins on a page");
      receives->post(completion.id);
      ++seen;
    };
  });
  for (std::uint32_t i = 0; i < sizes.size(); ++i) {
    world.a->on([&] {
      engine::Buffer header = world.a->pool.allocate(kHeader), data = world.a->pool.allocate(8192);
      fill(header.span(), i + 1);
      fill(data.span().first(sizes[i]), i + 1000);
      const std::array<std::span<const std::byte>, 2> pieces = {header.span(), data.span().first(sizes[i])};
      pair.caller->when_completed = [](const Completion& completion) {
        check(!completion.error && completion.work == Work::send && completion.id == 9, "it was sent");
      };
      pair.caller->pair->send({.pieces = pieces, .id = 9});
      // The buffers stay until it is completed.
      auto keep = std::make_shared<std::pair<engine::Buffer, engine::Buffer>>(std::move(header), std::move(data));
      pair.caller->when_completed = [keep](const Completion& completion) {
        check(!completion.error && completion.id == 9, "it was sent: " + completion.error.message());
      };
    });
    wait_for("message " + std::to_string(i), [&] { return seen == i + 1 && pair.caller->completions == i + 1; });
  }
  world.a->on([&] { pair.caller->when_completed = {}; });
  pair.caller->end();
  pair.callee->end();
}

void remote_memory(World& world) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  auto pair = world.connect();
  std::unique_ptr<Exposed> theirs;
  world.b->on([&] { theirs = std::make_unique<Exposed>(*pair.callee, kBytes); });
  engine::Buffer out, in;
  world.a->on([&] {
    out = world.a->pool.allocate(kBytes);
    in = world.a->pool.allocate(kBytes);
    fill(out.span(), 77);
    pair.caller->when_completed = [&](const Completion& completion) {
      check(!completion.error, "it is carried out: " + completion.error.message());
      if (completion.work == Work::write) pair.caller->pair->read(in.span(), theirs->remote, 2);
    };
    pair.caller->pair->write(out.span(), theirs->remote, 1);
  });
  wait_for("write and read", [&] { return pair.caller->completions == 2; });
  check(filled(theirs->memory, 77), "what was written is there");
  check(filled(in.span(), 77), "what is read is what was written");
  world.a->on([&] { in.reset(), out.reset(); });
  pair.caller->end();
  pair.callee->end();
  world.b->on([&] { theirs.reset(); });
}

void invalidation(World& world) {
  std::unique_ptr<Receives> receives;
  auto pair = world.connect({.sends = 32, .receives = 8, .max_inline = 220}, [&](End& end) {
    if (&end.side == world.b.get()) receives = std::make_unique<Receives>(end, 4);
  });
  auto other = world.connect();
  check(pair.caller->pair->limits().invalidates, "the device invalidates");
  std::unique_ptr<Exposed> theirs;
  ibv_mw* window = nullptr;
  std::uint32_t key = 0;
  world.b->on([&] {
    theirs = std::make_unique<Exposed>(*pair.callee, 65536);
    ibv_qp* queue = verbs_of(*pair.callee->pair);
    window = ibv_alloc_mw(queue->pd, IBV_MW_TYPE_2);
    check(window != nullptr, "there is a window");
    key = ibv_inc_rkey(window->rkey);
    ibv_send_wr bind{}, *refused = nullptr;
    bind.wr_id = kForeignWork;
    bind.opcode = IBV_WR_BIND_MW;
    bind.send_flags = IBV_SEND_SIGNALED;
    bind.bind_mw = {.mw = window,
                    .rkey = key,
                    .bind_info = {.mr = theirs->region,
                                  .addr = theirs->remote.address,
                                  .length = theirs->memory.size(),
                                  .mw_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE}};
    check(ibv_post_send(queue, &bind, &refused) == 0, "the window is bound");
  });
  std::atomic<std::uint32_t> invalidated = 0;
  world.b->on([&] {
    pair.callee->when_completed = [&](const Completion& completion) {
      if (completion.work == Work::receive && completion.invalidated) invalidated = *completion.invalidated;
    };
  });
  engine::Buffer out;
  world.a->on([&] {
    out = world.a->pool.allocate(65536);
    fill(out.span(), 5);
    // One list: the write that nobody is told of, and the send that says that it is over.
    const std::array<std::span<const std::byte>, 1> pieces = {out.span().first(kHeader)};
    pair.caller->pair->write(out.span(), {theirs->remote.address, key}, 0);
    pair.caller->pair->send({.pieces = pieces, .invalidates = key, .id = 1});
  });
  wait_for("the send completes", [&] { return pair.caller->completions == 1 || pair.caller->lost; });
  check(!pair.caller->lost, "the window may be written: " + pair.caller->reason());
  wait_for("the key is reported", [&] { return invalidated != 0; });
  check(invalidated == key, "it is the window's");
  check(filled(theirs->memory, 5), "what was written through it is there");
  world.a->on([&] { pair.caller->pair->write(out.span(), {theirs->remote.address, key}, 2); });
  wait_for("the key is worth nothing now", [&] { return pair.caller->lost.load(); });
  say("        a write through the invalidated window: " + pair.caller->reason());
  check(!other.caller->lost && !other.callee->lost, "another connection stands");
  world.a->on([&] { out.reset(); });
  for (End* end : {pair.caller.get(), pair.callee.get(), other.caller.get(), other.callee.get()}) end->end();
  world.b->on([&] {
    check(ibv_dealloc_mw(window) == 0, "the window is given back");
    theirs.reset();
  });
}

void many_reads(World& world) {
  constexpr std::uint64_t kReads = 100;
  auto pair = world.connect({.sends = 128, .receives = 8, .reads = 2, .max_inline = 220}, [&](End& end) {
    if (&end.side != world.b.get()) return;
    engine::Buffer once = world.b->pool.allocate(64);
    end.pair->receive(once.span(), {}, 1);
  });
  check(pair.caller->pair->limits().reads == 2, "two reads are granted");
  std::unique_ptr<Exposed> theirs;
  world.b->on([&] {
    theirs = std::make_unique<Exposed>(*pair.callee, kReads * kPage);
    for (std::uint32_t i = 0; i < kReads; ++i) fill(theirs->memory.subspan(i * kPage, kPage), i);
  });
  engine::Buffer in;
  std::atomic<std::uint64_t> read = 0, read_when_sent = 0;
  world.a->on([&] {
    in = world.a->pool.allocate(kReads * kPage);
    pair.caller->when_completed = [&](const Completion& completion) {
      check(!completion.error, "it is carried out: " + completion.error.message());
      if (completion.work == Work::send) {
        read_when_sent = read.load();
        return;
      }
      check(completion.work == Work::read && completion.id == read + 1, "reads complete in order");
      ++read;
    };
    for (std::uint64_t i = 0; i < kReads; ++i) {
      const Remote from{theirs->remote.address + i * kPage, theirs->remote.key};
      pair.caller->pair->read(in.span().subspan(i * kPage, kPage), from, i + 1);
    }
    const std::array<std::span<const std::byte>, 1> pieces = {bytes_of("overtakes")};
    pair.caller->pair->send({.pieces = pieces, .id = 1});
  });
  wait_for("all reads", [&] { return read == kReads && pair.caller->completions == kReads + 1; });
  for (std::uint32_t i = 0; i < kReads; ++i) check(filled(in.span().subspan(i * kPage, kPage), i), "each is its own");
  check(read_when_sent < kReads / 2, "a send does not wait behind reads that wait");
  say("        a send posted behind 100 reads completed after " + std::to_string(read_when_sent) + " of them");
  world.a->on([&] { in.reset(); });
  pair.caller->end();
  pair.callee->end();
  world.b->on([&] { theirs.reset(); });
}

void quiet_sends(World& world) {
  constexpr std::uint32_t kMany = 6000;
  std::unique_ptr<Receives> receives;
  auto pair = world.connect({.sends = 8, .receives = 64, .max_inline = 64}, [&](End& end) {
    if (&end.side == world.b.get()) receives = std::make_unique<Receives>(end, 64);
  });
  std::atomic<std::uint32_t> seen = 0;
  world.b->on([&] {
    pair.callee->when_completed = [&](const Completion& completion) {
      check(!completion.error && completion.bytes == 40, "it came: " + completion.error.message());
      check(filled(receives->slots[completion.id - 1].header.span().first(40), seen), "in order, none missing");
      ++seen;
      receives->post(completion.id);
    };
  });
  // More than the queue holds: they wait in the provider, copied. No more than the peer has receives for.
  constexpr std::uint32_t kAtOnce = 60;
  for (std::uint32_t i = 0; i < kMany; i += kAtOnce) {
    world.a->on([&] {
      std::array<std::byte, 40> text{};
      for (std::uint32_t k = i; k < i + kAtOnce; ++k) {
        fill(text, k);
        const std::array<std::span<const std::byte>, 1> pieces = {text};
        pair.caller->pair->send({.pieces = pieces});
      }
    });
    wait_for("those", [&] { return seen == i + kAtOnce; });
  }
  check(pair.caller->completions == 0, "no completion is told of what has no id");
  pair.caller->end();
  pair.callee->end();
}

void wrong_key(World& world) {
  auto other = world.connect();
  for (const bool reads : {false, true}) {
    auto pair = world.connect();
    std::unique_ptr<Exposed> theirs;
    world.b->on([&] { theirs = std::make_unique<Exposed>(*pair.callee, 65536); });
    engine::Buffer memory;
    std::error_code first;
    world.a->on([&] {
      memory = world.a->pool.allocate(65536);
      pair.caller->when_completed = [&](const Completion& completion) {
        if (!first) first = completion.error;
      };
      const Remote wrong{theirs->remote.address, theirs->remote.key ^ 0x5500};
      if (reads) pair.caller->pair->read(memory.span(), wrong, 1);
      if (!reads) pair.caller->pair->write(memory.span(), wrong, 1);
    });
    wait_for("the caller loses it", [&] { return pair.caller->lost.load(); });
    check(first == make_error_code(RdmaErrc::remote_access), "the first completion says why: " + first.message());
    check(pair.caller->why == first, "and so does the loss: " + pair.caller->reason());
    pair.caller->end();
    wait_for("the callee loses it, too", [&] { return pair.callee->lost.load(); });
    say(std::string("        a ") + (reads ? "read" : "write") + " with a wrong key: " + pair.caller->reason() +
        "; the peer's: " + pair.callee->reason());
    pair.callee->end();
    world.a->on([&] { memory.reset(); });
    world.b->on([&] { theirs.reset(); });
  }
  check(!other.caller->lost && !other.callee->lost, "another connection stands");
  other.caller->end();
  other.callee->end();
}

void ping_pong(World& world, std::uint32_t rounds) {
  constexpr std::size_t kDepth = 32;
  std::vector<std::unique_ptr<Receives>> receives;
  auto pair = world.connect({.sends = 64, .receives = 64, .max_inline = 220},
                            [&](End& end) { receives.push_back(std::make_unique<Receives>(end, 64)); });
  const auto receives_of = [&](const End& end) {
    return (&receives[0]->end == &end ? receives[0] : receives[1]).get();
  };
  struct Outgoing {
    engine::Buffer header, data;
  };
  std::array<Outgoing, kDepth + 1> caller_out, callee_out;
  std::mt19937 random(20);
  std::uint32_t asked = 0;
  std::atomic<std::uint32_t> answered = 0;
  const auto size_of = [](std::uint32_t number) -> std::size_t { return number % 7 == 0 ? 4096 : number % 500; };
  const auto send = [&](End& end, std::array<Outgoing, kDepth + 1>& slots, std::uint32_t number) {
    Outgoing& slot = slots[number % slots.size()];
    if (!slot.header) slot = {end.side.pool.allocate(kHeader), end.side.pool.allocate(8192)};
    std::memset(slot.header.data(), 0, kHeader);
    std::memcpy(slot.header.data(), &number, sizeof number);
    std::memset(slot.data.data(), static_cast<int>(number & 0xff), size_of(number));
    const std::array<std::span<const std::byte>, 2> pieces = {slot.header.span(),
                                                              slot.data.span().first(size_of(number))};
    end.pair->send({.pieces = pieces, .id = number + 1});
  };
  const auto right = [&](End& end, const Completion& completion, std::uint32_t number) {
    check(!completion.error, "it came: " + completion.error.message());
    const auto& slot = receives_of(end)->slots[completion.id - 1];
    check(std::memcmp(slot.header.data(), &number, sizeof number) == 0, "in order, none missing");
    check(completion.bytes == kHeader + size_of(number), "with its length");
    const auto data = slot.data.span().first(size_of(number));
    check(data.empty() || (data.front() == static_cast<std::byte>(number) && data.back() == data.front()), "and data");
    receives_of(end)->post(completion.id);
  };
  std::uint32_t echoed = 0;
  world.b->on([&] {
    pair.callee->when_completed = [&](const Completion& completion) {
      if (completion.work != Work::receive) return;
      right(*pair.callee, completion, echoed);
      send(*pair.callee, callee_out, echoed++);
    };
  });
  world.a->on([&] {
    const auto more = [&] {
      const std::uint32_t depth = 1 + static_cast<std::uint32_t>(random()) % kDepth;
      while (asked < rounds && asked - answered < depth) send(*pair.caller, caller_out, asked++);
    };
    pair.caller->when_completed = [&, more](const Completion& completion) {
      if (completion.work != Work::receive) return;
      right(*pair.caller, completion, answered);
      ++answered;
      more();
    };
    more();
  });
  std::uint32_t before = 0;
  while (answered < rounds) {
    wait_for("more answers than " + std::to_string(before), [&] { return answered == rounds || answered > before; });
    before = answered;
  }
  engine::ReactorStats stats;
  world.b->on([&] { stats = world.b->reactor.stats(); });
  say("        " + std::to_string(answered) + " answers; the callee's reactor: " + std::to_string(stats.turns) +
      " turns, " + std::to_string(stats.sleeps) + " sleeps so far");
  pair.caller->end();
  pair.callee->end();
  world.a->on([&] { caller_out = {}; });
  world.b->on([&] { callee_out = {}; });
}

}  // namespace lockstep::rdma::trial
