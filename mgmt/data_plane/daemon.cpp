#include "mgmt/data_plane/daemon.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <future>
#include <semaphore>

#include <boost/asio/signal_set.hpp>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/net/kernel_tls.hpp"
#include "engine/runtime/reactor_asio.hpp"
#include "engine/runtime/system_random.hpp"
#include "mgmt/data_plane/end_watch.hpp"
#include "mgmt/data_plane/instance_lock.hpp"
#include "mgmt/data_plane/lease_clock.hpp"
#include "mgmt/data_plane/memory_bound.hpp"
#include "mgmt/data_plane/rdma_devices.hpp"
#include "mgmt/data_plane/rpc_methods.hpp"
#include "mgmt/data_plane/version.hpp"
#include "mgmt/log/log.hpp"
#include "mgmt/process/readiness.hpp"

namespace lockstep::data_plane {

using mgmt::flush_log;
using mgmt::log_error;
using mgmt::log_info;
using mgmt::log_warning;
using mgmt::tell_ready;

using engine::Errc;
using engine::Result;

namespace {

// The last resort, when sessions can't be drained either: every acknowledged write is on disk at any moment.
constexpr engine::Duration kStopPatience = std::chrono::seconds(5);
constexpr engine::Duration kDrainPatience = std::chrono::milliseconds(500);
constexpr engine::Duration kStandStillPatience = std::chrono::seconds(1);
constexpr engine::Duration kEndPatience = std::chrono::seconds(5);  // nothing is left to do by then

Result<void> check_state_folder(const std::string& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return engine::fail(Errc::refused, "The state folder " + folder + " is missing. Make it (mkdir -p " + folder +
                                           "), or set state_folder in the configuration.");
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    return engine::fail(Errc::refused,
                        "lockstepd may not write in the state folder " + folder + ": " + std::strerror(errno) + ".");
  }
  return {};
}

// Every session is a descriptor, every volume two.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

FabricWatchOptions fabric_options(const Configuration& c, const Workers& workers, const RdmaDevices& rdma) {
  FabricWatchOptions options;
  options.wanted = c.rdma;
  options.asked = c.rdma_asked;
  options.why_none = rdma.why_none();
  options.pinning.limit = pinning_limit();
  const std::uint64_t of_link = std::min(c.reactors, kMaxShards) * (ShardRdma::kMemory + (c.link_buffer_mib << 20));
  options.pinning.each_device = rdma.pinned_by_each();
  options.pinning.each_device_of_link = rdma.fabric() != nullptr ? 2 * of_link : 0;
  for (const auto& worker : workers)
    if (worker->ring->has_fixed_buffers()) options.pinning.before += worker->pool.arena().size();
  return options;
}

/// Threads that a disk holds in the kernel keep this process's descriptors from being closed after its end, for as long
/// as it hangs: the lock, the addresses and the sessions would be missing to the process that follows. What the disk
/// was given keeps its files, and they stay locked. The reactors stand still where they are: a thread does not end
/// before those have that the kernel runs for its ring.
[[noreturn]] void end_beside_a_disk(const Workers& workers) {
  flush_log();
  auto standing = std::make_shared<std::counting_semaphore<>>(0);
  for (const auto& worker : workers)
    worker->reactor.post([&ring = *worker->ring, standing] {
      ring.unlock_idle_files();
      standing->release();
      while (true) ::pause();
    });
  const auto limit = std::chrono::steady_clock::now() + kStandStillPatience;
  for (std::size_t i = 0; i < workers.size(); ++i) (void)standing->try_acquire_until(limit);
  (void)::close_range(STDERR_FILENO + 1, ~0U, 0);
  std::_Exit(EXIT_SUCCESS);
}

/// What else hangs keeps no files; but the thread that waits for it, in the kernel, keeps this process's descriptors.
[[noreturn]] void end_beside_what_hangs() {
  flush_log();
  (void)::close_range(STDERR_FILENO + 1, ~0U, 0);
  std::_Exit(EXIT_SUCCESS);
}

/// In the midst of what it does, since nothing that it holds may be said to anybody. It is started anew, as another
/// process, for which all holds that is known of copies that were set back.
[[noreturn]] void end_at_once(const std::string& why) {
  log_error(why + " This process ends; another one begins, and asks the partner what it missed.");
  flush_log();
  std::_Exit(EXIT_FAILURE);
}

NodeOptions node_options(const Configuration& c, const Workers& workers, const RdmaDevices& rdma, EndWatch& end) {
  NodeOptions options;
  options.rdma = rdma.fabric();
  options.why_no_rdma = rdma.why_none();
  options.fabric = fabric_options(c, workers, rdma);
  options.confirms_reads = asks_partner(c.lease_clock);
  options.kernel_tls = c.link_kernel_tls && engine::kernel_has_fast_aes_gcm();
  if (c.link_kernel_tls && !options.kernel_tls)
    log_info("The kernel has no AES-GCM by the processor: lockstepd encrypts what it sends its partner itself.");
  options.fence_socket = c.fence_socket;
  options.link_buffers = c.link_buffer_mib << 20;
  options.set_back = end_at_once;
  options.waits_for = [&end](const char* what) { end.waits_for(what); };
  const auto limit = memory_limit();
  Configuration used = c;
  used.rdma = rdma.fabric() != nullptr;
  if (auto problem = limit ? memory_problem(used, *limit) : std::nullopt)
    options.findings.push_back(std::move(*problem));
  for (const auto& finding : options.findings) log_warning(finding);
  return options;
}

void log_machine(const Workers& workers, const RdmaDevices& rdma) {
  if (!workers.front()->ring->has_fixed_buffers()) {
    log_info("Buffers are not pinned (ulimit -l is too low): disk access costs a little more CPU.");
  }
  log_info(rdma.fabric() ? "Hosts may come over RDMA (iSER), too, and so may the partner."
                         : rdma.why_none() + " Hosts and the partner link use TCP.");
}

}  // namespace

struct Daemon::Impl final : EventSink {
  Impl(InstanceLock l, Workers w, const Configuration& c, rdma::OpenFabric open_fabric)
      : lock(std::move(l)),
        configuration(c),
        workers(std::move(w)),
        rdma(workers, c.rdma, open_fabric),
        node(std::make_unique<Node>(workers, random, random.uuid(), c.state_folder, *this,
                                    node_options(c, workers, rdma, end))),
        methods(control, workers.front()->reactor, *node,
                [this](engine::Callback<> answered) { stop(std::move(answered)); }),
        signals(engine::io_context(control), SIGTERM, SIGINT) {}

  // Destroyed in reverse: nodes before workers, all of it after every thread but this one and the end's watch has
  // ended.
  EndWatch end{[this](const std::string& what) { end_without(what); }};
  InstanceLock lock;
  Configuration configuration;
  engine::Reactor control{{.name = "control", .cpu = -1, .busy_poll = {}}};
  engine::SystemRandom random;
  Workers workers;
  RdmaDevices rdma;
  std::unique_ptr<Node> node;
  RpcMethods methods;
  boost::asio::signal_set signals;
  std::unique_ptr<ControlServer> server;
  bool stopping = false;
  bool cut_short = false;
  std::atomic<bool> reactors_run = true;

  [[noreturn]] void end_without(const std::string& what) {
    log_warning("The end of this process waits for " + what + ", which does not answer; it ends without.");
    reactors_run ? end_beside_a_disk(workers) : end_beside_what_hangs();
  }

  void publish(Event event) override {
    control.post([this, event = std::move(event)] {
      if (server) server->publish(to_json(event));
    });
  }

  void wait_for_signal() {
    signals.async_wait([this](boost::system::error_code e, int number) {
      if (e) return;
      log_info(std::string(number == SIGTERM ? "SIGTERM" : "SIGINT") + ": leaving the pair and stopping.");
      stop({});
      wait_for_signal();
    });
  }

  /// By the node, after its shutdown: its reactor answers.
  [[nodiscard]] bool is_owed() {
    std::promise<bool> owed;
    workers.front()->reactor.post([this, &owed] { owed.set_value(node->is_owed()); });
    return owed.get_future().get();
  }

  void stop(engine::Callback<> answered) {
    if (std::exchange(stopping, true)) {
      if (answered) answered();
      return;
    }
    control.call_after(kStopPatience, [this] {
      log_warning("The stop took too long and was cut short; the partner decides by itself.");
      cut_short = true;
      control.stop();
    });
    workers.front()->reactor.post([this, answered = std::move(answered)]() mutable {
      node->shutdown([this, answered = std::move(answered)]() mutable {
        control.post([this, answered = std::move(answered)]() mutable {
          if (answered) answered();
          server->drain(kDrainPatience, [this] {
            log_info("Stopped.");
            control.stop();
          });
        });
      });
    });
  }
};

Result<std::unique_ptr<Daemon>> Daemon::create(const Configuration& configuration, rdma::OpenFabric open_fabric) {
  raise_descriptor_limit();
  if (auto folder = check_state_folder(configuration.state_folder); !folder) return std::unexpected(folder.error());
  auto lock = InstanceLock::take(configuration.rpc_socket);
  if (!lock) return std::unexpected(lock.error());
  auto workers = make_workers(configuration);
  if (!workers) return std::unexpected(workers.error());
  auto impl = std::make_unique<Impl>(std::move(*lock), std::move(*workers), configuration, open_fabric);
  auto server = ControlServer::create(impl->control, impl->lock, impl->methods);
  if (!server) return std::unexpected(server.error());
  impl->server = std::move(*server);
  return std::unique_ptr<Daemon>(new Daemon(std::move(impl)));
}

Daemon::Daemon(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Daemon::~Daemon() = default;

int Daemon::run() {
  Impl& d = *impl_;
  std::signal(SIGPIPE, SIG_IGN);
  log_info("lockstepd " + std::string(kVersion) + ", control socket " + d.configuration.rpc_socket + ", " +
           std::to_string(d.workers.size()) + " data reactor(s). Waiting to be told what to serve.");
  log_machine(d.workers, d.rdma);
  d.wait_for_signal();
  for (const auto& worker : d.workers) worker->reactor.start();
  tell_ready();
  d.control.run();
  d.end.begin(kEndPatience);
  d.end.waits_for("the reactor that its volumes are attached by");
  d.server.reset();
  const bool is_owed = !d.cut_short && d.is_owed();
  if (is_owed) log_warning("A disk has not returned what it was given; stopped without it.");
  // What is still under way can not be taken apart.
  if (d.cut_short || is_owed) end_beside_a_disk(d.workers);
  d.end.waits_for("its reactors' threads");
  for (const auto& worker : d.workers) worker->reactor.stop();
  for (const auto& worker : d.workers) worker->reactor.join();
  d.reactors_run = false;
  return 0;
}

}  // namespace lockstep::data_plane
