#include "iscsi_target/session/data_buffers.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::iscsi_target {

using engine::Buffer;
using engine::BufferPool;

DataBuffers::DataBuffers(engine::Clock& clock, engine::BufferPool& pool)
    : clock_(clock), pool_(pool), share_(budgets(pool)) {}

DataBuffers::~DataBuffers() {
  clock_.cancel(serve_timer_);
  clock_.cancel(look_timer_);
}

// A quarter of each zone is kept from the hosts: for the mirror, for encryption, for copies and for what comes unasked.
// These have no use for a zone of large buffers only, or do without.
std::array<std::size_t, FairShare::kMaxZones> DataBuffers::budgets(const BufferPool& pool) {
  std::array<std::size_t, FairShare::kMaxZones> out{};
  const std::size_t medium = pool.zone_of(BufferPool::kMaxMedium);
  for (std::size_t zone = 0; zone < pool.zones(); ++zone) {
    const std::size_t capacity = pool.zone_capacity(zone);
    out[zone] = zone > medium ? capacity : capacity - capacity / 4;
  }
  out[kStashZone] = pool.zone_capacity(medium) / 8;
  return out;
}

void DataBuffers::join(BufferUser& user, const std::string& name, const std::string& address) {
  FairShare::join(user, names_[name], addresses_[address]);
  users_.push_back(&user);
}

void DataBuffers::leave(BufferUser& user) {
  FairShare::leave(user);
  std::erase(users_, &user);
  const auto is_left = [](const auto& entry) { return entry.second.members == 0; };
  std::erase_if(names_, is_left);
  std::erase_if(addresses_, is_left);
}

Buffer DataBuffers::take_or_wait(FairShare::Claim& claim, std::size_t bytes) {
  Buffer buffer;
  if (bytes > BufferPool::kMaxBuffer) return buffer;
  claim.bytes = BufferPool::block_size(bytes);
  claim.zone = static_cast<std::uint8_t>(pool_.zone_of(bytes));
  if (claim.bytes > share_.budget(claim.zone)) return buffer;
  if (share_.may_have(claim)) [[likely]] {
    buffer = pool_.allocate(bytes);
    if (buffer) [[likely]] {
      share_.grant(claim);
      return buffer;
    }
    share_.found_dry(claim.zone);
  }
  share_.wait(claim);
  look_later();
  return buffer;
}

Buffer DataBuffers::take_stash(FairShare::Claim& claim, std::size_t bytes) {
  claim.bytes = BufferPool::block_size(bytes);
  claim.zone = kStashZone;
  Buffer buffer;
  if (claim.bytes > share_.budget(kStashZone) || !share_.may_have(claim)) return buffer;
  buffer = pool_.allocate(bytes);
  if (buffer) share_.grant(claim);
  return buffer;
}

void DataBuffers::give_back(FairShare::Claim& claim) {
  share_.give_back(claim);
  // Later: memory comes back in the midst of whatever a session does with its commands.
  if (!share_.anybody_waits() || serve_timer_ != engine::TimerId::none) return;
  serve_timer_ = clock_.call_after(engine::Duration{0}, [this] {
    serve_timer_ = engine::TimerId::none;
    serve();
  });
}

void DataBuffers::serve() {
  for (std::size_t zone = 0; zone < pool_.zones(); ++zone) serve(zone);
}

void DataBuffers::serve(std::size_t zone) {
  while (FairShare::Claim* const claim = share_.next(zone)) {
    Buffer buffer = pool_.allocate(claim->bytes);
    if (!buffer) return share_.found_dry(zone);
    share_.grant(*claim);
    static_cast<BufferUser*>(claim->member)->buffer_ready(*claim, std::move(buffer));
  }
}

void DataBuffers::look_later() {
  if (look_timer_ != engine::TimerId::none) return;
  look_timer_ = clock_.call_after(kLook, [this] {
    look_timer_ = engine::TimerId::none;
    look();
  });
}

void DataBuffers::look() {
  // Memory may have come back that no session had: the mirror's, a copy's.
  serve();
  const auto least = share_.least_held_by_waiting();
  for (std::size_t i = 0; i < users_.size(); ++i) {
    BufferUser& user = *users_[i];
    user.look(std::ranges::mismatch(user.held, least, std::less_equal{}).in1 != user.held.end());
  }
  if (share_.anybody_waits()) look_later();
}

}  // namespace lockstep::iscsi_target
