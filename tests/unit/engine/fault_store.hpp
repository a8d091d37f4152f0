#pragma once
// A store in memory that keeps what was flushed and loses, tears or refuses the rest as a test demands.
#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/seams/store.hpp"

namespace lockstep::engine {

/// Operations wait until the test lets them through, one by one or all.
class FaultStore final : public Store {
 public:
  static constexpr std::size_t kSector = 512;
  explicit FaultStore(std::uint64_t size) : stable_(size), now_(size) {
    info_.size = size;
    info_.name = "/test/store";
  }

  struct Counts {
    int reads = 0, writes = 0, durable_writes = 0, flushes = 0;
  } counts;
  /// Fails operations (each consulted once, when it is let through).
  std::function<bool(char kind, Extent)> fail = [](char, Extent) { return false; };

  [[nodiscard]] const StoreInfo& info() const override { return info_; }
  void read(std::uint64_t offset, std::span<std::byte> into, IoCallback done) override {
    ++counts.reads;
    add('r', {offset, into.size()}, std::move(done),
        [this, offset, into] { std::memcpy(into.data(), now_.data() + offset, into.size()); });
  }
  void write(std::uint64_t offset, std::span<const std::byte> from, Durability durability, IoCallback done) override {
    ++counts.writes;
    counts.durable_writes += durability == Durability::durable;
    put({offset, from.size()}, from, durability, std::move(done), nullptr);
  }
  void write_zeroes(Extent extent, Durability durability, IoCallback done) override {
    auto zeros = std::make_shared<std::vector<std::byte>>(extent.length);
    const std::span<const std::byte> from(*zeros);
    put(extent, from, durability, std::move(done), std::move(zeros));
  }
  void discard(Extent extent, Durability durability, IoCallback done) override {
    write_zeroes(extent, durability, std::move(done));
  }
  void flush(IoCallback done) override {
    ++counts.flushes;
    add('f', {}, std::move(done), [this] { stable_ = now_; });
  }

  [[nodiscard]] std::size_t waiting() const { return queue_.size(); }
  [[nodiscard]] int max_writes_in_flight() const { return max_in_flight_; }
  void reset_max() { max_in_flight_ = writes_in_flight_; }
  /// Lets the oldest operation through.
  void step() {
    Op op = std::move(queue_.front());
    queue_.pop_front();
    if (fail(op.kind, op.extent)) {
      if (op.kind == 'w') forget(op.extent);
      return op.done(Errc::io_error);
    }
    op.effect();
    op.done({});
  }
  void run() {
    while (!queue_.empty()) step();
  }
  /// Power fails: callbacks never run, what was not made durable is lost, and of a write under way the first
  /// `torn_sectors` sectors are on the disk all the same.
  void cut_power(std::size_t torn_sectors = 0) {
    for (const Pending& p : pending_writes_) {
      const std::size_t bytes = std::min<std::size_t>(p.extent.length, torn_sectors * kSector);
      std::memcpy(stable_.data() + p.extent.offset, p.data.data(), bytes);
    }
    queue_.clear();
    pending_writes_.clear();
    writes_in_flight_ = 0;
    now_ = stable_;
  }
  /// The process dies, the machine runs on: callbacks never run, and each write under way has reached the machine's
  /// cache, where it is read, but nothing of it the disk.
  void die() {
    for (const Pending& p : pending_writes_) apply(p.extent, p.data, Durability::cached);
    queue_.clear();
    pending_writes_.clear();
    writes_in_flight_ = 0;
  }
  /// The bytes as they stand, for looking and for spoiling.
  [[nodiscard]] std::span<std::byte> bytes() { return now_; }
  void keep_spoiled() { stable_ = now_; }

 private:
  struct Op {
    char kind;
    Extent extent;
    IoCallback done;
    std::function<void()> effect;
  };
  struct Pending {
    Extent extent;
    std::span<const std::byte> data;
  };
  void put(Extent extent, std::span<const std::byte> from, Durability durability, IoCallback done,
           std::shared_ptr<void> keep) {
    max_in_flight_ = std::max(max_in_flight_, ++writes_in_flight_);
    pending_writes_.push_back({extent, from});
    add('w', extent, std::move(done), [this, extent, from, durability, keep = std::move(keep)] {
      forget(extent);
      apply(extent, from, durability);
    });
  }
  void forget(Extent extent) {
    --writes_in_flight_;
    std::erase_if(pending_writes_, [&](const Pending& p) { return p.extent == extent; });
  }
  void add(char kind, Extent extent, IoCallback done, std::function<void()> effect) {
    if (!extent.fits(info_.size)) {
      effect = [] {};
      done = [inner = std::move(done)](std::error_code) mutable { inner(Errc::out_of_range); };
    }
    queue_.push_back({kind, extent, std::move(done), std::move(effect)});
  }
  void apply(Extent extent, std::span<const std::byte> from, Durability durability) {
    std::memcpy(now_.data() + extent.offset, from.data(), from.size());
    if (durability == Durability::durable) std::memcpy(stable_.data() + extent.offset, from.data(), from.size());
  }

  StoreInfo info_;
  std::vector<std::byte> stable_, now_;
  std::deque<Op> queue_;
  std::vector<Pending> pending_writes_;
  int writes_in_flight_ = 0;
  int max_in_flight_ = 0;
};

}  // namespace lockstep::engine
