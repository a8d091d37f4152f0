#pragma once
// The devices that connections came by: what each can do, its two protection domains, the arenas registered with them,
// and its completion queues. On the control thread, but for Keys::find().
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <infiniband/verbs.h>

#include "engine/rdma/real/control.hpp"
#include "engine/rdma/real/keys.hpp"
#include "engine/rdma/registration_count.hpp"
#include "engine/rdma/verbs.hpp"

namespace lockstep::rdma {

class CompletionsCore;
class QueueGroup;

class Device {
 public:
  Device(ibv_context* context, Control& control, RegistrationCount& count);
  /// No queue pair, id or completion queue is left. Lets go of what is registered.
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Holds on to the library's context of the device while ids come and go: with none on it the library may close that
  /// at any time, and tells nobody of a removal. `address` is one of the device's; `gone`: it is being removed.
  void guard(const sockaddr* address, engine::Callback<> gone);
  [[nodiscard]] bool is_guarded() const { return guard_id_ != nullptr; }
  /// Makes the domains and registers the arenas.
  [[nodiscard]] std::error_code open(std::span<const std::span<std::byte>> arenas);
  [[nodiscard]] std::error_code add_arena(std::span<std::byte> arena);
  /// The domain has all of them, or why not: those that it could not have before are tried again.
  [[nodiscard]] std::error_code complete(std::span<const std::span<std::byte>> arenas, Domain domain);
  /// As far as it has it.
  void remove_arena(std::span<std::byte> arena);
  /// What happens to the device, until it is destroyed.
  void watch(engine::Callback<const ibv_async_event&> happened);

  [[nodiscard]] ibv_context* context() const { return context_; }
  [[nodiscard]] const ibv_device_attr& attributes() const { return attributes_; }
  [[nodiscard]] ibv_pd* domain(Domain domain) const { return domains_[static_cast<std::size_t>(domain)]; }
  [[nodiscard]] const Keys& keys(Domain domain) const { return keys_[static_cast<std::size_t>(domain)]; }
  [[nodiscard]] bool invalidates() const { return (attributes_.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0; }
  /// Memory windows that work requests open, of either kind.
  [[nodiscard]] bool has_windows() const {
    constexpr unsigned kKinds = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    return invalidates() && (attributes_.device_cap_flags & kKinds) != 0;
  }
  /// Which of a receive completion's flags say that a key was invalidated. Soft-RoCE tells with the number that the
  /// kernel has for it, IB_WC_WITH_INVALIDATE, which is IBV_WC_IP_CSUM_OK here and means nothing on our queue pairs.
  [[nodiscard]] unsigned invalidated_flags() const {
    constexpr std::uint32_t kSoftRoce = 0xffffff;  // RXE_VENDOR_ID of the kernel
    return attributes_.vendor_id == kSoftRoce ? IBV_WC_WITH_INV | IBV_WC_IP_CSUM_OK : IBV_WC_WITH_INV;
  }

  std::uint64_t serial = 0;  ///< of all that there ever were
  bool removed = false;
  std::uint32_t ids = 0;  ///< of the connection manager's, that are on this device
  std::vector<std::shared_ptr<QueueGroup>> groups;

 private:
  struct Watch;
  class Guard final : public CmUser {
   public:
    explicit Guard(Device& device) : device_(device) {}
    void on_cm_event(const CmEvent& event) override;

   private:
    Device& device_;
  };
  void wait();
  void deregister(ibv_mr* region);
  [[nodiscard]] bool has_arena(std::span<const std::byte> arena, std::size_t domain) const;
  [[nodiscard]] std::error_code add_arena(std::span<std::byte> arena, std::size_t domain);

  ibv_context* context_;
  Control& control_;
  RegistrationCount& count_;
  engine::Callback<> gone_;
  Guard guard_{*this};
  rdma_cm_id* guard_id_ = nullptr;
  ibv_device_attr attributes_{};
  std::array<ibv_pd*, 2> domains_{};
  std::array<Keys, 2> keys_;
  std::array<std::vector<ibv_mr*>, 2> regions_;  // of each domain
  std::vector<ibv_mr*> stuck_;                   // that the device did not let go of
  std::unique_ptr<Watch> watch_;
};

/// Both ways in which the connection manager's library (44) lets go of a device that was removed; without them the
/// kernel waits for this process to end. Called after everything of ours on the device is gone; `library` and `events`
/// are the descriptors of its context. Tries for some seconds, as the kernel takes its time.
void forget_context(engine::Reactor& control, int library, int events, std::string file);
/// The file that a descriptor is of, for that; while it is certainly open.
[[nodiscard]] std::string file_of_context(int library);

}  // namespace lockstep::rdma
