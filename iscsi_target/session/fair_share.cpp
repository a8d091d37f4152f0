#include "iscsi_target/session/fair_share.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace lockstep::iscsi_target {

FairShare::FairShare(const std::array<std::size_t, kMaxZones>& budgets) {
  for (std::size_t i = 0; i < kMaxZones; ++i) zones_[i].budget = budgets[i];
}

void FairShare::join(Member& member, Host& name, Host& address) {
  assert(member.name == nullptr);
  member.name = &name;
  member.address = &address;
  ++name.members;
  ++address.members;
}

void FairShare::leave(Member& member) {
  assert(std::ranges::all_of(member.held, [](std::size_t held) { return held == 0; }));
  assert(std::ranges::all_of(member.queues, [](const auto& queue) { return queue.first == nullptr; }));
  --std::exchange(member.name, nullptr)->members;
  --std::exchange(member.address, nullptr)->members;
}

void FairShare::end_turn(Claim& claim) {
  Member& member = *claim.member;
  stop_waiting(claim);
  // The others' turn first.
  if (member.queues[claim.zone].first == nullptr) return;
  dequeue(member, claim.zone);
  enqueue(member, claim.zone);
}

void FairShare::wait(Claim& claim) {
  assert(claim.state == Claim::State::idle && claim.bytes <= zones_[claim.zone].budget);
  Member::Queue& queue = claim.member->queues[claim.zone];
  if (queue.first == nullptr) enqueue(*claim.member, claim.zone);
  claim.state = Claim::State::waiting;
  claim.next = nullptr;
  (queue.first == nullptr ? queue.first : queue.last->next) = &claim;
  queue.last = &claim;
  ++waiting_;
}

FairShare::Claim* FairShare::next(std::size_t zone) {
  Zone& in = zones_[zone];
  in.turn_is_open = false;
  for (const Member* member = in.first; member != nullptr; member = member->queues[zone].next) {
    Claim& claim = *member->queues[zone].first;
    if (is_within_bounds(claim)) return &claim;
    if (!host_holds_nothing(claim)) continue;
    in.turn_is_open = true;
    return nullptr;
  }
  return nullptr;
}

std::array<std::size_t, FairShare::kMaxZones> FairShare::least_held_by_waiting() const {
  std::array<std::size_t, kMaxZones> least{};
  for (std::size_t zone = 0; zone < kMaxZones; ++zone) {
    least[zone] = SIZE_MAX;
    for (const Member* member = zones_[zone].first; member != nullptr; member = member->queues[zone].next) {
      least[zone] = std::min(least[zone], member->held[zone]);
    }
  }
  return least;
}

void FairShare::enqueue(Member& member, std::size_t zone) {
  Zone& in = zones_[zone];
  Member::Queue& queue = member.queues[zone];
  queue.prev = in.last;
  queue.next = nullptr;
  (in.last == nullptr ? in.first : in.last->queues[zone].next) = &member;
  in.last = &member;
}

void FairShare::dequeue(Member& member, std::size_t zone) {
  Zone& in = zones_[zone];
  Member::Queue& queue = member.queues[zone];
  (queue.prev == nullptr ? in.first : queue.prev->queues[zone].next) = queue.next;
  (queue.next == nullptr ? in.last : queue.next->queues[zone].prev) = queue.prev;
  queue.prev = queue.next = nullptr;
}

void FairShare::stop_waiting(Claim& claim) {
  assert(claim.state == Claim::State::waiting);
  claim.state = Claim::State::idle;
  --waiting_;
  Member::Queue& queue = claim.member->queues[claim.zone];
  Claim* before = nullptr;
  for (Claim* at = queue.first; at != &claim; at = at->next) before = at;
  (before == nullptr ? queue.first : before->next) = claim.next;
  if (queue.last == &claim) queue.last = before;
  if (queue.first == nullptr) dequeue(*claim.member, claim.zone);
}

}  // namespace lockstep::iscsi_target
