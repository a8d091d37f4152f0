#include "engine/rdma/real/errors.hpp"

#include <infiniband/verbs.h>

namespace lockstep::rdma {
namespace {

struct Category final : std::error_category {
  [[nodiscard]] const char* name() const noexcept override { return "rdma"; }
  [[nodiscard]] std::string message(int code) const override {
    switch (static_cast<RdmaErrc>(code)) {
      case RdmaErrc::memory_not_pinned:
        return "memory may not be pinned for RDMA: set LimitMEMLOCK=infinity in the service's unit (or ulimit -l)";
      case RdmaErrc::too_many_arenas:
        return "more memory arenas than an RDMA device is told of";
      case RdmaErrc::iwarp_reads:
        return "iWARP devices are not used: what they read would be the peer's to write, too";
      case RdmaErrc::too_many_work:
        return "the RDMA device has no queues of the length that is needed";
      case RdmaErrc::no_windows:
        return "the RDMA device has no memory windows (of type 2), or not enough of them: it can't be used for the "
               "link "
               "between the nodes";
      case RdmaErrc::no_reads:
        return "the peer grants no RDMA Reads";
      case RdmaErrc::not_registered:
        return "memory that is not registered with the RDMA device";
      case RdmaErrc::address_changed:
        return "the RDMA device's address changed";
      case RdmaErrc::port_down:
        return "the RDMA device's port is down";
      case RdmaErrc::device_removed:
        return "the RDMA device was removed";
      case RdmaErrc::flushed:
        return "the RDMA connection ended before it was carried out";
      case RdmaErrc::length:
        return "an RDMA message is longer than its receive";
      case RdmaErrc::remote_access:
        return "the peer's RDMA device refused access to its memory";
      case RdmaErrc::remote_invalid:
        return "the peer's RDMA device refused a request as invalid";
      case RdmaErrc::remote_operation:
        return "the peer's RDMA device could not carry out a request";
      case RdmaErrc::local_protection:
        return "the RDMA device refused access to memory of this node";
      case RdmaErrc::local_operation:
        return "the RDMA device could not carry out a request";
      case RdmaErrc::no_answer:
        return "the peer's RDMA device does not answer";
      case RdmaErrc::no_receive:
        return "the peer had no receive for a message";
      case RdmaErrc::other_status:
        break;
    }
    return "the RDMA device reports an error";
  }
};

}  // namespace

const std::error_category& rdma_category() noexcept {
  static const Category category;
  return category;
}

std::error_code make_error_code(RdmaErrc e) noexcept { return {static_cast<int>(e), rdma_category()}; }

std::error_code system_error(int error_number) noexcept { return {error_number, std::generic_category()}; }

std::error_code status_error(int status) noexcept {
  switch (status) {
    case IBV_WC_WR_FLUSH_ERR:
      return RdmaErrc::flushed;
    case IBV_WC_LOC_LEN_ERR:
      return RdmaErrc::length;
    case IBV_WC_REM_ACCESS_ERR:
      return RdmaErrc::remote_access;
    case IBV_WC_REM_INV_REQ_ERR:
      return RdmaErrc::remote_invalid;
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR:
      return RdmaErrc::remote_operation;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_MW_BIND_ERR:
      return RdmaErrc::local_protection;
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_LOC_EEC_OP_ERR:
    case IBV_WC_FATAL_ERR:
      return RdmaErrc::local_operation;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      return RdmaErrc::no_answer;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return RdmaErrc::no_receive;
    default:
      return RdmaErrc::other_status;
  }
}

std::error_code event_error(int status, std::errc otherwise) noexcept {
  if (status < -1) return system_error(-status);
  return std::make_error_code(otherwise);
}

}  // namespace lockstep::rdma
