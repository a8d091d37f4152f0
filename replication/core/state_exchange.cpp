#include "replication/core/state_exchange.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "replication/core/marks.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::IoResult;

void StateExchange::ask() {
  if (!partner_.connected() || asking_ || standing_.closed()) return;
  asking_ = true;
  asked_at_ = clock_.now();
  struct Bytes {
    std::vector<std::byte> out, in = std::vector<std::byte>(kMaxStateBytes);
  };
  auto bytes = std::make_unique<Bytes>();
  bytes->out = encode_state(user_.state());
  const std::span<const std::byte> out = bytes->out;
  const std::span<std::byte> in = bytes->in;
  auto answered = [this, run = run_, asked_with = store_.meta->knowledge(), told = witness_agreement_.word(),
                   keep = std::move(bytes)](const IoResult<Message>& result) {
    // A volume that was detached meanwhile may be attached anew, and have told more since.
    if (result && run == run_ && !standing_.closed()) {
      growth_.note_partner_room(*result);
      if (result->status == Errc::ok) {
        generations_.learn(*result, asked_with);
        witness_agreement_.learn(*result, told);
      }
    }
    const std::size_t got = result ? result->payload : 0;
    on_state(run, result, std::span(keep->in).first(std::min(got, keep->in.size())));
  };
  outbound_.send(state_message(), out, in, counted(outbound_.owed, std::move(answered)));
}

/// The room travels where a state has no use for an extent: a partner that knows nothing of it says 0.
Message StateExchange::state_message() const {
  Message m = outbound_.message(MessageType::state);
  m.extent.length = store_.room();
  generations_.tell(m);
  witness_agreement_.tell(m);
  return m;
}

void StateExchange::restart() {
  ++run_;
  asking_ = false;
}

void StateExchange::on_disconnected() {
  restart();
  outbound_.ready = partner_unknown_ = false;
}

void StateExchange::on_state(std::uint64_t run, const IoResult<Message>& result, std::span<const std::byte> payload) {
  if (run != run_) return;
  asking_ = false;
  if (standing_.closed()) return;
  user_.on_asked(learn_state(result, payload));
}

/// False: what came tells nothing that this node could act on.
bool StateExchange::learn_state(const IoResult<Message>& result, std::span<const std::byte> payload) {
  partner_unknown_ = result && result->status == Errc::foreign;
  if (!result || result->status != Errc::ok) return false;
  auto theirs = decode_state(payload);
  if (!theirs || theirs->side == standing_.side()) {
    mark<"membership.partner_makes_no_sense">();
    user_.on_partner_unfit(
        "The partner's replica of this volume does not fit: same side, or a record that can't be read.");
    return false;
  }
  // The volume grew without this replica, which makes room before it goes on.
  partner_is_larger_ = theirs->record.size > store_.room();
  if (partner_is_larger_) {
    changed_();
    return false;
  }
  const bool first = !outbound_.ready;
  outbound_.ready = true;
  theirs->set_back = generations_.partner_set_back();
  partner_state_ = *theirs;
  agreed_ = theirs->record.id;
  user_.on_partner_state(*theirs, first);
  return true;
}

void StateExchange::take(std::uint64_t session, InboundRequest& request, const Message& m) {
  const auto theirs = decode_state(request.payload());
  if (!theirs) return answer(request, m, Errc::corrupt);
  growth_.note_partner_room(m);
  generations_.learn_of_this(m);
  witness_agreement_.learn(m);
  applier_.drop_old(session);
  states_to_answer_.push_back({&request, m});
  answer_states();
  if (standing_.is_alone() && theirs->record.id == standing_.epoch().id) {
    if (!theirs->forwarding) lu_.forget_target();  // it may have been attached anew, and knows nothing
    lu_.on_target();
  }
  const bool news = !partner_state_ || encode_state(*partner_state_) != encode_state(*theirs);
  if (news || user_.waits_for_partner()) {
    if (clock_.now() - asked_at_ > std::chrono::milliseconds(20)) ask();
  }
}

/// The answer is this node's word that nothing that came by older sessions is started any more. What was started, and
/// the store has not returned, holds the lock of its range: what is sent now comes after it, an order that is sent
/// again is known by its sequence, and bytes that may yet be copied over are not handed out.
void StateExchange::answer_states() {
  if (!user_.may_tell_state()) return;
  auto waiting = std::move(states_to_answer_);
  states_to_answer_.clear();
  for (const WaitingState& w : waiting) {
    Message header;
    header.type = MessageType::state;
    header.volume = w.message.volume;
    header.extent.length = store_.room();
    generations_.tell(header);
    witness_agreement_.tell(header);
    auto bytes = std::make_unique<std::vector<std::byte>>(encode_state(user_.state()));
    const std::span<const std::byte> payload = *bytes;
    answer(*w.request, header, payload, [keep = std::move(bytes)] {});
  }
}

void StateExchange::refuse_states() {
  auto waiting = std::move(states_to_answer_);
  states_to_answer_.clear();
  for (const WaitingState& w : waiting) answer(*w.request, w.message, Errc::foreign);
}

}  // namespace lockstep::replication
