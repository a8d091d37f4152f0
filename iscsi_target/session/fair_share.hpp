#pragma once
// Who may have how many bytes of the data buffers next. Knows no memory and no clock: it counts, and keeps who waits.
//
// The memory has zones (sizes that do not disturb one another), each with a budget. A claim is for so many bytes of one
// zone; it belongs to a session, the session to a host: by its initiator name, and by its address. Let F be what is
// free of the budget once the claim is granted. It is granted when
//   - the session then holds at most F, and its host at most 2 F, by its name and by its address; or
//   - the session held nothing, and its host then holds at most 4 F; or
//   - its host held nothing, by neither, and the budget is kept.
// So one session fills half of a zone and one host two thirds, however much it asks for; the next host two thirds of
// what is left; and a host's idle session is not kept out by its greedy ones. Where all are greedy they share alike.
// Within a zone sessions take turns, and a session's claims are granted in their order.
#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>

namespace lockstep::iscsi_target {

class FairShare {
 public:
  static constexpr std::size_t kMaxZones = 4;

  /// One initiator name, or one address.
  struct Host {
    std::array<std::size_t, kMaxZones> held{};  ///< bytes
    std::size_t members = 0;
  };

  struct Claim;

  /// A session.
  struct Member {
    Host* name = nullptr;  ///< by which host the initiator says it is
    Host* address = nullptr;
    std::array<std::size_t, kMaxZones> held{};  ///< bytes

   private:
    friend class FairShare;
    struct Queue {
      Claim* first = nullptr;
      Claim* last = nullptr;
      Member* prev = nullptr;  // members that wait for the zone
      Member* next = nullptr;
    };
    std::array<Queue, kMaxZones> queues;
  };

  /// Part of whatever needs the memory, and as long-lived.
  struct Claim {
    enum class State : std::uint8_t { idle, waiting, granted };
    Member* member = nullptr;
    std::size_t bytes = 0;
    std::uint8_t zone = 0;
    State state = State::idle;
    void* owner = nullptr;  ///< for whoever made it
    Claim* next = nullptr;
  };

  explicit FairShare(const std::array<std::size_t, kMaxZones>& budgets);

  static void join(Member& member, Host& name, Host& address);
  /// Has neither a claim waiting nor one granted.
  static void leave(Member& member);

  /// A claim of more than this is never granted.
  [[nodiscard]] std::size_t budget(std::size_t zone) const { return zones_[zone].budget; }
  /// An idle claim may be granted now, and passes nobody by whose turn it is.
  [[nodiscard]] bool may_have(const Claim& claim) const;
  void grant(Claim& claim);
  /// An idle claim waits for next() to come to it.
  void wait(Claim& claim);
  /// The claim whose turn it is, to be granted. Null: whoever waits is at its bound, and may be passed by; or one that
  /// is not waits for more than is free, and nobody passes it by.
  [[nodiscard]] Claim* next(std::size_t zone);
  /// Granted: its bytes are free again. Waiting: it does not wait any more. Idle: nothing.
  void give_back(Claim& claim);
  /// There was no memory for the claim whose turn it was: until some comes back, nobody passes it by.
  void found_dry(std::size_t zone) { zones_[zone].turn_is_open = true; }

  [[nodiscard]] bool anybody_waits() const { return waiting_ != 0; }
  /// For each zone how much the session holds that waits for it and has least; SIZE_MAX where none waits.
  [[nodiscard]] std::array<std::size_t, kMaxZones> least_held_by_waiting() const;

 private:
  struct Zone {
    std::size_t budget = 0;
    std::size_t held = 0;
    Member* first = nullptr;  // who waits, whose turn is next first
    Member* last = nullptr;
    bool turn_is_open = false;  // memory came back, or is short: who waits comes before who asks
  };
  [[nodiscard]] static bool host_holds_nothing(const Claim& claim);
  [[nodiscard]] bool is_free(const Claim& claim) const;
  [[nodiscard]] bool is_within_bounds(const Claim& claim) const;
  void enqueue(Member& member, std::size_t zone);
  void dequeue(Member& member, std::size_t zone);
  void stop_waiting(Claim& claim);
  void end_turn(Claim& claim);

  std::array<Zone, kMaxZones> zones_;
  std::size_t waiting_ = 0;
};

// What each command goes through is short and here.

inline bool FairShare::host_holds_nothing(const Claim& claim) {
  return claim.member->name->held[claim.zone] == 0 && claim.member->address->held[claim.zone] == 0;
}

inline bool FairShare::is_free(const Claim& claim) const {
  const Zone& zone = zones_[claim.zone];
  return claim.bytes <= zone.budget - zone.held;
}

inline bool FairShare::is_within_bounds(const Claim& claim) const {
  if (!is_free(claim)) return false;
  if (host_holds_nothing(claim)) return true;
  const Zone& zone = zones_[claim.zone];
  const Member& member = *claim.member;
  const std::size_t free = zone.budget - zone.held - claim.bytes;
  const std::size_t host = std::max(member.name->held[claim.zone], member.address->held[claim.zone]) + claim.bytes;
  const std::size_t session = member.held[claim.zone] + claim.bytes;
  if (member.held[claim.zone] == 0) return host <= 4 * free;
  return session <= free && host <= 2 * free;
}

inline bool FairShare::may_have(const Claim& claim) const {
  const Zone& zone = zones_[claim.zone];
  if (zone.first != nullptr && (zone.turn_is_open || claim.member->queues[claim.zone].first != nullptr)) return false;
  return is_within_bounds(claim);
}

inline void FairShare::grant(Claim& claim) {
  assert(claim.state != Claim::State::granted && claim.bytes <= zones_[claim.zone].budget - zones_[claim.zone].held);
  if (claim.state == Claim::State::waiting) [[unlikely]]
    end_turn(claim);
  claim.state = Claim::State::granted;
  zones_[claim.zone].held += claim.bytes;
  claim.member->held[claim.zone] += claim.bytes;
  claim.member->name->held[claim.zone] += claim.bytes;
  claim.member->address->held[claim.zone] += claim.bytes;
}

inline void FairShare::give_back(Claim& claim) {
  if (claim.state == Claim::State::idle) return;
  if (claim.state == Claim::State::waiting) [[unlikely]]
    return stop_waiting(claim);
  claim.state = Claim::State::idle;
  Zone& zone = zones_[claim.zone];
  assert(zone.held >= claim.bytes && claim.member->held[claim.zone] >= claim.bytes);
  zone.held -= claim.bytes;
  claim.member->held[claim.zone] -= claim.bytes;
  claim.member->name->held[claim.zone] -= claim.bytes;
  claim.member->address->held[claim.zone] -= claim.bytes;
  zone.turn_is_open = zone.first != nullptr;
}

}  // namespace lockstep::iscsi_target
