#pragma once
// A write through the node that does not order crosses the link once: its order comes back as a reference to what that
// node keeps, and it is answered when both stores have it. Beside a partner that the test plays.
#include "tests/simulation/played_pair.hpp"

namespace lockstep::simulation {

using replication::kFlagByReference;
using replication::kFlagHalfDone;

inline void of_version_2(Scenario& s) { s.link_version = 2; }

/// A forwards a write, and B has not answered it yet.
struct Forwarded : PlayedB {
  explicit Forwarded(const ScriptedPair::Adjust& adjust = b_orders) : PlayedB(adjust) {
    b.keeps = [](const Message& m) { return is(m, MessageType::forward); };
    write = &pair.write(kA, kBlockOfBoth, 7);
    pair.run_for(kSoon);
    forward = b.received(MessageType::forward).back();
  }
  [[nodiscard]] Message reference(std::uint64_t sequence = 1) const {
    Message m = order(sequence);
    m.flags = kFlagByReference;
    m.tag = forward.tag;
    m.forwarder = forward.process;
    return m;
  }
  /// B's store has it, B says.
  void half_done() {
    b.amends = [this](const Message& question, Message& header, auto&) {
      if (!is(question, MessageType::forward)) return;
      header.flags = kFlagHalfDone;
      header.epoch = epoch_said.value_or(b.state.record.id);
    };
    b.let_go(Errc::ok);
    pair.run_for(kSoon);
  }
  void cancel() { pair.host(kA).program()->disk(0)->cancel(write->request); }

  ScriptedPair::Io* write;
  Message forward;
  std::optional<engine::Uuid> epoch_said;
};

}  // namespace lockstep::simulation
