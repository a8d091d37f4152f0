#include "replication/core/generations.hpp"

#include <algorithm>
#include <utility>

#include "replication/core/marks.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::IoResult;

void Generations::raise(engine::Callback<bool> done) {
  if (raising_ || set_back() || !outbound_.ready) return done(false);
  raising_ = true;
  raised_at_ = clock_.now();
  written_then_ = regions_.begun();
  done_ = std::move(done);
  ++store_.known.generation;
  store_.keep_knowledge([this] {
    if (!outbound_.ready) return finish(false);
    Message m = outbound_.message(MessageType::generation);
    m.tag = store_.meta->knowledge().generation;
    outbound_.send(m, {}, {}, counted(outbound_.owed, [this](const IoResult<Message>& r) { told(r); }));
  });
}

void Generations::told(const IoResult<Message>& result) {
  const bool never_says = !result && result.error() == Errc::corrupt;  // of a version that has none
  if (never_says) return finish(true);
  if (!result || result->status != Errc::ok) return finish(false);
  told_any_ = true;
  store_.known.partner_generation = std::max(store_.known.partner_generation, result->tag);
  store_.keep_knowledge([this] { finish(true); });
}

void Generations::finish(bool ok) {
  raising_ = false;
  if (auto done = std::exchange(done_, nullptr)) done(ok);
}

/// A copy that was attached just now may be another one than the partner knows.
void Generations::take(InboundRequest& request, const Message& m) {
  const bool orders = m.epoch == standing_.epoch().id && standing_.epoch().sequencer != standing_.side();
  if (!orders || !heard_ || set_back() || store_.failed) return answer(request, m, Errc::stale);
  ++store_.known.generation;
  store_.known.partner_generation = std::max(store_.known.partner_generation, m.tag);
  store_.meta->write_knowledge(store_.known, [this, &request, m](std::error_code error) {
    if (error) store_.fail_metadata("What this replica has learnt can't be written: " + error.message() + ".");
    Message header;
    header.type = m.type;
    header.volume = m.volume;
    header.status = error ? Errc::io_error : Errc::ok;
    header.tag = store_.meta->knowledge().generation;
    told_any_ |= !error;
    answer(request, header);
  });
}

void Generations::tell(Message& state) const {
  state.tag = store_.meta->knowledge().generation;
  state.sequence = store_.meta->knowledge().partner_generation;
}

void Generations::learn_of_this(const Message& question) {
  heard_ = true;
  expect(question.sequence);
  if (told_any_ && question.sequence > store_.meta->knowledge().generation) user_.on_memory_set_back();
}

void Generations::learn(const Message& answer, const engine::Knowledge& asked_with) {
  learn_of_this(answer);
  partner_set_back_ = answer.tag < asked_with.partner_generation;
  if (partner_set_back_) mark<"generation.partner_was_set_back">();
}

void Generations::accept_as_it_is() {
  mark<"generation.accepted_as_it_is">();
  pass_expected();
}

/// And whatever this replica had reached, but not told yet: that copy of it may come back, too.
void Generations::pass_expected() {
  store_.known.generation = std::max(store_.known.generation, expected_) + kMostUntold;
}

bool Generations::set_back() const { return expected_ > store_.meta->knowledge().generation; }

void Generations::tick() {
  if (set_back()) return mend();
  const bool written = regions_.begun() != written_then_;
  if (!standing_.orders() || !written || clock_.now() - raised_at_ < kLongest) return;
  standing_.is_alone() ? raise_alone() : raise([](bool) {});
}

/// For the witness, which is all that knows of it. What was written while it was away it hears of when it is back.
void Generations::raise_alone() {
  if (!user_.witness_holds_this_epoch()) return;
  raised_at_ = clock_.now();
  written_then_ = regions_.begun();
  ++store_.known.generation;
  store_.keep_knowledge();
}

/// Only as a target: until its record says that it is no member, a restart must find again that it was set back.
void Generations::mend() {
  if (mending_ || !standing_.is_forwarding() || standing_.epoch().members.contains(standing_.side())) return;
  mark<"generation.set_back">();
  mending_ = true;
  store_.meta->set_dirty({0, store_.room()}, [this](std::error_code error) {
    if (error) return store_.fail_metadata("The dirty map can't be written.");
    applier_.forget_map();
    pass_expected();
    store_.keep_knowledge([this] {
      mending_ = false;
      user_.on_mended();
    });
  });
}

}  // namespace lockstep::replication
