// Both machines are set back, as by a restore of last night's backup: the witness may be all that knows of it.
#include "tests/simulation/nemesis.hpp"
#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

using engine::NodeSide;
using replication::MirrorState;

namespace {
constexpr Nanos kApart = kSecond;  ///< the most that lies between the two machines' snapshots
}  // namespace

/// What hosts wrote since is lost by an operator's word; what they see from then on is one disk all the same.
void Nemesis::revert_both() {
  if (both_restored_) return;
  if (!both_kept_ || random_.chance(300'000)) return keep_both();
  const std::uint64_t witness = random_.below(3);  // goes on as it is, is set back, too, or is away at first
  world_.trace.add('-', "operator.restores_both", {{"witness", witness}});
  careful_until_ = world_.scheduler.now() + kLongestCare;
  both_restored_ = true;
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    Host& host = world_.host(side);
    host.end(Host::End::power_cut);
    host.set_back();
    world_.scheduler.after(a_while(5 * kMillisecond, 3 * kSecond), Owner::world, &Nemesis::on_boot, this, number(side));
    if (witness != 2) continue;
    host.witness().set_reachable(false);
    world_.scheduler.after(a_while(50 * kMillisecond, 8 * kSecond), Owner::world, &Nemesis::on_mend_witness, this,
                           number(side));
  }
  if (witness == 1) world_.witness.restore(*witness_then_);
  world_.checkers->both_set_back();
}

/// In sync, one after the other.
void Nemesis::keep_both() {
  if (!world_.all_in_sync() || keeping_) return;
  both_kept_ = false;
  keeping_ = true;
  Host& first = either();
  first.take_snapshot();
  witness_then_ = world_.witness.snapshot();
  const Nanos later = random_.chance(400'000) ? 0 : random_.skewed(kMillisecond, kApart);
  world_.scheduler.after(later, Owner::world, &Nemesis::on_keep_second, this, number(engine::other(first.side())));
}

void Nemesis::on_keep_second(void* self, std::uint64_t side) {
  auto& nemesis = *static_cast<Nemesis*>(self);
  nemesis.keeping_ = false;
  if (!nemesis.world_.all_in_sync()) return;
  nemesis.world_.host(side_of(side)).take_snapshot();
  nemesis.both_kept_ = true;
}

/// Nobody serves, and one of them says why: he decides which is to go on. Without that word he knows of nothing to do.
void Nemesis::decide_between_old_copies(unsigned volume) {
  if (!both_restored_) return;
  Host* told = nullptr;
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    Host& host = world_.host(side);
    const auto status = host.status(volume);
    if (!usable(host) || !status || status->serving || status->state == MirrorState::split_brain) return;
    const bool says_why = status->reason.find("set back") != std::string::npos;
    if (says_why && (told == nullptr || world_.scenario.seed % 2 == 0)) told = &host;
  }
  if (told != nullptr) go_on_with_an_old_copy(*told, volume);
}

}  // namespace lockstep::simulation
