// Accounts, failures, and what tests ask for.
#include "tests/support/verbs_library/library.hpp"

#include <algorithm>
#include <utility>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/verbs_library/state.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(begin, size) ((void)(begin), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(begin, size) ((void)(begin), (void)(size))
#endif

namespace lockstep::test {
namespace verbs_library {
namespace {

ibv_device_attr usual_attributes() {
  ibv_device_attr has{};
  has.max_qp_wr = 16384;
  has.max_cqe = 65536;
  has.max_qp_rd_atom = has.max_qp_init_rd_atom = 16;
  has.device_cap_flags = IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  has.phys_port_cnt = 1;
  return has;
}

/// As a kernel, a device or a library answers that has no more of something, or was interrupted.
int usual_error(std::string_view function) {
  if (function.starts_with("rdma_get_cm_event") || function == "ibv_get_cq_event" ||
      function == "ibv_get_async_event") {
    return EINTR;
  }
  if (function == "rdma_bind_addr" || function == "rdma_listen") return EADDRINUSE;
  return ENOMEM;
}

/// What is gone may not even be read; the account of it may.
void hide(const Object& object, bool hidden) {
  if (hidden) {
    ASAN_POISON_MEMORY_REGION(object.visible, object.visible_size);
  } else {
    ASAN_UNPOISON_MEMORY_REGION(object.visible, object.visible_size);
  }
}

int failure_of(std::string_view function, bool counts) {
  State& all = state();
  ++all.calls[std::string(function)];
  for (auto failure = all.failures.begin(); failure != all.failures.end(); ++failure) {
    if (failure->function.empty() ? !counts : failure->function != function) continue;
    if (failure->after > 1) {
      --failure->after;
      continue;
    }
    all.failed = function;
    const int error_number = failure->error_number != 0 ? failure->error_number : usual_error(function);
    if (!failure->is_lasting) all.failures.erase(failure);
    return error_number;
  }
  return 0;
}

}  // namespace

State& state() {
  static State all;
  return all;
}

int step(std::string_view function) {
  ++state().all_calls;
  return failure_of(function, true);
}

int step_if_named(std::string_view function) { return failure_of(function, false); }

void fault(std::string sentence) { state().faults.push_back(std::move(sentence)); }

bool check(const Object& object, std::string_view function) {
  if (object.is_dead) fault(std::string(function) + " of a destroyed " + std::string(object.kind));
  return !object.is_dead;
}

bool bury(Object& object, std::string_view function) {
  if (!check(object, function)) return false;
  object.is_dead = true;
  hide(object, true);
  return true;
}

Bell::Bell() : descriptor_(::eventfd(0, EFD_CLOEXEC)) {}
Bell::~Bell() { ::close(descriptor_); }
void Bell::ring() { (void)::eventfd_write(descriptor_, 1); }
void Bell::rest() {
  eventfd_t value = 0;
  if (::fcntl(descriptor_, F_GETFL) & O_NONBLOCK) (void)::eventfd_read(descriptor_, &value);
}
bool Bell::may_block() const { return (::fcntl(descriptor_, F_GETFL) & O_NONBLOCK) == 0; }

Context::~Context() {
  if (!is_dead) ::close(context.cmd_fd);
}

void look_for_devices() {
  if (std::ranges::all_of(state().devices, &Device::is_removed)) return;
  for_each_living<Context>([](Context& context) {
    context.is_missed = context.is_removed;
    close_if_missed(context);
  });
}

void close_if_missed(Context& context) {
  if (context.is_dead || context.ids > 0 || !context.is_missed) return;
  if (context.children > 0) fault("the context of a device is closed, and something that was made of it is left");
  ::close(context.context.cmd_fd);
  Device& device = state().devices[static_cast<std::size_t>(context.device)];
  if (device.context == &context) device.context = nullptr;
  (void)bury(context, "closing");
}

void raise(Context& context, const ibv_async_event& event) {
  context.events.push_back(event);
  context.bell.ring();
}

}  // namespace verbs_library

using namespace verbs_library;

void VerbsLibrary::reset() {
  const auto locked = lock();
  State& all = state();
  for (const auto& object : all.objects) hide(*object, false);
  all.objects.clear();
  all.faults.clear();
  for (Device& device : all.devices) {
    device = {};
    device.device.transport_type = IBV_TRANSPORT_IB;
  }
  all.attributes = usual_attributes();
  all.max_inline = 512;
  all.is_patient = true;
  all.holds_destroying = false;
  all.loses_packets = false;
  all.no_receive = 0;
  all.calls.clear();
  all.all_calls = 0;
  all.failures.clear();
  all.failed.clear();
  all.statuses.clear();
  all.replaced.clear();
}

std::vector<std::string> VerbsLibrary::faults() {
  const auto locked = lock();
  return state().faults;
}

std::vector<std::string> VerbsLibrary::left() {
  const auto locked = lock();
  std::vector<std::string> all;
  for (const auto& object : state().objects) {
    // The library keeps what it has opened.
    if (!object->is_dead && object->kind != "context") all.emplace_back(object->kind);
  }
  return all;
}

std::size_t VerbsLibrary::count(std::string_view kind) {
  const auto locked = lock();
  return static_cast<std::size_t>(std::ranges::count_if(
      state().objects, [&](const auto& object) { return !object->is_dead && object->kind == kind; }));
}

std::uint64_t VerbsLibrary::messages_without_receive() {
  const auto locked = lock();
  return state().no_receive;
}

std::uint64_t VerbsLibrary::calls(std::string_view function) {
  const auto locked = lock();
  if (function.empty()) return state().all_calls;
  const auto found = state().calls.find(function);
  return found == state().calls.end() ? 0 : found->second;
}

void VerbsLibrary::fail_call(std::uint64_t n) { fail_call({}, n, 0); }

void VerbsLibrary::fail_call(std::string_view function, std::uint64_t n, int error_number) {
  const auto locked = lock();
  state().failures.push_back({std::string(function), n, error_number});
}

void VerbsLibrary::fail_always(std::string_view function, int error_number) {
  const auto locked = lock();
  state().failures.push_back({std::string(function), 1, error_number, true});
}

std::string VerbsLibrary::failed() {
  const auto locked = lock();
  return state().failed;
}

void VerbsLibrary::complete_next(int device, Kind kind, ibv_wc_status status) {
  const auto locked = lock();
  state().statuses.push_back({device, kind, status});
}

void VerbsLibrary::replace_event(rdma_cm_event_type usual, rdma_cm_event_type other, int status) {
  const auto locked = lock();
  state().replaced.push_back({usual, other, status});
}

void VerbsLibrary::tell(Role role, rdma_cm_event_type event, int status) {
  const auto locked = lock();
  for_each_living<Id>([&](Id& id) {
    using S = Id::State;
    const bool listens = id.state == S::listening;
    const bool waits = id.state == S::idle || id.state == S::bound;
    const Role is = listens ? Role::listener : id.is_caller ? Role::caller : Role::answerer;
    if (!waits && is == role) push(id, event, status);
  });
}

void VerbsLibrary::happen(int device, ibv_event_type event) {
  const auto locked = lock();
  Context* const context = state().devices[static_cast<std::size_t>(device)].context;
  if (context == nullptr) return;
  ibv_async_event told{};
  told.event_type = event;
  const auto is_here = [&](const auto& each) { return each.context == &context->context; };
  switch (event) {
    case IBV_EVENT_CQ_ERR:
      for_each_living<Cq>([&](Cq& queue) {
        told.element.cq = &queue;
        if (is_here(queue)) raise(*context, told);
      });
      break;
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
      told.element.port_num = 1;
      raise(*context, told);
      break;
    case IBV_EVENT_DEVICE_FATAL:
      raise(*context, told);
      break;
    default:
      for_each_living<Qp>([&](Qp& pair) {
        told.element.qp = &pair;
        if (!is_here(pair)) return;
        raise(*context, told);
        to_error(pair);
      });
  }
}

void VerbsLibrary::remove_device(int device, Removal removal) {
  const auto locked = lock();
  Device& removed = state().devices[static_cast<std::size_t>(device)];
  if (removal == Removal::told) happen(device, IBV_EVENT_DEVICE_FATAL);
  removed.is_removed = true;
  if (removed.context == nullptr) return;
  removed.context->is_removed = true;
  removed.context->is_silent = removal == Removal::silent;
  if (removal == Removal::told) removed.context->bell.ring();  // there is an end to be read
  for_each_living<Id>([&](Id& id) {
    if (id.opened == removed.context) push(id, RDMA_CM_EVENT_DEVICE_REMOVAL);
  });
}

void VerbsLibrary::restore_device(int device) {
  const auto locked = lock();
  Device& back = state().devices[static_cast<std::size_t>(device)];
  back.is_removed = false;
  back.context = nullptr;  // another one is opened
}

void VerbsLibrary::lose_packets(bool lost) {
  const auto locked = lock();
  state().loses_packets = lost;
  if (!lost) for_each_living<Qp>([](Qp& pair) { carry_out(pair); });
}

void VerbsLibrary::set_max_inline(std::uint32_t bytes) {
  const auto locked = lock();
  state().max_inline = bytes;
}

void VerbsLibrary::set_attributes(const ibv_device_attr& attributes) {
  const auto locked = lock();
  state().attributes = attributes;
}

ibv_device_attr VerbsLibrary::attributes() {
  const auto locked = lock();
  return state().attributes;
}

void VerbsLibrary::set_transport(ibv_transport_type type) {
  const auto locked = lock();
  for (Device& device : state().devices) device.device.transport_type = type;
}

void VerbsLibrary::hold_destroying(bool held) {
  state().holds_destroying = held;
  state().holds_destroying.notify_all();
}

void VerbsLibrary::set_patient(bool patient) {
  const auto locked = lock();
  state().is_patient = patient;
}

}  // namespace lockstep::test
