#pragma once
// Stands in for librdmacm and libibverbs in a test's process: the real provider of engine/rdma/verbs.hpp runs on it. An
// executable that has its objects takes their definitions instead of the shared libraries'. It is a network in memory
// of two devices: "10.0.0.2" (and any address that ends in ":2") is on the second one, every other address on the
// first. Everything is carried out at once, on the thread that asks for it; what a device tells waits in its queues.
//
// It keeps account of every object, takes down what is done against the libraries' rules, and fails when told to.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

namespace lockstep::test {

/// Any thread. One for the process, as the libraries are; each test begins with reset().
class VerbsLibrary {
 public:
  static constexpr int kNear = 0, kFar = 1;  ///< devices

  /// What is left is forgotten, and both devices are there again.
  static void reset();

  // What was seen.
  /// Sentences.
  [[nodiscard]] static std::vector<std::string> faults();
  /// Objects that were made and not destroyed, events that were taken and not acknowledged: their kinds.
  [[nodiscard]] static std::vector<std::string> left();
  [[nodiscard]] static std::size_t count(std::string_view kind);
  [[nodiscard]] static std::uint64_t messages_without_receive();
  /// Of a function of either library, or of all that may fail.
  [[nodiscard]] static std::uint64_t calls(std::string_view function = {});

  // What is to fail, once.
  /// The next call but n - 1, of all from now on; by the error that this function has on a machine in trouble.
  static void fail_call(std::uint64_t n);
  static void fail_call(std::string_view function, std::uint64_t n, int error_number);
  /// It fails until reset().
  static void fail_always(std::string_view function, int error_number);
  /// Which function has failed; empty: none yet.
  [[nodiscard]] static std::string failed();
  enum class Kind : std::uint8_t { send, receive, read, write, bind, invalidate };
  /// The next work request of that kind that a device carries out.
  static void complete_next(int device, Kind kind, ibv_wc_status status);
  /// What would be told to an id is something else.
  static void replace_event(rdma_cm_event_type usual, rdma_cm_event_type other, int status);

  // What happens.
  enum class Role : std::uint8_t { caller, answerer, listener };
  /// To all ids of that role.
  static void tell(Role role, rdma_cm_event_type event, int status = 0);
  /// Of a device, a port, or all queue pairs or completion queues of the device.
  static void happen(int device, ibv_event_type event);
  /// It goes: nothing completes any more, and every id on it is told. Calls fail and the device itself says that it is
  /// gone, as where the kernel takes it from its processes; or, as with Soft-RoCE, neither.
  enum class Removal : std::uint8_t { told, silent };
  static void remove_device(int device, Removal removal = Removal::told);
  static void restore_device(int device);
  /// Nothing gets through: neither what is posted nor what is asked or answered.
  static void lose_packets(bool lost);
  /// The system waits for something whenever a queue pair is destroyed.
  static void hold_destroying(bool held);

  // What the devices have.
  static void set_max_inline(std::uint32_t bytes);
  static void set_attributes(const ibv_device_attr& attributes);
  [[nodiscard]] static ibv_device_attr attributes();
  static void set_transport(ibv_transport_type type);
  /// A message for which no receive is posted waits for one, as the queue pairs' endless retries have it. If not, it is
  /// an error at once.
  static void set_patient(bool patient);
};

}  // namespace lockstep::test
