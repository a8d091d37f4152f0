#include "tests/simulation/sim_store.hpp"

#include <algorithm>
#include <cstring>

namespace lockstep::simulation {

using engine::Durability;
using engine::Errc;
using engine::Extent;
using engine::IoCallback;

Image::Image(std::size_t size)
    : bytes_(static_cast<std::byte*>(std::calloc(std::max<std::size_t>(size, 1), 1))), size_(size) {
  if (!bytes_) throw std::bad_alloc();
}

Image::Image(const Image& from) : Image(from.size_) { std::ranges::copy(from, data()); }

Image& Image::operator=(const Image& from) {
  Image copy(from);
  std::swap(bytes_, copy.bytes_);
  std::swap(size_, copy.size_);
  return *this;
}

SimStore::SimStore(World world, SimRandom random, Owner owner, std::string name, std::uint64_t size)
    : scheduler_(world.scheduler),
      trace_(world.trace),
      verdict_(world.verdict),
      random_(random),
      owner_(owner),
      cached_(size),
      stable_(size) {
  info_.size = size;
  info_.block_size = kSector;
  info_.discard_granularity = kGranule;
  info_.reads_zero_when_new = true;
  info_.knows_holes = true;
  info_.reserves = true;
  info_.name = std::move(name);
  version_.resize(size / kSector);
  state_.resize(size / kSector, Sector::clean);
  listed_.resize(size / kSector);
  lost_.resize(size / kSector);
  lost_if_power_fails_.resize(size / kSector);
  allocated_.resize(size / kGranule + 1);
  set_aside_.resize(size / kGranule + 1);
}

std::uint32_t SimStore::begin(Kind kind, std::uint64_t offset, std::uint64_t length, bool durable, IoCallback done) {
  std::uint32_t slot;
  if (free_.empty()) {
    slot = static_cast<std::uint32_t>(ops_.size());
    ops_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Op& op = ops_[slot];
  op.kind = kind;
  op.live = true;
  op.hung = false;
  op.number = ++begun_;
  op.durable = durable;
  op.losses = losses_;
  op.refused = refuses_writes_ && kind != Kind::read;
  op.halves_applied = 0;
  op.offset = offset;
  op.length = length;
  op.status = {};
  op.hash = 0;
  op.done = std::move(done);
  ++in_flight_;
  return slot;
}

void SimStore::schedule(std::uint32_t slot, std::uint32_t error_chance) {
  Op& op = ops_[slot];
  if (op.refused) op.status = Errc::io_error;
  if (!op.status && !Extent{op.offset, op.length}.fits(info_.size)) op.status = Errc::out_of_range;
  if (!op.status && (op.offset % kSector != 0 || op.length % kSector != 0)) op.status = Errc::misaligned;
  const bool valid = !op.status;
  if (valid && error_chance != 0 && random_.chance(error_chance)) {
    op.status = Errc::io_error;
    ++failed_;
  }
  const bool takes_space = op.kind == Kind::write || op.kind == Kind::zero;
  if (!op.status && takes_space && faults_.pool_full != 0 && random_.chance(faults_.pool_full)) {
    op.status = Errc::no_space;
  }
  if (!valid) op.halves_applied = 3;  // nothing of it may happen
  if (faults_.hang != 0 && random_.chance(faults_.hang)) {
    op.hung = true;
    trace_.add(letter(owner_), "store.hang", {{"kind", static_cast<std::uint64_t>(op.kind)}, {"at", op.offset}});
    return;
  }
  const Nanos took = random_.skewed(20 * kMicrosecond, faults_.slowest);
  if (op.kind != Kind::read && op.kind != Kind::flush && valid) {
    // The halves may reach the disk on their own, before the completion and in any order; an error may leave one
    // behind.
    for (unsigned half = 0; half < 2; ++half) {
      if (random_.chance(250'000)) {
        scheduler_.after(random_.below(took), Owner::world, &SimStore::on_apply, this, (key(slot) << 1) | half);
      }
    }
  }
  scheduler_.after(took, owner_, &SimStore::on_complete, this, key(slot));
}

void SimStore::read(std::uint64_t offset, std::span<std::byte> into, IoCallback done) {
  if (!open_) return;
  const auto slot = begin(Kind::read, offset, into.size(), false, std::move(done));
  ops_[slot].into = into;
  schedule(slot, faults_.read_error);
}

void SimStore::write(std::uint64_t offset, std::span<const std::byte> from, Durability durability, IoCallback done) {
  submit_write(Kind::write, {offset, from.size()}, from, durability, std::move(done));
}

void SimStore::write_zeroes(Extent extent, Durability durability, IoCallback done) {
  submit_write(Kind::zero, extent, {}, durability, std::move(done));
}

void SimStore::discard(Extent extent, Durability durability, IoCallback done) {
  submit_write(Kind::discard, extent, {}, durability, std::move(done));
}

void SimStore::submit_write(Kind kind, Extent extent, std::span<const std::byte> from, Durability durability,
                            IoCallback done) {
  if (!open_) return;
  const auto slot = begin(kind, extent.offset, extent.length, durability == Durability::durable, std::move(done));
  Op& op = ops_[slot];
  op.from = from;
  op.hash = hash_bytes(from);
  if (faults_.full && kind != Kind::discard && extent.fits(info_.size) && !has_space(extent)) {
    op.status = Errc::no_space;
    op.halves_applied = 3;
    if (expects_reserved_) {
      verdict_.fail("node " + std::string(1, letter(owner_)) + " writes to " + info_.name + " at offset " +
                    std::to_string(extent.offset) + " where no space was set aside, and there is none");
    }
  }
  if (extent.fits(info_.size) && lacks_the_rest(extent)) {
    op.status = Errc::io_error;
    op.halves_applied = 3;
    ++failed_;
  }
  schedule(slot, faults_.write_error);
}

void SimStore::reserve(Extent extent, IoCallback done) {
  if (!open_) return;
  const auto slot = begin(Kind::reserve, extent.offset, extent.length, false, std::move(done));
  Op& op = ops_[slot];
  if (faults_.full && extent.fits(info_.size) && !has_space(extent)) {
    op.status = Errc::no_space;
    op.halves_applied = 3;
  }
  schedule(slot, faults_.write_error);
}

void SimStore::flush(IoCallback done) {
  if (!open_) return;
  const auto slot = begin(Kind::flush, 0, 0, false, std::move(done));
  Op& op = ops_[slot];
  op.flushed.clear();
  for (const std::uint32_t sector : dirty_) {
    if (op.refused) break;
    const bool applied = flushes_what_is_applied_ && state_[sector] == Sector::applied;
    if (applied || state_[sector] == Sector::completed) op.flushed.emplace_back(sector, version_[sector]);
  }
  ++flushing_;
  schedule(slot, faults_.flush_error);
}

engine::StoreRun SimStore::run_at(std::uint64_t offset) const {
  const bool kept = allocated_[offset / kGranule];
  std::uint64_t end = offset / kGranule * kGranule;
  while (end < info_.size && allocated_[end / kGranule] == kept) end += kGranule;
  return {std::min(end, info_.size) - offset, !kept};
}

/// Takes as long as a read does, and fails as one.
void SimStore::next_run(std::uint64_t offset, engine::RunCallback done) {
  read(offset, {}, [this, offset, done = std::move(done)](std::error_code error) mutable {
    done(error ? engine::IoResult<engine::StoreRun>(std::unexpected(error)) : run_at(offset));
  });
}

bool SimStore::has_space(const Extent& extent) const {
  for (std::uint64_t g = extent.offset / kGranule; g * kGranule < extent.end(); ++g) {
    if (!allocated_[g]) return false;
  }
  return true;
}

void SimStore::on_apply(void* self, std::uint64_t argument) {
  auto& store = *static_cast<SimStore*>(self);
  const auto slot = static_cast<std::uint32_t>(argument >> 1) & 0x7fffffffu;
  Op& op = store.ops_[slot];
  if (store.still_) return;  // all of it happens when it completes
  if (!op.live || ((std::uint64_t{op.generation} << 32) | slot) << 1 != (argument & ~std::uint64_t{1})) return;
  store.apply(op, static_cast<unsigned>(argument & 1));
}

void SimStore::apply(Op& op, unsigned half) {
  if (op.halves_applied & (1u << half)) return;
  op.halves_applied |= static_cast<std::uint8_t>(1u << half);
  if (op.kind == Kind::reserve) return take_space({op.offset, op.length});
  if (op.kind == Kind::renew) return half == 0 ? scramble() : void();
  const auto first = static_cast<std::uint32_t>(op.offset / kSector);
  const auto count = static_cast<std::uint32_t>(op.length / kSector);
  const std::uint32_t middle = count / 2;
  const std::uint32_t begin_at = half == 0 ? 0 : middle;
  const std::uint32_t end_at = half == 0 ? middle : count;
  static constexpr std::byte kZeroes[kSector] = {};
  for (std::uint32_t i = begin_at; i < end_at; ++i) {
    const std::byte* bytes = op.kind == Kind::write ? op.from.data() + std::size_t{i} * kSector : kZeroes;
    apply_sector(first + i, bytes);
  }
  if (op.kind == Kind::discard) {
    for (std::uint64_t g = (op.offset + kGranule - 1) / kGranule; (g + 1) * kGranule <= op.offset + op.length; ++g) {
      allocated_[g] = false;
    }
  } else if (op.length != 0) {
    for (std::uint64_t g = op.offset / kGranule; g * kGranule < op.offset + op.length; ++g) allocated_[g] = true;
  }
}

/// As what was encrypted is read with another key: noise where there was something, in sectors of zeros nothing.
void SimStore::scramble() {
  const auto mix = [this](Image& image) {
    for (std::size_t at = 0; at < image.size(); at += kSector) {
      const std::span sector = std::span(image).subspan(at, kSector);
      if (std::ranges::all_of(sector, [](std::byte b) { return b == std::byte{0}; })) continue;
      for (std::byte& b : sector) b = static_cast<std::byte>(1 + random_.below(255));
    }
  };
  mix(cached_);
  mix(stable_);
}

void SimStore::renew_key(IoCallback done) {
  if (!open_) return;
  const auto slot = begin(Kind::renew, 0, info_.size, true, std::move(done));
  schedule(slot, faults_.write_error);
}

void SimStore::take_space(const Extent& extent) {
  for (std::uint64_t g = extent.offset / kGranule; g * kGranule < extent.end(); ++g) {
    if (!allocated_[g]) allocated_[g] = set_aside_[g] = true;
  }
}

void SimStore::apply_sector(std::uint32_t sector, const std::byte* bytes) {
  std::byte* cached = cached_.data() + std::size_t{sector} * kSector;
  const Sector was = state_[sector];
  // The disk may write an old value back on its own before it is overwritten; while a flush is under way it must have.
  if (was == Sector::completed && (flushing_ != 0 || random_.chance(100'000))) settle(sector);
  if (was == Sector::applied && flushing_ != 0 && flushes_what_is_applied_) settle(sector);
  std::memcpy(cached, bytes, kSector);
  lost_[sector] = false;
  ++version_[sector];
  if (!listed_[sector]) {
    listed_[sector] = true;
    dirty_.push_back(sector);
  }
  // A durable write is stable only once it is complete; until then it is as easily lost as any other.
  state_[sector] = Sector::applied;
}

void SimStore::settle(std::uint32_t sector) {
  std::memcpy(stable_.data() + std::size_t{sector} * kSector, cached_.data() + std::size_t{sector} * kSector, kSector);
  set_aside_[std::size_t{sector} * kSector / kGranule] = false;
  lost_if_power_fails_[sector] = lost_[sector];
}

void SimStore::on_complete(void* self, std::uint64_t argument) {
  auto& store = *static_cast<SimStore*>(self);
  const auto slot = static_cast<std::uint32_t>(argument);
  const Op& op = store.ops_[slot];
  if (!op.live || store.key(slot) != argument) return;
  store.still_ ? store.held_back_.push_back(argument) : store.complete(slot);
}

void SimStore::stand_still() {
  trace_.add(letter(owner_), "store.stands_still", {{"in_flight", in_flight_}});
  still_ = true;
}

void SimStore::go_on() {
  if (!still_) return;
  still_ = false;
  trace_.add(letter(owner_), "store.goes_on", {{"held", held_back_.size()}});
  const auto number = [this](std::uint64_t held) { return ops_[static_cast<std::uint32_t>(held)].number; };
  std::ranges::sort(held_back_, {}, number);
  Nanos wait = 0;
  for (const std::uint64_t held : held_back_) {
    scheduler_.after(wait += random_.between(1, 20 * kMicrosecond), owner_, &SimStore::on_complete, this, held);
  }
  held_back_.clear();
}

void SimStore::refuse_writes() {
  trace_.add(letter(owner_), "store.refuses_writes", {});
  ++losses_;
  refuses_writes_ = true;
}

void SimStore::take_writes_again() { refuses_writes_ = false; }

/// What is zeroed durably is flushed behind that.
bool SimStore::sync_fails(const Op& op) {
  const bool syncs = op.durable && (op.kind == Kind::zero || op.kind == Kind::discard);
  return syncs && faults_.flush_error != 0 && random_.chance(faults_.flush_error);
}

void SimStore::complete(std::uint32_t slot) {
  Op& op = ops_[slot];
  // What was lost meanwhile may be some of it.
  if (!op.status && (op.durable || op.kind == Kind::flush) && op.losses != losses_) op.status = Errc::io_error;
  if (!op.status && sync_fails(op)) {
    op.status = Errc::io_error;
    ++failed_;
    refuse_writes();
  } else if (op.kind == Kind::flush && op.status && !op.refused) {
    refuse_writes();
  }
  switch (op.kind) {
    case Kind::read:
      if (!op.status && loses_some_of({op.offset, op.length})) {
        op.status = Errc::io_error;
        ++failed_;
      }
      if (!op.status && op.length != 0) std::memcpy(op.into.data(), cached_.data() + op.offset, op.length);
      break;
    case Kind::write:
    case Kind::zero:
    case Kind::discard:
      finish_write(op);
      break;
    case Kind::flush:
      finish_flush(op);
      break;
    case Kind::reserve:
    case Kind::renew:
      if (!op.status || (op.kind == Kind::renew && random_.chance(300'000))) apply(op, 0);
      break;
  }
  static constexpr std::string_view kNames[] = {"read", "write", "zero", "discard", "flush", "reserve", "renew"};
  trace_.add(letter(owner_), info_.name + '.' + std::string(kNames[static_cast<unsigned>(op.kind)]),
             {{"at", op.offset},
              {"bytes", op.length},
              {"error", static_cast<std::uint64_t>(op.status.value())},
              {"hash", op.kind == Kind::read && !op.status ? hash_bytes(op.into) : op.hash}});
  const std::error_code status = op.status;
  IoCallback done = std::move(op.done);
  release(slot);
  done(status);
}

void SimStore::finish_write(Op& op) {
  if (op.kind == Kind::write && hash_bytes(op.from) != op.hash) {
    verdict_.fail("a buffer was changed while the store " + info_.name + " was writing it, at offset " +
                  std::to_string(op.offset));
  }
  if (op.status) {
    for (unsigned half = 0; half < 2; ++half) {
      if (random_.chance(300'000)) apply(op, half);
    }
    return;
  }
  apply(op, 0);
  apply(op, 1);
  for (std::uint64_t s = op.offset / kSector; s < (op.offset + op.length) / kSector; ++s) {
    if (op.durable) {
      // An overlapping write may have come in between the apply and now: covering it too is a disk's right.
      settle(static_cast<std::uint32_t>(s));
      state_[s] = Sector::clean;
    } else if (state_[s] == Sector::applied) {
      state_[s] = Sector::completed;
    }
  }
}

void SimStore::finish_flush(Op& op) {
  --flushing_;
  for (const auto& [sector, version] : op.flushed) {
    if (version_[sector] != version) continue;
    if (flushes_what_is_applied_ && state_[sector] == Sector::applied && !op.status) settle(sector);
    if (state_[sector] != Sector::completed) continue;
    if (op.status) {
      state_[sector] = Sector::ghost;  // the cache lets go of what it could not write: later flushes do not cover it
    } else {
      settle(sector);
      state_[sector] = Sector::clean;
    }
  }
  std::erase_if(dirty_, [this](std::uint32_t sector) {
    if (state_[sector] == Sector::clean) listed_[sector] = false;
    return state_[sector] == Sector::clean;
  });
}

void SimStore::release(std::uint32_t slot) {
  Op& op = ops_[slot];
  op.live = false;
  op.done = nullptr;
  ++op.generation;
  op.generation &= 0x3fffffffu;
  free_.push_back(slot);
  --in_flight_;
}

void SimStore::release_hung() {
  for (std::uint32_t slot = 0; slot < ops_.size(); ++slot) {
    if (!ops_[slot].live || !ops_[slot].hung) continue;
    ops_[slot].hung = false;
    scheduler_.after(random_.below(5 * kMillisecond), owner_, &SimStore::on_complete, this, key(slot));
  }
}

void SimStore::release_first_hung() {
  const auto hangs = [](const Op& op) { return op.live && op.hung; };
  auto first = std::ranges::find_if(ops_, hangs);
  for (auto op = first; op != ops_.end(); ++op) {
    if (hangs(*op) && op->number < first->number) first = op;
  }
  if (first == ops_.end()) return;
  first->hung = false;
  const auto slot = static_cast<std::uint32_t>(first - ops_.begin());
  scheduler_.after(0, owner_, &SimStore::on_complete, this, key(slot));
}

}  // namespace lockstep::simulation
