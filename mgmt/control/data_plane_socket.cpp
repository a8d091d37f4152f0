#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "mgmt/control/data_plane.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::mgmt {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr std::size_t kMaxLine = std::size_t{16} << 20;  // rpc.md: what lockstepd leaves unsent is less
constexpr std::size_t kMaxWaiting = 64;
constexpr milliseconds kBetweenAttempts{500};
constexpr std::uint64_t kSubscription = 0;  // the id of events.subscribe

struct Waiting {
  bool answered = false;
  Outcome<std::string> answer = std::string();
};

std::unexpected<Refusal> away(std::string detail) { return refuse(RefusalKind::data_plane_away, std::move(detail)); }

}  // namespace

struct DataPlaneSocket::Impl {
  Impl(std::string p, DataPlaneEvents e) : path(std::move(p)), events(std::move(e)), wake(::eventfd(0, EFD_CLOEXEC)) {}
  ~Impl() { ::close(wake); }

  std::string path;
  DataPlaneEvents events;
  int wake;
  std::atomic<bool> stopping = false;
  std::thread thread;

  std::mutex mutex;  ///< guards what follows, and writing to the socket
  std::condition_variable answered;
  int socket = -1;
  std::uint64_t next_id = 1;
  std::map<std::uint64_t, std::shared_ptr<Waiting>> waiting;

  void run();
  int connect_once() const;
  void serve(int fd);
  bool take_lines(std::string& pending, std::size_t searched);
  void take_line(std::string_view line);
  bool send_locked(const json& request);
  void drop_connection();
  bool pause(milliseconds time) const;
};

// False when it is time to stop.
bool DataPlaneSocket::Impl::pause(milliseconds time) const {
  pollfd wait{wake, POLLIN, 0};
  ::poll(&wait, 1, static_cast<int>(time.count()));
  return !stopping;
}

int DataPlaneSocket::Impl::connect_once() const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return -1;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const timeval send_patience{5, 0};  // a hung lockstepd must not hang management
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &send_patience, sizeof send_patience);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  ::close(fd);
  return -1;
}

void DataPlaneSocket::Impl::run() {
  while (!stopping) {
    const int fd = connect_once();
    if (fd >= 0) {
      {
        const std::lock_guard lock(mutex);
        socket = fd;
        send_locked(
            {{"jsonrpc", "2.0"}, {"id", kSubscription}, {"method", "events.subscribe"}, {"params", json::object()}});
      }
      events.connected(true);
      serve(fd);
      drop_connection();
      events.connected(false);
    }
    if (!pause(kBetweenAttempts)) return;
  }
}

void DataPlaneSocket::Impl::serve(int fd) {
  std::string pending;
  std::array<char, 65536> buffer;
  std::array<pollfd, 2> wait{pollfd{fd, POLLIN, 0}, pollfd{wake, POLLIN, 0}};
  while (!stopping) {
    if (::poll(wait.data(), wait.size(), -1) < 0 && errno != EINTR) return;
    if (stopping || !(wait[0].revents)) continue;
    const ssize_t n = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    const std::size_t searched = pending.size();
    pending.append(buffer.data(), static_cast<std::size_t>(n));
    if (!take_lines(pending, searched)) return;
  }
}

// There is no line's end in what was searched before.
bool DataPlaneSocket::Impl::take_lines(std::string& pending, std::size_t searched) {
  std::size_t begin = 0;
  for (auto end = pending.find('\n', searched); end != std::string::npos; end = pending.find('\n', begin)) {
    take_line(std::string_view(pending).substr(begin, end - begin));
    begin = end + 1;
  }
  pending.erase(0, begin);
  if (pending.size() <= kMaxLine) return true;
  log_error(fmt::format("lockstepd sent a line of more than {} bytes: connecting to it anew.", kMaxLine));
  return false;
}

void DataPlaneSocket::Impl::take_line(std::string_view line) {
  const json message = json::parse(line, nullptr, false);
  if (!message.is_object()) {
    log_error("lockstepd sent a line that is not a JSON object.");
    return;
  }
  if (message.value("method", "") == "event") {
    events.event(message.value("params", json::object()).dump());
    return;
  }
  const auto id = message.find("id");
  if (id != message.end() && id->is_null())
    log_error(fmt::format("lockstepd can't make out what it was sent: {}", line));
  if (id == message.end() || !id->is_number_unsigned()) return;
  const std::lock_guard lock(mutex);
  const auto found = waiting.find(id->get<std::uint64_t>());
  if (found == waiting.end()) return;  // nobody waits any more
  Waiting& w = *found->second;
  w.answered = true;
  if (const auto error = message.find("error"); error != message.end() && error->is_object())
    w.answer = refuse(RefusalKind::conflict, error->value("message", "lockstepd refused without a reason."));
  else
    w.answer = message.value("result", json()).dump();
  waiting.erase(found);
  answered.notify_all();
}

bool DataPlaneSocket::Impl::send_locked(const json& request) {
  const std::string line = request.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  std::size_t sent = 0;
  while (sent < line.size()) {
    const ssize_t n = ::send(socket, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      ::shutdown(socket, SHUT_RDWR);  // half a line is out: the connection is of no more use
      return false;
    }
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

void DataPlaneSocket::Impl::drop_connection() {
  const std::lock_guard lock(mutex);
  ::close(socket);
  socket = -1;
  for (auto& [id, w] : waiting) {
    w->answered = true;
    w->answer = away("lockstepd's control connection broke before it answered.");
  }
  waiting.clear();
  answered.notify_all();
}

DataPlaneSocket::DataPlaneSocket(std::string path, DataPlaneEvents events)
    : impl_(std::make_unique<Impl>(std::move(path), std::move(events))) {}
DataPlaneSocket::~DataPlaneSocket() { stop(); }

void DataPlaneSocket::start() {
  impl_->thread = std::thread([this] { impl_->run(); });
}

void DataPlaneSocket::stop() {
  if (!impl_->thread.joinable()) return;
  impl_->stopping = true;
  const std::uint64_t one = 1;
  (void)!::write(impl_->wake, &one, sizeof one);
  impl_->thread.join();
}

Outcome<std::string> DataPlaneSocket::call(const std::string& method, const std::string& parameters,
                                           milliseconds patience) {
  std::unique_lock lock(impl_->mutex);
  if (impl_->socket < 0) return away(fmt::format("lockstepd does not answer at {}. Is it running?", impl_->path));
  if (impl_->waiting.size() >= kMaxWaiting) return away("Too many requests wait for lockstepd already. Try again.");
  const std::uint64_t id = impl_->next_id++;
  json params = json::parse(parameters, nullptr, false);
  if (!impl_->send_locked({{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", std::move(params)}}))
    return away("lockstepd's control connection broke.");
  const auto w = std::make_shared<Waiting>();
  impl_->waiting.emplace(id, w);
  if (!impl_->answered.wait_for(lock, patience, [&] { return w->answered; })) {
    impl_->waiting.erase(id);
    return away(fmt::format("lockstepd did not answer {} within {} seconds.", method, patience.count() / 1000.0));
  }
  return w->answer;
}

}  // namespace lockstep::mgmt
