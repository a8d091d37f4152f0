// The states of the two replicas, told to one another.
#include "replication/core/marks.hpp"
#include "replication/core/membership.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::IoResult;

void Membership::exchange() {
  if (!partner_.connected() || exchanging_ || closed()) return;
  exchanging_ = true;
  last_exchange_ = clock_.now();
  struct Bytes {
    std::vector<std::byte> out, in = std::vector<std::byte>(kMaxStateBytes);
  };
  auto bytes = std::make_unique<Bytes>();
  bytes->out = encode_state(state());
  const std::span<const std::byte> out = bytes->out;
  const std::span<std::byte> in = bytes->in;
  auto answered = [this, run = exchange_run_, asked_with = store_.meta->knowledge(),
                   keep = std::move(bytes)](const IoResult<Message>& result) {
    if (result && run == exchange_run_) {
      note_partner_room(*result);
      if (result->status == Errc::ok) generations_.learn(*result, asked_with);
    }
    const std::size_t got = result ? result->payload : 0;
    on_state(run, result, std::span(keep->in).first(std::min(got, keep->in.size())));
  };
  outbound_.send(state_message(), out, in, counted(outbound_.owed, std::move(answered)));
}

void Membership::on_state(std::uint64_t run, const IoResult<Message>& result, std::span<const std::byte> payload) {
  if (run != exchange_run_) return;
  exchanging_ = false;
  if (closed()) return;
  const bool learnt = learn_state(result, payload);
  if (giving_up_ == GivingUp::asking) on_partner_asked(learnt);
}

/// False: what came tells nothing that this node could act on.
bool Membership::learn_state(const IoResult<Message>& result, std::span<const std::byte> payload) {
  partner_unknown_ = result && result->status == Errc::foreign;
  if (!result || result->status != Errc::ok) return false;
  auto theirs = decode_state(payload);
  if (!theirs || theirs->side == standing_.side()) {
    mark<"membership.partner_makes_no_sense">();
    failure_ = "The partner's replica of this volume does not fit: same side, or a record that can't be read.";
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
  act(*theirs);
  if (!first || !outbound_.ready) return true;
  sequencer_.resend();
  forwarder_.resend();
  resync_.go_on();
  return true;
}

void Membership::take_state(std::uint64_t session, InboundRequest& request, const Message& m) {
  const auto theirs = decode_state(request.payload());
  if (!theirs) return answer(request, m, Errc::corrupt);
  note_partner_room(m);
  generations_.learn_of_this(m);
  applier_.drop_old(session);
  states_to_answer_.push_back({&request, m});
  answer_states();
  if (standing_.is_alone() && theirs->record.id == standing_.epoch().id) {
    if (!theirs->forwarding) lu_.forget_target();  // it may have been attached anew, and knows nothing
    lu_.on_target();
  }
  const bool news = !partner_state_ || encode_state(*partner_state_) != encode_state(*theirs);
  if (news || verdict_ == Verdict::follow) {
    if (clock_.now() - last_exchange_ > std::chrono::milliseconds(20)) exchange();
  }
}

/// The answer is this node's word that nothing that came by older sessions is started any more. What was started, and
/// the store has not returned, holds the lock of its range: what is sent now comes after it, and an order that is sent
/// again is known by its sequence.
void Membership::answer_states() {
  if (is_changing(Step::following)) return;
  auto waiting = std::move(states_to_answer_);
  states_to_answer_.clear();
  for (const WaitingState& w : waiting) {
    Message header;
    header.type = MessageType::state;
    header.volume = w.message.volume;
    header.extent.length = store_.room();
    generations_.tell(header);
    auto bytes = std::make_unique<std::vector<std::byte>>(encode_state(state()));
    const std::span<const std::byte> payload = *bytes;
    answer(*w.request, header, payload, [keep = std::move(bytes)] {});
  }
}

void Membership::refuse_states() {
  auto waiting = std::move(states_to_answer_);
  states_to_answer_.clear();
  for (const WaitingState& w : waiting) answer(*w.request, w.message, Errc::foreign);
}

}  // namespace lockstep::replication
