#pragma once
// The partner as a process: hello on every new way out, heartbeats, and how long its last answer holds. One a node.
//
// Contact: from the sending of a heartbeat that was answered, for the lease time. When it runs out, everything that
// this node holds for initiators and that needs the partner is dropped (on_contact_lost), and the way out is reset, so
// that nothing sent before arrives long after.
//
// The lease is one for both nodes: each tells its setting in hello and in each heartbeat, and the shorter counts, with
// the larger margin for drift. A partner of an earlier version tells none: it must be configured as this node is.
//
// It can be changed in use, in three steps that each node takes by itself, so that the two are never further apart than
// one (docs/developer/mirror.md):
//
//   lease 2 s                the one in force
//   lease 2 s, other 9 s     both may be held: whoever grants waits for the longer, nothing else trusts more than the
//   lease 9 s, other 2 s     shorter; `lease` is what this node holds
//   lease 9 s
//
// A process whose machine was set back with its memory (memory_watch.hpp) has no part in anything. The partner's is
// refused, hello and all, until another one comes. This one says nothing more, is in contact with nobody, and what it
// is over tells upwards: on_set_back().
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/result.hpp"
#include "replication/core/link_budget.hpp"
#include "replication/core/memory_watch.hpp"
#include "replication/core/messages.hpp"
#include "replication/core/node_settings.hpp"
#include "replication/core/phase.hpp"
#include "replication/core/pool.hpp"
#include "replication/core/receipt.hpp"
#include "replication/core/resync_governor.hpp"
#include "replication/core/stall_watch.hpp"

namespace lockstep::replication {

/// What a request's sender gets back: the decoded answer, whose own status may be an error, or that of the link.
[[nodiscard]] engine::IoResult<Message> read_answer(const engine::IoResult<LinkAnswer>& answer, MessageType type);
/// Ends an inbound request without payload.
void answer(InboundRequest& request, const Message& question, engine::Errc status);
void answer(
    InboundRequest& request, Message header, std::span<const std::byte> payload = {}, engine::Callback<> sent = [] {});

class PartnerUser {
 public:
  virtual ~PartnerUser() = default;
  virtual void on_connected() = 0;
  virtual void on_disconnected() = 0;
  virtual void on_partner_restarted() = 0;  ///< another process than the one known before
  virtual void on_contact_made() = 0;
  virtual void on_contact_lost() = 0;
  /// This process was set back to an earlier moment with its memory, and is to end: once. Nothing is answered to
  /// anybody from before the call on (Completions), nor said to the partner.
  virtual void on_set_back(const std::string& why) = 0;
  /// Another lease than before counts from now on: NodeSettings::lease, granted_lease and drift_percent are to be
  /// these.
  virtual void on_lease_agreed(engine::Duration lease, engine::Duration granted_lease, unsigned drift_percent) = 0;
  virtual void list_leases(std::vector<std::byte>& ids) = 0;  ///< appends volume id, epoch id for each wanted lease
  virtual void on_leases(std::span<const std::byte> ids, std::span<const std::byte> granted, const Lease& lease) = 0;
  [[nodiscard]] virtual bool grant_lease(const engine::Uuid& volume, const engine::Uuid& epoch) = 0;
};

class Partner {
 public:
  Partner(const NodeSettings& settings, NodeSeams& seams, PartnerUser& user);
  ~Partner();

  /// Another one is configured, by the steps above.
  void set_lease(engine::Duration lease, engine::Duration other);
  /// What this node holds on an answer of the partner's.
  [[nodiscard]] engine::Duration held_lease() const { return held_; }
  /// Whatever this node held by another one has run out since, and what it sent then is fresh to nobody.
  [[nodiscard]] bool lease_settled() const { return now() >= settled_at_; }
  /// Hello was answered on the present way out.
  [[nodiscard]] bool connected() const { return connected_; }
  [[nodiscard]] bool in_contact() const { return in_contact_ && now() < contact_until_; }
  /// When the partner last got an answer to a heartbeat: its contact with this node began no later.
  [[nodiscard]] engine::TimePoint answered_at() const { return answered_at_; }
  [[nodiscard]] engine::TimePoint now() const { return seams_.clock.now(); }
  /// Of a command that the program gets to see at `at`, which is now.
  [[nodiscard]] Receipt receipt(engine::TimePoint at);
  /// When it was taken.
  [[nodiscard]] bool is_older_than_lease(const Receipt& receipt) const {
    return receipt.taken - receipt.since > settings_.lease || receipt.since < vouched_from_;
  }
  /// How long ago that was; of what came before a gap that the clock did not see, longer than a lease.
  [[nodiscard]] engine::Duration age(const Receipt& receipt) const;
  /// To be called all the time: that it was not is how the program knows that it stood still.
  void watch_own_clock(engine::TimePoint at);
  /// It did until a moment ago.
  [[nodiscard]] bool is_catching_up() const { return stalls_.is_catching_up(); }
  [[nodiscard]] const engine::Uuid& process() const { return process_; }
  /// What the partner's clock showed, at the latest, when this node sent the heartbeat that its contact rests on: a
  /// forward that carries it was sent before this node could have dropped it.
  [[nodiscard]] std::uint64_t contact_stamp() const { return contact_stamp_; }
  /// True when a request with that stamp comes from a node that cannot have lost contact since.
  [[nodiscard]] bool is_fresh(std::uint64_t stamp) const;
  /// `stamp`, so much earlier that it is fresh for no longer than a lease from the receipt of a command of that age.
  [[nodiscard]] std::uint64_t stamp_less(std::uint64_t stamp, std::uint64_t age) const;
  [[nodiscard]] const std::string& refusal() const { return refusal_; }
  /// This process was set back with its memory.
  [[nodiscard]] bool set_back() const { return set_back_; }
  /// It is known by something that the two said: this process was.
  void found_set_back(const std::string& why);
  /// The same of that process of the partner's: it used for something else what it had used already.
  void found_partner_set_back(const engine::Uuid& process);

  /// `done` takes an IoResult<Message>; two pointers' worth of captures cost no allocation.
  template <class Done>
  void send(Message message, std::span<const std::byte> out, std::span<std::byte> in, Done done) {
    message.process = settings_.process;
    message.payload = static_cast<std::uint32_t>(out.size());
    const MessageBytes bytes = encode(message);
    seams_.link.send(bytes, out, in, [type = message.type, done = std::move(done)](auto result) mutable {
      done(read_answer(result, type));
    });
  }
  void reset() { seams_.link.reset(); }
  /// Of the way out, while that is up: what may be said there.
  [[nodiscard]] std::uint16_t link_version() const { return seams_.link.version(); }
  /// What of each volume may be on its way at once. Messages that are sent without a share are small, or rare.
  [[nodiscard]] LinkBudget& orders() { return orders_; }
  [[nodiscard]] LinkBudget& forwards() { return forwards_; }
  [[nodiscard]] LinkBudget& copies() { return copies_; }
  [[nodiscard]] ResyncPace& resyncs() { return resyncs_; }
  /// The initiators' sessions are about to be closed: nothing new is forwarded for them.
  [[nodiscard]] bool fencing() const { return fencing_; }
  void set_fencing(bool on) {
    fencing_ = on;
    hurried_ = false;
    if (on) ++closings_;
  }
  /// They are not closed, since the partner does not answer what was forwarded: its disk hangs. On another way nothing
  /// is waited for.
  void hurry_fencing() {
    hurried_ = true;
    reset();
  }
  [[nodiscard]] bool hurried() const { return hurried_; }
  /// How often sessions were to be closed.
  [[nodiscard]] std::uint64_t closings() const { return closings_; }
  void heartbeat_now() { (void)send_beat(); }
  /// Has the partner answer a heartbeat that is sent from now on; who asks while such a one is under way shares the
  /// next.
  void confirm();
  /// To be called at least every few milliseconds' worth of events: notices that contact has run out. The time at which
  /// it looked.
  engine::TimePoint check();

  void on_link_up();
  void on_link_down();
  void on_inbound_up(std::uint64_t session) {
    inbound_ = session, greeted_ = false;
    memory_.on_inbound_up();
  }
  void on_inbound_down(std::uint64_t session) { inbound_ = inbound_ == session ? 0 : inbound_; }
  /// True: the request was the node's own (hello, heartbeat) or is refused, and was answered.
  bool take(std::uint64_t session, InboundRequest& request, const Message& message);

 private:
  struct Beat;
  void say_hello();
  void on_hello_answer(std::uint64_t attempt, const engine::IoResult<Message>& result);
  void hello_refused(std::string why);
  void take_hello(std::uint64_t session, InboundRequest& request, const Message& message);
  void refuse_hello(InboundRequest& request, engine::Errc status);
  void take_heartbeat(InboundRequest& request, const Message& message);
  [[nodiscard]] std::uint64_t send_beat();
  void note_answered(const Beat& beat);
  void on_beat_answer(Beat& beat, const engine::IoResult<Message>& result);
  void meet(const Message& hello);
  void hear_lease(const Message& message);
  void agree_on_lease();
  void tell_count(Message& message);
  void tell_lease(Message& message) const;
  /// False: one of the two processes was set back, and what it says counts for nothing.
  bool look_at(MemoryWatch::Finding finding);
  void lose_partner();
  [[nodiscard]] bool was_set_back(const engine::Uuid& process) const {
    return !process.is_nil() && process == set_back_partner_;
  }
  void watch_clock(std::uint64_t its_stamp);
  void lose_contact();
  [[nodiscard]] std::uint64_t stamp() const { return static_cast<std::uint64_t>(now().since_origin.count()); }

  static constexpr std::size_t kMaxBeats = 8;

  const NodeSettings& settings_;
  engine::Duration own_lease_, other_lease_;  // as configured here: what counts may be shorter
  const unsigned own_drift_percent_;
  engine::Duration told_lease_{0};  // by the partner's process; 0: it told none
  unsigned told_drift_percent_ = 0;
  engine::Duration held_;
  engine::TimePoint settled_at_;
  NodeSeams& seams_;
  PartnerUser& user_;
  MemoryWatch memory_;
  bool set_back_ = false;
  engine::Uuid set_back_partner_;  ///< the process of the partner's that was; nil: none
  LinkBudget orders_, forwards_, copies_;
  ResyncPace resyncs_;
  engine::Uuid process_;
  std::uint64_t boot_ = 0;  // of its machine; 0: not known
  bool connected_ = false;
  bool in_contact_ = false;
  bool fencing_ = false, hurried_ = false;
  std::uint64_t closings_ = 0;
  std::uint64_t last_beat_ = 0;   // number of the heartbeat that was sent last
  std::uint64_t confirming_ = 0;  // number of the heartbeat under way that somebody waits for, 0: none,
  bool confirm_again_ = false;    // and one that is sent later is wanted, too
  bool greeted_ = false;          // the inbound session said hello
  std::uint64_t inbound_ = 0;
  std::uint64_t attempt_ = 0;
  engine::TimePoint hello_sent_;
  MemoryWatch::Heard heard_before_hello_;
  engine::TimePoint contact_until_;
  engine::TimePoint answered_at_;
  std::uint64_t contact_stamp_ = 0;
  std::uint64_t partner_stamp_ = 0;
  std::uint64_t heard_stamp_ = 0;  // the partner's clock in its last answer that took less than a lease,
  engine::TimePoint heard_at_;     // and this node's when it came
  StallWatch stalls_;
  engine::TimePoint vouched_from_;  // what this clock shows of the time before says nothing of how long ago that was
  std::string refusal_;
  std::vector<std::unique_ptr<Beat>> beats_;
  engine::TimerId hello_timer_{};
};

}  // namespace lockstep::replication
