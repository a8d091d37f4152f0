#pragma once
// What the sessions of one reactor share.
#include <memory>

#include "engine/iscsi/out_pdu.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "engine/seams/clock.hpp"
#include "engine/seams/random.hpp"
#include "iscsi_target/session/data_buffers.hpp"
#include "iscsi_target/session/session_command.hpp"

namespace lockstep::iscsi_target {

struct SessionResources {
  engine::Clock& clock;
  engine::Random& random;
  engine::BufferPool& buffers;
  iscsi::OutPduPool pdus{};
  SessionCommandPool commands{};
  /// Null where the device server brings its own memory, and waits for it itself.
  std::unique_ptr<DataBuffers> data_buffers{};
};

}  // namespace lockstep::iscsi_target
