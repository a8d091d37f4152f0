#include "engine/rdma/status.hpp"

#include "engine/rdma/real/errors.hpp"

namespace lockstep::rdma {

std::optional<Status> status_of(std::error_code error) noexcept {
  if (error.category() != rdma_category()) return {};
  switch (static_cast<RdmaErrc>(error.value())) {
    case RdmaErrc::length:
      return Status::length;
    case RdmaErrc::remote_access:
      return Status::remote_access;
    case RdmaErrc::remote_invalid:
      return Status::remote_invalid;
    case RdmaErrc::remote_operation:
      return Status::remote_operation;
    case RdmaErrc::local_protection:
      return Status::local_protection;
    case RdmaErrc::local_operation:
      return Status::local_operation;
    case RdmaErrc::no_answer:
      return Status::no_answer;
    case RdmaErrc::no_receive:
      return Status::no_receive;
    case RdmaErrc::other_status:
      return Status::other;
    default:
      return {};
  }
}

}  // namespace lockstep::rdma
