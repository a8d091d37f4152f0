#pragma once
// Debian's libiscsi as a client, with its C objects owned.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
#include <poll.h>

#include "tests/unit/iscsi_session/test_server.hpp"

namespace lockstep::test {

struct TaskDeleter {
  void operator()(scsi_task* task) const { scsi_free_scsi_task(task); }
};
using ScsiTask = std::unique_ptr<scsi_task, TaskDeleter>;
using Bytes = std::vector<unsigned char>;

class LibiscsiClient {
 public:
  explicit LibiscsiClient(const std::string& initiator = kInitiator) : iscsi(iscsi_create_context(initiator.c_str())) {
    iscsi_set_session_type(iscsi, ISCSI_SESSION_NORMAL);
    iscsi_set_header_digest(iscsi, ISCSI_HEADER_DIGEST_NONE);
    iscsi_set_targetname(iscsi, kTarget.c_str());
    iscsi_set_noautoreconnect(iscsi, 1);
    iscsi_set_timeout(iscsi, 20);
  }
  ~LibiscsiClient() { iscsi_destroy_context(iscsi); }
  LibiscsiClient(const LibiscsiClient&) = delete;
  LibiscsiClient& operator=(const LibiscsiClient&) = delete;

  /// Connects and logs in; false with error() on failure.
  bool log_in(const std::string& portal) {
    return iscsi_connect_sync(iscsi, portal.c_str()) == 0 && iscsi_login_sync(iscsi) == 0;
  }
  [[nodiscard]] std::string error() const { return iscsi_get_error(iscsi); }

  ScsiTask write(std::uint32_t lba, Bytes& data) {
    return ScsiTask(
        iscsi_write10_sync(iscsi, 0, lba, data.data(), static_cast<std::uint32_t>(data.size()), kBlock, 0, 0, 0, 0, 0));
  }
  ScsiTask read(std::uint32_t lba, std::size_t bytes) {
    return ScsiTask(iscsi_read10_sync(iscsi, 0, lba, static_cast<std::uint32_t>(bytes), kBlock, 0, 0, 0, 0, 0));
  }
  /// Lets libiscsi work until `done` holds; false when that does not happen.
  template <class Done>
  bool serve_until(Done done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      pollfd fd{.fd = iscsi_get_fd(iscsi), .events = static_cast<short>(iscsi_which_events(iscsi)), .revents = 0};
      if (::poll(&fd, 1, 10) > 0 && iscsi_service(iscsi, fd.revents) < 0) return done();
    }
    return true;
  }

  iscsi_context* iscsi;
};

inline Bytes pattern(std::size_t size, unsigned seed) {
  Bytes out(size);
  std::uint32_t state = seed * 2654435761u + 1;
  for (auto& b : out) {
    state = state * 1664525u + 1013904223u;
    b = static_cast<unsigned char>(state >> 24);
  }
  return out;
}

inline Bytes data_of(const ScsiTask& task) {
  return task ? Bytes(task->datain.data, task->datain.data + task->datain.size) : Bytes{};
}

}  // namespace lockstep::test
