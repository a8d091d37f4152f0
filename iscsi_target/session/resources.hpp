#pragma once
// What the sessions of one reactor share.
#include "engine/iscsi/transmit_queue.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "engine/seams/clock.hpp"
#include "engine/seams/random.hpp"
#include "iscsi_target/session/session_command.hpp"

namespace lockstep::iscsi_target {

struct SessionResources {
  engine::Clock& clock;
  engine::Random& random;
  engine::BufferPool& buffers;
  iscsi::OutPduPool pdus{};
  SessionCommandPool commands{};
};

}  // namespace lockstep::iscsi_target
