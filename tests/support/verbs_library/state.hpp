#pragma once
// What the library has made, and the rules of it. All under one lock.
#include <array>
#include <atomic>
#include <cerrno>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/verbs_library/library.hpp"

namespace lockstep::test::verbs_library {

/// Lives on when it was destroyed, so that a later use is seen, until the library is reset.
struct Object {
  explicit Object(std::string_view is) : kind(is) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;
  std::string_view kind;
  bool is_dead = false;
  void* visible = nullptr;  ///< the part that the library's user sees, which may not be read any more when it is dead
  std::size_t visible_size = 0;
};

/// A descriptor that is readable while something waits.
class Bell {
 public:
  Bell();
  ~Bell();
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  [[nodiscard]] int descriptor() const { return descriptor_; }
  void ring();
  void rest();
  /// A call would block, were there nothing.
  [[nodiscard]] bool may_block() const;

 private:
  int descriptor_;
};

struct Context final : Object, verbs_context {
  explicit Context(int number);
  ~Context() override;
  int device;
  bool is_removed = false;
  bool is_silent = false;  ///< then what is asked of it fails no more than before
  bool is_missed = false;  ///< the library has seen that its device is missing
  int ids = 0;             ///< that use it
  int children = 0;        ///< domains, channels, completion queues
  int unacknowledged = 0;
  Bell bell;
  std::deque<ibv_async_event> events;
};

struct Pd final : Object, ibv_pd {
  Pd() : Object("protection domain"), ibv_pd{} {}
  int children = 0;
};

struct Mr final : Object, ibv_mr {
  Mr() : Object("memory region"), ibv_mr{} {}
  unsigned access = 0;
};

struct Qp;
struct Mw final : Object, ibv_mw {
  Mw() : Object("memory window"), ibv_mw{} {}
  std::uint32_t key = 0;  ///< the device's own
  Qp* bound = nullptr;
  Mr* region = nullptr;
  std::uint64_t begin = 0, length = 0;
  unsigned access = 0;
};

struct CompChannel final : Object, ibv_comp_channel {
  CompChannel() : Object("completion channel"), ibv_comp_channel{} {}
  Bell bell;
  std::deque<ibv_cq*> events;
  int queues = 0;
};

struct Cq final : Object, ibv_cq {
  Cq() : Object("completion queue"), ibv_cq{} {}
  std::deque<ibv_wc> entries;
  bool is_armed = false;
  int pairs = 0;
  int unacknowledged = 0;
};

struct Receive {
  std::uint64_t id = 0;
  std::vector<ibv_sge> pieces;
};
struct Request {
  ibv_send_wr work{};
  std::vector<ibv_sge> pieces;
  std::vector<std::byte> copied;  ///< what was posted inline
  std::uint32_t window_key = 0;   ///< that a bind's window had when it was posted
};

struct Id;
struct Qp final : Object, ibv_qp {
  Qp() : Object("queue pair"), ibv_qp{} {}
  Id* id = nullptr;
  ibv_qp_cap limits{};
  std::deque<Request> sends;
  std::deque<Receive> receives;
};

struct EventChannel final : Object, rdma_event_channel {
  EventChannel() : Object("event channel"), rdma_event_channel{} {}
  Bell bell;
  std::deque<struct Event*> events;
  int ids = 0;
};

struct Id final : Object, rdma_cm_id {
  Id() : Object("id"), rdma_cm_id{} {}
  enum class State : std::uint8_t {
    idle,
    bound,
    listening,
    resolving,
    resolved,
    asked,     ///< its peer
    called,    ///< by its peer
    answered,  ///< its peer
    connected,
    leaving,  ///< said goodbye
    left,     ///< was said goodbye
    over
  };
  State state = State::idle;
  bool is_caller = false;
  bool has_failed = false;  ///< to connect: what follows is not told
  bool is_told = false;     ///< that it stands
  Id* peer = nullptr;
  Id* listener = nullptr;  ///< of one that is called and was not handed out yet
  Context* opened = nullptr;
  EventChannel* own_channel = nullptr;  ///< that goes with it
  int unacknowledged = 0;
};

struct Event final : Object, rdma_cm_event {
  Event() : Object("event"), rdma_cm_event{} {}
  Id* owner = nullptr;  ///< that waits for its acknowledgement when it is destroyed
  Id* about = nullptr;
  std::array<std::byte, 256> data{};
};

struct Device {
  ibv_device device{};
  bool is_removed = false;
  Context* context = nullptr;
};

struct Failure {
  std::string function;  ///< empty: any
  std::uint64_t after = 0;
  int error_number = 0;  ///< 0: what this function has
  bool is_lasting = false;
};

struct State {
  std::recursive_mutex lock;
  std::vector<std::unique_ptr<Object>> objects;
  std::vector<std::string> faults;
  std::array<Device, 2> devices;
  ibv_device_attr attributes{};
  std::uint32_t max_inline = 512;
  bool is_patient = true, loses_packets = false;
  std::atomic<bool> holds_destroying = false;
  std::uint64_t no_receive = 0;
  std::uint32_t last_key = 0, last_number = 0;
  std::uint16_t last_port = 0;

  std::map<std::string, std::uint64_t, std::less<>> calls;
  std::uint64_t all_calls = 0;
  std::vector<Failure> failures;
  std::string failed;
  struct Status {
    int device;
    VerbsLibrary::Kind kind;
    ibv_wc_status status;
  };
  std::vector<Status> statuses;
  struct Replaced {
    rdma_cm_event_type usual, other;
    int status;
  };
  std::vector<Replaced> replaced;
};

[[nodiscard]] State& state();
[[nodiscard]] inline std::unique_lock<std::recursive_mutex> lock() { return std::unique_lock(state().lock); }

/// At the beginning of each function that may fail: 0, or the error that it is to fail with.
[[nodiscard]] int step(std::string_view function);
/// Of one that fails only where a test names it: nobody could do anything about it.
[[nodiscard]] int step_if_named(std::string_view function);
void fault(std::string sentence);
/// It was not destroyed before.
bool check(const Object& object, std::string_view function);

template <class T, class Visible>
T& enter(std::unique_ptr<T> made, Visible* visible) {
  made->visible = visible;
  made->visible_size = sizeof(Visible);
  T& entered = *made;
  state().objects.push_back(std::move(made));
  return entered;
}
/// Destroys it: false when it was already.
bool bury(Object& object, std::string_view function);
template <class T, class Action>
void for_each_living(const Action& action) {
  auto& objects = state().objects;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (auto* const each = dynamic_cast<T*>(objects[i].get()); each != nullptr && !each->is_dead) action(*each);
  }
}

[[nodiscard]] inline Context& of(ibv_context* context) { return *static_cast<Context*>(verbs_get_ctx(context)); }
[[nodiscard]] inline bool is_gone(const Context& context) { return context.is_dead || context.is_removed; }
/// Its calls fail.
[[nodiscard]] inline bool is_refusing(const Context& context) { return is_gone(context) && !context.is_silent; }
/// Where there are devices, it sees which are missing.
void look_for_devices();
/// Of a device that is missing, once no id is on it.
void close_if_missed(Context& context);
void raise(Context& context, const ibv_async_event& event);

// connection_manager.cpp
void push(Id& id, rdma_cm_event_type type, int status = 0, const rdma_conn_param* param = nullptr,
          std::size_t padded = 0);

// work.cpp
void to_error(Qp& pair);
/// What waits may go on.
void carry_out(Qp& pair);
[[nodiscard]] ibv_context_ops work_functions();

}  // namespace lockstep::test::verbs_library
