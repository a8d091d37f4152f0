#pragma once
// Every part of a mirror below membership, which moves them all.
#include <functional>

#include "replication/core/applier.hpp"
#include "replication/core/cleaner.hpp"
#include "replication/core/completions.hpp"
#include "replication/core/forward_entries.hpp"
#include "replication/core/forwarder.hpp"
#include "replication/core/front.hpp"
#include "replication/core/generations.hpp"
#include "replication/core/local_store.hpp"
#include "replication/core/lu_state_keeper.hpp"
#include "replication/core/outbound.hpp"
#include "replication/core/partner.hpp"
#include "replication/core/regions.hpp"
#include "replication/core/resync.hpp"
#include "replication/core/sequencer.hpp"
#include "replication/core/space.hpp"
#include "replication/core/standing.hpp"
#include "replication/core/witness_agreement.hpp"
#include "replication/core/witnessing.hpp"

namespace lockstep::replication {

struct MirrorParts {
  const NodeSettings& settings;
  engine::Clock& clock;
  engine::Random& random;
  Witness* witness;
  Fencing* fencing;
  LeftRecords* left_records;
  Partner& partner;
  Standing& standing;
  LocalStore& store;
  Outbound& outbound;
  ForwardEntries& forward_entries;
  Completions& completions;
  Regions& regions;
  Space& space;
  Forwarder& forwarder;
  Resync& resync;
  Sequencer& sequencer;
  Applier& applier;
  Generations& generations;
  Cleaner& cleaner;
  WitnessAgreement& witness_agreement;
  Witnessing& witnessing;
  LuStateKeeper& lu;
  Front& front;
  const std::function<void()>& changed;
  const std::function<void()>& close_sessions;
};

}  // namespace lockstep::replication
