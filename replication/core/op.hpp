#pragma once
// One operation of at most kMaxPiece bytes of data on its way through a mirror: a piece of an initiator's request, or
// a request that the partner forwarded. Pooled; in exactly one list at any time.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <system_error>

#include "engine/disk.hpp"
#include "engine/locks/range_lock.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "engine/scsi/ended_tasks.hpp"
#include "engine/scsi/lu_state.hpp"
#include "engine/seams/clock.hpp"
#include "replication/core/pool.hpp"
#include "replication/core/receipt.hpp"

namespace lockstep::replication {

struct ForwardEntry;
class Sequencer;

/// An initiator's request while its pieces are under way.
struct Parent {
  engine::DiskRequest* request = nullptr;
  Receipt receipt{};
  unsigned pieces = 0;
  bool cancelled = false;  ///< its submitter gave it up: nothing of it is started, or held, any more
  unsigned turn = 0;       ///< that it began in (completions.hpp)
};

/// How much longer a store may take than for an ordinary operation: one without a quick way to zero writes the range.
[[nodiscard]] inline engine::Duration allowance(engine::DiskOpcode opcode, engine::Extent extent) {
  using engine::DiskOpcode;
  constexpr std::uint64_t kSlowest = std::uint64_t{32} << 20;  // bytes a second
  const bool ranges =
      opcode == DiskOpcode::write_zeroes || opcode == DiskOpcode::unmap || opcode == DiskOpcode::write_same;
  return std::chrono::seconds(ranges ? extent.length / kSlowest : 0);
}

/// Carried out late, or twice, it does no harm.
[[nodiscard]] constexpr bool changes_nothing(engine::DiskOpcode opcode) {
  using engine::DiskOpcode;
  return opcode == DiskOpcode::read || opcode == DiskOpcode::verify || opcode == DiskOpcode::find_run ||
         opcode == DiskOpcode::read_state || opcode == DiskOpcode::check_access || opcode == DiskOpcode::flush;
}

/// On the unit's state, not on its blocks.
[[nodiscard]] constexpr bool on_state(engine::DiskOpcode opcode) {
  using engine::DiskOpcode;
  return opcode == DiskOpcode::change_state || opcode == DiskOpcode::read_state || opcode == DiskOpcode::check_access;
}

enum class Stage : std::uint8_t {
  held,          ///< waits for a transition to end
  equal_wait,    ///< its regions are being made equal first
  lock_wait,     ///< waits for its range
  lease_wait,    ///< the epoch is new and no lease has come yet
  confirm_wait,  ///< was read, and waits for the partner's word that this node is still a member
  reading,       ///< local read (or compare) under way
  reserving,     ///< space is being set aside, here or at the partner
  reserve_wait,  ///< the partner is to be asked for space, and can't be now
  marking,       ///< dirty bits are being made durable
  issued,        ///< written here and sent to the partner: cannot be taken back
  fetching,      ///< being read from the partner after a local read error
  repairing,     ///< what was fetched is being rewritten here
  forward_wait,  ///< to be sent to the sequencer
  forwarded,     ///< sent to the sequencer
};

enum class Remote : std::uint8_t { none, wanted, sent, done };

struct Op {
  Hook<Op> hook;
  Hook<Op> link_hook;  ///< while it waits for its volume's turn on the link
  Parent* parent = nullptr;
  ForwardEntry* entry = nullptr;  ///< the partner's
  engine::DiskOpcode opcode{};
  bool fua = false;
  bool may_unmap = false;
  engine::Extent extent;
  std::span<std::byte> data;
  std::uint64_t nexus = 0;
  const scsi::NexusKey* port = nullptr;  ///< an initiator's, of this node
  scsi::AccessClass access{};

  // Under which state of the logical unit it was checked (lu_state_keeper.hpp):
  std::uint64_t state_version = 0;
  bool passed = false;                      ///< counted there
  engine::Errc refusal = engine::Errc::ok;  ///< what it is refused for, once the node that orders confirms the version
  std::array<std::byte, scsi::kLuAnswerSize> lu_answer{};
  std::size_t transferred = 0;  ///< bytes of `data` that are the answer

  std::error_code status;
  std::uint64_t miscompare_offset = 0;

  Stage stage = Stage::held;
  bool dropped = false;    ///< ends with an error as soon as nothing uses it
  bool unsettled = false;  ///< lost with the way out: the partner may have begun it, or be reading it still
  engine::RangeLock::Node lock;
  Sequencer* sequencer = nullptr;  ///< while it waits for its range
  engine::Buffer scratch;
  engine::Extent part;           ///< what is being read of it, or rewritten: all, or one block; or whole physical ones
  bool unreadable_here = false;  ///< this member's store could not read it: the one that orders was asked
  engine::TimePoint since;       ///< when the local store got it, or, as a forward, the link
  Receipt receipt{};             ///< an initiator's

  // As the sequencer's:
  std::uint64_t sequence = 0;  ///< given when it is sent for the first time
  bool tracked = false;        ///< counted by the region tracker
  bool room_here = false;      ///< space was set aside for it
  bool room_there = false;     ///< … at the partner
  bool local_busy = false;
  std::error_code local_error;
  Remote remote = Remote::none;
  std::error_code remote_error;
  std::span<const std::byte> payload;  ///< what is stored: `data`, or its second half
  bool with_data = false;              ///< the partner has not got the data that its order referred to

  // As a forward:
  std::uint64_t tag = 0;
  std::uint64_t acknowledges = 0;  ///< another tag, whose answer came, that it carries
  engine::Uuid sent_to;            ///< the process of the partner's that it was sent to
  bool in_window = false;          ///< the sequencer may keep its result
  bool on_link = false;            ///< the link holds its buffer
  bool on_share = false;           ///< … and its volume's share of the link's budget counts it,
  std::uint64_t link_bytes = 0;    ///< … with so much
  bool sent_before = false;        ///< the sequencer may have carried it out
  bool sent_outside = false;       ///< … while this node was no member, so that it need not have seen the order
  bool ordered = false;            ///< the sequencer has begun it, and keeps its range: it says so, or the order came
  bool half_done = false;          ///< the sequencer's store has it; the order is on its way, or carried out here
  bool applied_here = false;       ///< the order was carried out: it is in this member's store

  /// On the logical unit's state, not on its blocks.
  [[nodiscard]] bool on_state() const { return replication::on_state(opcode); }
  [[nodiscard]] bool reads() const {
    return opcode == engine::DiskOpcode::read || opcode == engine::DiskOpcode::verify ||
           opcode == engine::DiskOpcode::find_run;
  }
  /// The store has had it for too long when it got it before `limit`. A look for holes may take as long as it likes.
  [[nodiscard]] bool is_overdue(engine::TimePoint limit) const {
    return opcode != engine::DiskOpcode::find_run && since + allowance(opcode, extent) < limit;
  }
  /// The answer of find_run.
  void take_run(engine::Run run) {
    const auto bytes = engine::encode(engine::Run{std::min(run.length, extent.length), run.hole});
    std::ranges::copy(bytes, data.begin());
    transferred = bytes.size();
  }
  /// Not knowing is no reason to fail anything: it is kept, as far as anybody can tell.
  void take_unknown_run() { take_run({extent.length, false}); }
  [[nodiscard]] bool cancelled() const { return parent && parent->cancelled; }
  /// Begun by an initiator of this node, whose request has ended.
  [[nodiscard]] bool outlives_its_request() const { return !parent && !entry; }
};

/// Some of the operations that a mirror holds.
class Selection {
 public:
  static Selection all() { return Selection(Kind::all); }
  /// Those of this node's own initiators / of the partner's.
  static Selection own() { return Selection(Kind::own); }
  static Selection partners() { return Selection(Kind::partners); }
  static Selection of(const Parent& parent) {
    Selection s(Kind::one);
    s.parent_ = &parent;
    return s;
  }
  static Selection of(const ForwardEntry& entry) {
    Selection s(Kind::one);
    s.entry_ = &entry;
    return s;
  }
  /// Own operations that were received before `moment`, may change something, and have not been carried out.
  static Selection received_before(engine::TimePoint moment) {
    Selection s(Kind::early);
    s.moment_ = moment;
    return s;
  }
  /// Own initiators' operations on blocks that a change of the unit's state with these events ends; only as long as
  /// `events` lives. A sanitize goes on (SBC-4 4.11.3).
  static Selection ended_by(std::span<const scsi::LuEvent> events) {
    Selection s(Kind::tasks);
    s.events_ = events;
    return s;
  }

  [[nodiscard]] bool covers(const Op& op) const {
    switch (kind_) {
      case Kind::all:
        return true;
      case Kind::own:
        return !op.entry;
      case Kind::partners:
        return op.entry != nullptr;
      case Kind::one:
        return parent_ ? op.parent == parent_ : op.entry == entry_;
      case Kind::early:
        return !op.entry && op.receipt.since < moment_ && !changes_nothing(op.opcode) && !op.applied_here;
      case Kind::tasks:
        return !op.entry && !op.on_state() && op.port && scsi::end_tasks_of(events_, *op.port);
    }
    return false;
  }
  /// What those of this node's own initiators are told. The partner's are told stale.
  [[nodiscard]] engine::Errc status() const {
    if (kind_ == Kind::early) return engine::Errc::resource_exhausted;
    return kind_ == Kind::tasks || kind_ == Kind::one ? engine::Errc::aborted : engine::Errc::not_serving;
  }
  /// The node serves nothing of this volume any more, whoever asks.
  [[nodiscard]] bool is_all() const { return kind_ == Kind::all; }
  [[nodiscard]] bool is_one() const { return kind_ == Kind::one; }

 private:
  enum class Kind : std::uint8_t { all, own, partners, one, early, tasks };
  explicit Selection(Kind kind) : kind_(kind) {}
  Kind kind_;
  const Parent* parent_ = nullptr;
  const ForwardEntry* entry_ = nullptr;
  engine::TimePoint moment_;
  std::span<const scsi::LuEvent> events_;
};

}  // namespace lockstep::replication
