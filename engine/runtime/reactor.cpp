#include "engine/runtime/reactor.hpp"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "engine/runtime/busy_poll.hpp"
#include "engine/runtime/lone_events.hpp"
#include "engine/runtime/reactor_asio.hpp"
#include "engine/runtime/task_queue.hpp"
#include "engine/runtime/timer_queue.hpp"
#include "engine/runtime/turn_hooks.hpp"

namespace lockstep::engine {
namespace asio = boost::asio;

namespace {

thread_local const Reactor* current_reactor = nullptr;

int checked(int descriptor, const char* what) {
  if (descriptor < 0) throw std::system_error(errno, std::generic_category(), what);
  return descriptor;
}

/// A callback posted from another thread: the task that carries it is its own.
struct PostedCallback {
  ReactorTask task;
  Callback<> work;
  static void run(ReactorTask& task) {
    const std::unique_ptr<PostedCallback> self(static_cast<PostedCallback*>(task.owner));
    self->work();
  }
};

}  // namespace

// How it turns: everything is a handler of the context's one run(). A turn is posted by whoever asks for its end, by a
// wake-up and by itself while there is work; Asio queues it behind the batch of events that is being handled and behind
// one look at the sockets that does not block, so a turn closes each batch. Where events come one by one (LoneEvents),
// the turn runs without that look. When a turn finds nothing left it lets Asio block.
struct Reactor::Impl {
  explicit Impl(ReactorOptions o) : options(std::move(o)) {}
  /// What tasks and timers hold may belong to the context, and what the context's handlers hold may cancel timers.
  ~Impl() {
    drop_tasks();
    timers.drop_all();
  }

  void post_turn();
  void begin_event();
  void end_event();
  void turn();
  bool run_due_timers();
  bool run_tasks();
  bool run_pollers();
  void arm_timer();
  bool may_sleep();
  void wait_for_wake();
  void wait_for_timer();
  void wake();
  void drop_tasks();

  ReactorOptions options;
  TimerQueue timers;
  TurnHooks hooks;
  std::vector<TurnPoller*> pollers;
  TaskQueue tasks;
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  ReactorDescriptor wake_event{context, checked(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd")};
  ReactorDescriptor timer_event{context,
                                checked(timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd_create")};
  std::optional<TimePoint> armed;
  BusyPoll busy_poll{options.busy_poll};
  LoneEvents lone_events;
  bool turn_posted = false;
  bool in_turn = false;      ///< it sees to all that is asked for meanwhile
  bool in_event = false;     ///< a handler runs that ends with end_event()
  bool turn_wanted = false;  ///< by that handler
  bool timer_ran = false;
  bool timer_due = false;  ///< one was set without a delay: it needs no alarm
  bool pollers_armed = false;
  ReactorStats stats;

  std::thread thread;
  std::atomic<bool> running{false};
  std::atomic<bool> stopping{false};
  std::atomic<bool> sleeping{false};
};

namespace {

TimePoint boot_time() {
  timespec t{};
  clock_gettime(CLOCK_BOOTTIME, &t);
  return {std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec)};
}

void drain(int descriptor) {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(descriptor, &count, sizeof count);
}

}  // namespace

void Reactor::Impl::post_turn() {
  if (turn_posted || in_turn) return;
  if (in_event) return void(turn_wanted = true);
  turn_posted = true;
  asio::post(context, [this] { turn(); });
}

void Reactor::Impl::begin_event() {
  lone_events.came();
  in_event = true;
}

void Reactor::Impl::end_event() {
  in_event = false;
  if (!std::exchange(turn_wanted, false)) return;
  if (turn_posted || !lone_events.closes_turn()) return post_turn();
  turn();
}

void Reactor::Impl::turn() {
  turn_posted = false;
  in_turn = true;
  ++stats.turns;
  lone_events.turned();
  sleeping.store(false, std::memory_order_relaxed);
  if (pollers_armed) {
    pollers_armed = false;
    for (TurnPoller* poller : pollers) poller->woke_up();
  }
  bool worked = std::exchange(timer_ran, false) | run_due_timers();
  worked |= run_tasks();
  worked |= run_pollers();
  worked |= hooks.run();
  in_turn = false;
  if (stopping.load(std::memory_order_acquire)) return context.stop();
  arm_timer();
  if (busy_poll.on()) {
    const TimePoint now = boot_time();
    if (worked) busy_poll.worked(now);
    if (busy_poll.looks(now)) {
      if (!worked) sched_yield();  // whom this waits for may need this very core
      return post_turn();
    }
  }
  if (!hooks.empty() || timer_due || !may_sleep()) post_turn();
}

bool Reactor::Impl::run_due_timers() {
  if (!std::exchange(timer_due, false)) return false;
  timers.run_due(boot_time());
  return true;
}

bool Reactor::Impl::run_tasks() {
  ReactorTask* task = tasks.take_all();
  const bool any = task != nullptr;
  while (task != nullptr) {
    ReactorTask* next = task->next;  // read first: the task is its poster's again when it runs
    ++stats.tasks;
    task->run(*task);
    task = next;
  }
  return any;
}

bool Reactor::Impl::run_pollers() {
  bool any = false;
  for (std::size_t i = 0; i < pollers.size(); ++i) any |= pollers[i]->poll();
  return any;
}

/// Says that it sleeps, then looks once more: who posts does it the other way round, so one of the two sees the other.
bool Reactor::Impl::may_sleep() {
  sleeping.store(true, std::memory_order_seq_cst);
  bool idle = tasks.empty() && !stopping.load(std::memory_order_seq_cst);
  pollers_armed = true;
  for (TurnPoller* poller : pollers) idle = poller->prepare_to_sleep() && idle;
  if (!idle) return false;
  ++stats.sleeps;
  return true;
}

void Reactor::Impl::arm_timer() {
  const auto earliest = timers.earliest();
  if (!earliest || (armed && *armed <= *earliest)) return;  // ringing too early costs less than setting it anew
  armed = earliest;
  const auto since = std::max(earliest->since_origin, Duration{1});  // zero would disarm it
  itimerspec spec{};
  spec.it_value.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(since).count();
  spec.it_value.tv_nsec = (since % std::chrono::seconds(1)).count();
  timerfd_settime(timer_event.native_handle(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

void Reactor::Impl::wait_for_timer() {
  timer_event.async_wait(ReactorDescriptor::wait_read, [this](boost::system::error_code error) {
    if (error) return;
    begin_event();
    drain(timer_event.native_handle());
    armed.reset();
    timers.run_due(boot_time());
    timer_ran = true;
    post_turn();
    wait_for_timer();
    end_event();
  });
}

void Reactor::Impl::wait_for_wake() {
  wake_event.async_wait(ReactorDescriptor::wait_read, [this](boost::system::error_code error) {
    if (error) return;
    begin_event();
    drain(wake_event.native_handle());
    post_turn();
    wait_for_wake();
    end_event();
  });
}

void Reactor::Impl::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = ::write(wake_event.native_handle(), &one, sizeof one);
}

void Reactor::Impl::drop_tasks() {
  for (ReactorTask* task = tasks.take_all(); task != nullptr;) {
    ReactorTask* next = task->next;
    if (task->run == &PostedCallback::run) delete static_cast<PostedCallback*>(task->owner);
    task = next;
  }
}

Reactor::Reactor(ReactorOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {
  impl_->wait_for_wake();
  impl_->wait_for_timer();
  impl_->post_turn();
}

Reactor::~Reactor() {
  stop();
  join();
}

void Reactor::start() {
  assert(!impl_->thread.joinable());
  impl_->thread = std::thread([this] {
    pthread_setname_np(pthread_self(), impl_->options.name.substr(0, 15).c_str());
    if (impl_->options.cpu >= 0) {
      cpu_set_t cpus;
      CPU_ZERO(&cpus);
      CPU_SET(static_cast<unsigned>(impl_->options.cpu), &cpus);
      pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
    }
    run();
  });
}

void Reactor::run() {
  [[maybe_unused]] const bool was_running = impl_->running.exchange(true);
  assert(!was_running && current_reactor == nullptr);
  current_reactor = this;
  impl_->context.restart();
  impl_->post_turn();
  impl_->context.run();
  impl_->stopping.store(false);
  current_reactor = nullptr;
  impl_->running.store(false);
}

void Reactor::stop() {
  impl_->stopping.store(true, std::memory_order_seq_cst);
  impl_->wake();
}

void Reactor::join() {
  if (impl_->thread.joinable()) impl_->thread.join();
}

bool Reactor::on_this_thread() const { return current_reactor == this; }

void Reactor::post(ReactorTask& task) {
  assert(task.run != nullptr);
  impl_->tasks.push(task);
  if (impl_->sleeping.load(std::memory_order_seq_cst) && impl_->sleeping.exchange(false)) impl_->wake();
}

void Reactor::post(Callback<> work) {
  auto posted = std::make_unique<PostedCallback>();
  posted->work = std::move(work);
  posted->task.run = &PostedCallback::run;
  posted->task.owner = posted.get();
  post(posted.release()->task);
}

void Reactor::at_end_of_turn(TurnHook& hook) {
  assert(on_this_thread() || !impl_->running);
  impl_->hooks.add(hook);
  impl_->post_turn();
}

void Reactor::add_poller(TurnPoller& poller) {
  assert(on_this_thread() || !impl_->running);
  impl_->pollers.push_back(&poller);
  impl_->post_turn();
}

void Reactor::remove_poller(TurnPoller& poller) {
  assert(on_this_thread() || !impl_->running);
  std::erase(impl_->pollers, &poller);
}

int Reactor::wake_descriptor() const { return impl_->wake_event.native_handle(); }

TimePoint Reactor::now() const { return boot_time(); }

TimerId Reactor::call_after(Duration delay, Callback<> action) {
  assert(on_this_thread() || !impl_->running);
  impl_->post_turn();
  impl_->timer_due |= delay <= Duration::zero();
  return impl_->timers.add(boot_time() + std::max(delay, Duration::zero()), std::move(action));
}

void Reactor::cancel(TimerId timer) {
  assert(on_this_thread() || !impl_->running);
  impl_->timers.cancel(timer);
}

ReactorStats Reactor::stats() const { return impl_->stats; }

struct ReactorAccess {
  static asio::io_context& context(Reactor& reactor) { return reactor.impl_->context; }
  static void begin_event(Reactor& reactor) { reactor.impl_->begin_event(); }
  static void end_event(Reactor& reactor) { reactor.impl_->end_event(); }
};

asio::io_context& io_context(Reactor& reactor) { return ReactorAccess::context(reactor); }

ReactorEvent::ReactorEvent(Reactor& reactor) : reactor_(reactor) { ReactorAccess::begin_event(reactor_); }
ReactorEvent::~ReactorEvent() { ReactorAccess::end_event(reactor_); }

}  // namespace lockstep::engine
