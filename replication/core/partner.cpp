#include "replication/core/partner.hpp"

#include <cstring>
#include <utility>

#include "replication/core/marks.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::IoResult;

engine::IoResult<Message> read_answer(const IoResult<LinkAnswer>& result, MessageType type) {
  if (!result) return std::unexpected(result.error());
  auto message = decode(result->header);
  if (!message) return message;
  if (!message->answer || message->type != type) return std::unexpected(make_error_code(Errc::corrupt));
  message->payload = static_cast<std::uint32_t>(result->payload_bytes);
  return message;
}

void answer(InboundRequest& request, Message header, std::span<const std::byte> payload, engine::Callback<> sent) {
  header.answer = true;
  header.payload = static_cast<std::uint32_t>(payload.size());
  const MessageBytes bytes = encode(header);
  request.answer(bytes, payload, std::move(sent));
}

void answer(InboundRequest& request, const Message& question, Errc status) {
  Message header;
  header.type = question.type;
  header.volume = question.volume;
  header.status = status;
  answer(request, header);
}

namespace {
constexpr engine::Duration kShortestLease = std::chrono::milliseconds(100);
constexpr engine::Duration kLongestLease = std::chrono::hours(1);
constexpr std::uint64_t kLargestDrift = 100;  ///< percent

bool tells_lease(const Message& message) { return message.number != 0; }

constexpr const char* kPartnerKnowsMore =
    "This machine was set back to a snapshot with its memory: the partner remembers what this process has yet to do.";
constexpr const char* kPartnerWasSetBack =
    "The partner's machine was set back to a snapshot with its memory. Its lockstepd has to end, which it does by "
    "itself where it is of this version; else restart it there.";

bool lease_makes_sense(const Message& message) {
  if (!tells_lease(message)) return true;
  const auto shortest = static_cast<std::uint64_t>(kShortestLease.count());
  const auto longest = static_cast<std::uint64_t>(kLongestLease.count());
  return message.number >= shortest && message.number <= longest && message.tag <= kLargestDrift;
}
}  // namespace

/// A heartbeat on its way or one being answered; its bytes outlive the link's use of them.
struct Partner::Beat {
  std::vector<std::byte> ids;
  std::vector<std::byte> granted;
  engine::TimePoint sent;
  std::uint64_t number = 0;  ///< rises with each that is sent
  std::uint64_t stamp = 0;
  MemoryWatch::Heard heard;  ///< before it
  bool busy = false;
};

Partner::Partner(const NodeSettings& settings, NodeSeams& seams, PartnerUser& user)
    : settings_(settings),
      own_lease_(settings.lease),
      other_lease_(settings.other_lease),
      own_drift_percent_(settings.drift_percent),
      held_(settings.lease),
      seams_(seams),
      user_(user),
      memory_(settings.process),
      orders_(seams.clock, settings.link_orders),
      forwards_(seams.clock, settings.link_forwards),
      copies_(seams.clock, settings.link_copies) {}

Partner::~Partner() { seams_.clock.cancel(hello_timer_); }

bool Partner::is_fresh(std::uint64_t its_stamp) const {
  const auto allowed = settings_.lease * (100 - std::min(settings_.drift_percent, 90U)) / 100;
  const std::uint64_t mine = stamp();
  return its_stamp != 0 && its_stamp <= mine && mine - its_stamp <= static_cast<std::uint64_t>(allowed.count());
}

/// The drift is allowed for twice: the age was measured by the other clock, and the rest is by this one.
std::uint64_t Partner::stamp_less(std::uint64_t its_stamp, std::uint64_t age) const {
  const auto lease = static_cast<std::uint64_t>(settings_.lease.count());
  const std::uint64_t drift = lease * std::min(settings_.drift_percent, 90U) / 100;
  const std::uint64_t longer = std::min(age, 2 * lease) * (100 + settings_.drift_percent) / 100;
  const std::uint64_t less = longer > drift ? longer - drift : 0;
  return its_stamp > less ? its_stamp - less : 0;
}

void Partner::watch_own_clock(engine::TimePoint at) {
  if (stalls_.look(at, settings_.lease / 10)) mark<"partner.stood_still">();
}

Receipt Partner::receipt(engine::TimePoint at) {
  watch_own_clock(at);
  return stalls_.receipt();
}

engine::Duration Partner::age(const Receipt& receipt) const {
  const engine::Duration shown = now() - receipt.since;
  return receipt.since < vouched_from_ ? std::max(shown, 2 * settings_.lease) : shown;
}

void Partner::on_link_up() { say_hello(); }

void Partner::say_hello() {
  if (set_back_) return;
  Message hello;
  hello.type = MessageType::hello;
  hello.epoch = settings_.pair;
  hello.flags = settings_.side == engine::NodeSide::b ? kFlagSideB : std::uint16_t{0};
  tell_lease(hello);
  hello.sequence = settings_.boot;
  heard_before_hello_ = memory_.heard();
  tell_count(hello);
  const std::uint64_t attempt = ++attempt_;
  hello_sent_ = now();
  send(hello, {}, {}, [this, attempt](const IoResult<Message>& result) { on_hello_answer(attempt, result); });
}

void Partner::on_hello_answer(std::uint64_t attempt, const IoResult<Message>& result) {
  if (attempt != attempt_ || !seams_.link.is_up()) return;
  // The partner refuses so whom it knows to have been set back.
  if (result && result->status == Errc::stale) return found_set_back(kPartnerKnowsMore);
  if (result && was_set_back(result->process)) return hello_refused(kPartnerWasSetBack);
  const bool is_welcome = result && result->status == Errc::ok;
  if (is_welcome && !look_at(memory_.hear_answer(*result, heard_before_hello_))) return;
  if (!is_welcome || !lease_makes_sense(*result)) {
    return hello_refused(
        "The partner refused this node: " + make_error_code(result ? result->status : Errc::corrupt).message() +
        ". Check that both nodes name the same pair and different sides.");
  }
  refusal_.clear();
  meet(*result);
  if (now() < hello_sent_ + settings_.lease) watch_clock(result->stamp);
  partner_stamp_ = result->stamp;
  connected_ = true;
  heartbeat_now();
  user_.on_connected();
}

void Partner::hello_refused(std::string why) {
  mark<"partner.hello_refused">();
  refusal_ = std::move(why);
  hello_timer_ = seams_.clock.call_after(std::chrono::seconds(1), [this, attempt = attempt_] {
    if (attempt == attempt_ && seams_.link.is_up()) say_hello();
  });
}

void Partner::on_link_down() {
  ++attempt_;
  const bool was = connected_;
  connected_ = confirm_again_ = false;
  confirming_ = 0;
  if (was) user_.on_disconnected();
}

/// A machine that is paused does not see on its own clock that it was; the partner's went on. What was held meanwhile
/// may have been given up, and served there. An answer takes less than a lease, or counts for nothing: a difference of
/// more is no delay.
void Partner::watch_clock(std::uint64_t its_stamp) {
  const auto mine = static_cast<std::uint64_t>((now() - heard_at_).count());
  const auto lease = static_cast<std::uint64_t>(settings_.lease.count());
  const bool known = heard_stamp_ != 0 && its_stamp > heard_stamp_;
  const bool stood_still = known && its_stamp - heard_stamp_ > mine + mine / 100 * settings_.drift_percent + lease;
  // The first word of a clock says nothing of the time before it.
  const bool perhaps = heard_stamp_ == 0 && settings_.confirms_reads;
  heard_stamp_ = its_stamp;
  heard_at_ = now();
  if (!stood_still && !perhaps) return;
  vouched_from_ = now();
  // By this clock nothing is old; it is older than a lease.
  (void)stalls_.look(now(), settings_.lease / 10);
  stalls_.take_for_old({now().since_origin - std::min(now().since_origin, 2 * settings_.lease)});
  if (!stood_still || !in_contact_) return;
  mark<"partner.clock_stood_still">();
  lose_contact();
}

bool Partner::look_at(MemoryWatch::Finding finding) {
  if (finding == MemoryWatch::Finding::this_process) found_set_back(kPartnerKnowsMore);
  if (finding == MemoryWatch::Finding::partner) found_partner_set_back(process_);
  return finding == MemoryWatch::Finding::nothing;
}

void Partner::found_set_back(const std::string& why) {
  if (std::exchange(set_back_, true)) return;
  mark<"partner.this_process_was_set_back">();
  refusal_ = why;
  lose_partner();
  user_.on_set_back(why);
}

/// It learns of it by its next hello, or by the answer to this node's.
void Partner::found_partner_set_back(const engine::Uuid& process) {
  if (process != process_ || process.is_nil() || was_set_back(process)) return;
  mark<"partner.was_set_back">();
  set_back_partner_ = process;
  refusal_ = kPartnerWasSetBack;
  lose_partner();
}

/// As if its process were gone. What is on the way out to it ends with that.
void Partner::lose_partner() {
  greeted_ = false;
  if (in_contact_) lose_contact();
  if (std::exchange(connected_, false)) user_.on_disconnected();
  confirm_again_ = false;
  confirming_ = 0;
  ++attempt_;
  reset();
}

void Partner::lose_contact() {
  in_contact_ = false;
  contact_stamp_ = 0;
  user_.on_contact_lost();
}

/// Where requests have no numbers, one of an earlier session may be read after those of a later one.
void Partner::tell_count(Message& message) {
  if (seams_.link.version() >= kSeveralPaths) memory_.tell(message);
}

void Partner::tell_lease(Message& message) const {
  message.number = static_cast<std::uint64_t>(own_lease_.count());
  message.tag = own_drift_percent_;
}

void Partner::hear_lease(const Message& message) {
  told_lease_ = engine::Duration(message.number);
  told_drift_percent_ = static_cast<unsigned>(message.tag);
  agree_on_lease();
}

void Partner::set_lease(engine::Duration lease, engine::Duration other) {
  own_lease_ = lease;
  other_lease_ = other;
  agree_on_lease();
}

/// Were the leases of different length, the one that grants would go on alone before the other's has run out, and that
/// one answer reads that are stale by then. So would forwards be begun for longer than their sender holds them.
/// While one takes the place of another, either node may hold either of the two.
void Partner::agree_on_lease() {
  const engine::Duration told = told_lease_.count() == 0 ? own_lease_ : told_lease_;
  const engine::Duration held = std::min(own_lease_, told);
  const bool changes = other_lease_.count() != 0;
  const engine::Duration shortest = changes ? std::min(held, other_lease_) : held;
  const engine::Duration granted = std::max(held, other_lease_);
  const unsigned drift_percent = std::max(own_drift_percent_, told_drift_percent_);
  const engine::Duration before = std::exchange(held_, held);
  if (held < before)
    contact_until_ = {contact_until_.since_origin - std::min(contact_until_.since_origin, before - held)};
  if (held != before) {
    const engine::Duration longest = std::max({before, held, settings_.granted_lease, granted});
    settled_at_ = now() + longest * (100 + drift_percent) / 100;
  }
  const bool same = shortest == settings_.lease && granted == settings_.granted_lease;
  if (same && drift_percent == settings_.drift_percent) return;
  mark<"partner.lease_differs">();
  user_.on_lease_agreed(shortest, granted, drift_percent);
}

/// Everything known of an earlier process of the partner's is void, but for its machine's clock, which goes on until
/// the machine boots. That takes longer than a lease: who is in contact with the one before has stood still meanwhile.
void Partner::meet(const Message& hello) {
  if (hello.process == process_) return;
  memory_.meet(hello.process);
  hear_lease(hello);
  const bool restarted = !process_.is_nil();
  const bool known_boot = boot_ != 0 && hello.sequence != 0;
  const bool rebooted = restarted && known_boot && boot_ != hello.sequence;
  if (!known_boot || rebooted) heard_stamp_ = 0;
  boot_ = hello.sequence;
  process_ = hello.process;
  partner_stamp_ = 0;
  contact_stamp_ = 0;
  if (!restarted) return;
  mark<"partner.restarted">();
  user_.on_partner_restarted();
  if (!rebooted || !in_contact_) return;
  mark<"partner.rebooted_in_contact">();
  lose_contact();
}

bool Partner::take(std::uint64_t session, InboundRequest& request, const Message& message) {
  if (set_back_) return answer(request, message, Errc::not_serving), true;
  if (message.type == MessageType::hello) return take_hello(session, request, message), true;
  if (session != inbound_ || !greeted_ || message.process != process_) {
    answer(request, message, Errc::stale);
    return true;
  }
  // A forward tells what its sender heard of this process's clock.
  if (message.type == MessageType::forward && message.stamp > stamp()) {
    found_set_back(kPartnerKnowsMore);
    return answer(request, message, Errc::not_serving), true;
  }
  if (message.type == MessageType::heartbeat) return take_heartbeat(request, message), true;
  return false;
}

/// With what was heard of its sender, who finds by it that it was set back.
void Partner::refuse_hello(InboundRequest& request, Errc status) {
  Message header;
  header.type = MessageType::hello;
  header.process = settings_.process;
  header.status = status;
  tell_count(header);
  answer(request, header);
}

void Partner::take_hello(std::uint64_t session, InboundRequest& request, const Message& message) {
  const bool from_b = message.flags & kFlagSideB;
  if (message.epoch != settings_.pair || from_b == (settings_.side == engine::NodeSide::b)) {
    return answer(request, message, Errc::foreign);
  }
  if (!lease_makes_sense(message)) return answer(request, message, Errc::corrupt);
  if (was_set_back(message.process)) return refuse_hello(request, Errc::stale);
  const bool other_process = connected_ && message.process != process_;
  meet(message);
  if (session == inbound_ && !look_at(memory_.hear_question(message))) {
    return refuse_hello(request, set_back_ ? Errc::not_serving : Errc::stale);
  }
  greeted_ = true;
  Message header;
  header.type = MessageType::hello;
  header.process = settings_.process;
  header.stamp = stamp();
  tell_lease(header);
  header.sequence = settings_.boot;
  tell_count(header);
  answer(request, header);
  // The way out still leads to a process that is gone: what is on it must end before anything is sent to the new one.
  if (other_process) reset();
}

/// Gives its number, or 0 when none was sent: there is no way out, or too many are unanswered.
std::uint64_t Partner::send_beat() {
  if (!connected_) return 0;
  Beat* beat = nullptr;
  for (auto& b : beats_) {
    if (!b->busy) beat = b.get();
  }
  if (!beat) {
    if (beats_.size() == kMaxBeats) return 0;
    beat = beats_.emplace_back(std::make_unique<Beat>()).get();
  }
  beat->ids.clear();
  user_.list_leases(beat->ids);
  beat->granted.assign(beat->ids.size() / 32, std::byte{0});
  beat->sent = now();
  beat->number = ++last_beat_;
  beat->stamp = partner_stamp_;
  beat->heard = memory_.heard();
  beat->busy = true;
  Message message;
  message.type = MessageType::heartbeat;
  message.nexus = stamp();
  tell_lease(message);
  tell_count(message);
  send(message, beat->ids, beat->granted,
       [this, beat](const IoResult<Message>& result) { on_beat_answer(*beat, result); });
  return beat->number;
}

/// Who waits for a heartbeat is served by it and by any that was sent after it, by none that was sent before.
void Partner::note_answered(const Beat& beat) {
  if (beat.number >= confirming_) confirming_ = 0;
}

void Partner::on_beat_answer(Beat& beat, const IoResult<Message>& result) {
  beat.busy = false;
  note_answered(beat);
  if (!result || result->status != Errc::ok || result->process != process_ || !connected_) return;
  if (!look_at(memory_.hear_answer(*result, beat.heard))) return;
  if (now() < beat.sent + settings_.lease) watch_clock(result->stamp);
  partner_stamp_ = std::max(partner_stamp_, result->stamp);
  const auto until = beat.sent + held_;
  // Contact may have run out unseen: what was held until then is dropped before new contact begins.
  if (check() >= until) return;
  if (!in_contact_ || until > contact_until_) contact_until_ = until;
  const bool made = !std::exchange(in_contact_, true);
  contact_stamp_ = std::max(contact_stamp_, beat.stamp);
  if (result->payload == beat.granted.size()) user_.on_leases(beat.ids, beat.granted, {beat.sent, until});
  if (made) user_.on_contact_made();
  if (confirming_ == 0 && std::exchange(confirm_again_, false)) confirm();
}

void Partner::confirm() {
  if (!connected_) return;
  const bool shares_the_next = confirming_ != 0;
  if (!shares_the_next) confirming_ = send_beat();
  // Where there was no room for another heartbeat, it goes out when one of those under way was answered.
  confirm_again_ |= shares_the_next || confirming_ == 0;
}

void Partner::take_heartbeat(InboundRequest& request, const Message& message) {
  if (!look_at(memory_.hear_question(message))) {
    return answer(request, message, set_back_ ? Errc::not_serving : Errc::stale);
  }
  const auto ids = request.payload();
  Message header;
  header.type = message.type;
  header.process = settings_.process;
  header.stamp = stamp();
  tell_count(header);
  if (ids.size() % 32 != 0 || ids.size() / 32 > request.max_answer_payload() || !lease_makes_sense(message)) {
    return answer(request, message, Errc::corrupt);
  }
  if (tells_lease(message)) hear_lease(message);  // what it holds on this very answer
  auto granted = std::make_unique<std::vector<std::byte>>(ids.size() / 32);
  for (std::size_t i = 0; i < granted->size(); ++i) {
    engine::Uuid volume, epoch;
    std::memcpy(volume.bytes.data(), ids.data() + i * 32, 16);
    std::memcpy(epoch.bytes.data(), ids.data() + i * 32 + 16, 16);
    (*granted)[i] = std::byte{user_.grant_lease(volume, epoch)};
  }
  const std::span<const std::byte> payload = *granted;
  answered_at_ = now();
  answer(request, header, payload, [keep = std::move(granted)] {});
}

engine::TimePoint Partner::check() {
  const engine::TimePoint at = now();
  if (!in_contact_ || at < contact_until_) return at;
  mark<"partner.contact_lost">();
  lose_contact();
  reset();
  return at;
}

}  // namespace lockstep::replication
