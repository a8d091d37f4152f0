#pragma once
// What a step from one epoch to the next moves: each class of steps takes of it what it needs.
#include "replication/core/epoch_steps.hpp"
#include "replication/core/going_alone.hpp"
#include "replication/core/growth.hpp"
#include "replication/core/left_epoch.hpp"
#include "replication/core/phase_runner.hpp"
#include "replication/core/state_exchange.hpp"
#include "replication/core/store_watch.hpp"

namespace lockstep::replication {

struct StepParts {
  const NodeSettings& settings;
  const engine::Clock& clock;
  engine::Random& random;
  const Partner& partner;
  const Standing& standing;
  LocalStore& store;
  Outbound& outbound;
  Resync& resync;
  Sequencer& sequencer;
  Applier& applier;
  Witnessing& witnessing;
  LuStateKeeper& lu;
  StoreWatch& store_watch;
  LeftEpoch& left_epoch;
  Growth& growth;
  StateExchange& exchange;
  EpochSteps& steps;
  PhaseRunner& phases;
  GoingAlone& alone;
};

}  // namespace lockstep::replication
