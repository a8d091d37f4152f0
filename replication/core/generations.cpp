#include "replication/core/generations.hpp"

#include <algorithm>
#include <utility>

#include "replication/core/applier.hpp"
#include "replication/core/membership.hpp"
#include "replication/core/regions.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::IoResult;

void Generations::raise(engine::Callback<bool> done) {
  if (raising_ || set_back() || !core_.partner_ready) return done(false);
  raising_ = true;
  raised_at_ = core_.now();
  written_then_ = core_.regions->begun();
  done_ = std::move(done);
  ++core_.known.generation;
  core_.keep_knowledge([this] {
    if (!core_.partner_ready) return finish(false);
    Message m = core_.message(MessageType::generation);
    m.tag = core_.meta->knowledge().generation;
    core_.partner.send(m, {}, {}, counted(core_.owed_by_others, [this](const IoResult<Message>& r) { told(r); }));
  });
}

void Generations::told(const IoResult<Message>& result) {
  const bool never_says = !result && result.error() == Errc::corrupt;  // of a version that has none
  if (never_says) return finish(true);
  if (!result || result->status != Errc::ok) return finish(false);
  core_.known.partner_generation = std::max(core_.known.partner_generation, result->tag);
  core_.keep_knowledge([this] { finish(true); });
}

void Generations::finish(bool ok) {
  raising_ = false;
  if (auto done = std::exchange(done_, nullptr)) done(ok);
}

void Generations::take(InboundRequest& request, const Message& m) {
  const bool orders = m.epoch == core_.epoch().id && core_.epoch().sequencer != core_.side();
  if (!orders || set_back() || core_.store_failed) return answer(request, m, Errc::stale);
  ++core_.known.generation;
  core_.known.partner_generation = std::max(core_.known.partner_generation, m.tag);
  core_.meta->write_knowledge(core_.known, [this, &request, m](std::error_code error) {
    if (error)
      core_.membership->fail_metadata("What this replica has learnt can't be written: " + error.message() + ".");
    Message header;
    header.type = m.type;
    header.volume = m.volume;
    header.status = error ? Errc::io_error : Errc::ok;
    header.tag = core_.meta->knowledge().generation;
    answer(request, header);
  });
}

void Generations::tell(Message& state) const {
  state.tag = core_.meta->knowledge().generation;
  state.sequence = core_.meta->knowledge().partner_generation;
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
  core_.known.generation = std::max(core_.known.generation, expected_) + kMostUntold;
}

bool Generations::set_back() const { return expected_ > core_.meta->knowledge().generation; }

void Generations::tick() {
  if (set_back()) return mend();
  const bool written = core_.regions->begun() != written_then_;
  if (!core_.orders() || !written || core_.now() - raised_at_ < kLongest) return;
  core_.is_alone() ? raise_alone() : raise([](bool) {});
}

/// For the witness, which is all that knows of it.
void Generations::raise_alone() {
  if (core_.epoch().arbiter.kind != engine::ArbiterKind::witness || !core_.seams.witness) return;
  raised_at_ = core_.now();
  written_then_ = core_.regions->begun();
  ++core_.known.generation;
  core_.keep_knowledge();
}

/// Only as a target: until its record says that it is no member, a restart must find again that it was set back.
void Generations::mend() {
  if (mending_ || !core_.is_forwarding() || core_.epoch().members.contains(core_.side())) return;
  mark<"generation.set_back">();
  mending_ = true;
  core_.meta->set_dirty({0, core_.room()}, [this](std::error_code error) {
    if (error) return core_.membership->fail_metadata("The dirty map can't be written.");
    core_.applier->forget_map();
    pass_expected();
    core_.keep_knowledge([this] {
      mending_ = false;
      core_.membership->look_again();
    });
  });
}

}  // namespace lockstep::replication
