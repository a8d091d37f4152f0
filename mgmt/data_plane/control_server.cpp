#include "mgmt/data_plane/control_server.hpp"

#include <unordered_set>

#include <boost/asio/local/stream_protocol.hpp>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/runtime/reactor_asio.hpp"
#include "mgmt/data_plane/control_client.hpp"

namespace lockstep::data_plane {

namespace asio = boost::asio;
using asio::local::stream_protocol;
using engine::Errc;

struct ControlServer::Impl final : ControlClientOwner, std::enable_shared_from_this<Impl> {
  Impl(engine::Reactor& r, const InstanceLock& lock, RpcHandler& h)
      : reactor(r), path(lock.socket_path()), handler(h), acceptor(engine::io_context(r)) {}

  engine::Reactor& reactor;
  std::string path;
  RpcHandler& handler;
  stream_protocol::acceptor acceptor;
  bool bound = false;
  std::unordered_set<std::shared_ptr<ControlClient>> clients;

  engine::Result<void> listen() {
    if (path.size() >= sizeof(sockaddr_un::sun_path)) {
      return engine::fail(Errc::refused, "The path of the control socket is longer than the " +
                                             std::to_string(sizeof(sockaddr_un::sun_path) - 1) +
                                             " bytes that Unix sockets allow: " + path);
    }
    struct stat there {};
    if (::lstat(path.c_str(), &there) == 0) {
      if (!S_ISSOCK(there.st_mode)) {
        return engine::fail(Errc::refused,
                            path + " is there and is not a socket. Remove it, or set another rpc_socket.");
      }
      ::unlink(path.c_str());  // the lock is ours: whoever made it is gone
    }
    boost::system::error_code e;
    acceptor.open(stream_protocol(), e);
    const mode_t before = ::umask(0177);
    if (!e) acceptor.bind(stream_protocol::endpoint(path), e);
    ::umask(before);
    bound = !e;
    if (!e) acceptor.listen(64, e);
    if (e) return engine::fail(Errc::io_error, "Can't listen on the control socket " + path + ": " + e.message() + ".");
    accept();
    return {};
  }

  void accept() {
    acceptor.async_accept([self = shared_from_this()](boost::system::error_code e, stream_protocol::socket socket) {
      if (!self->acceptor.is_open()) return;
      if (!e) {
        self->admit(std::move(socket));
        return self->accept();
      }
      // The process or the system has no descriptor or no memory left: try again when some may have been given back.
      self->reactor.call_after(std::chrono::milliseconds(100), [self] {
        if (self->acceptor.is_open()) self->accept();
      });
    });
  }

  void admit(stream_protocol::socket socket) {
    auto client = std::make_shared<ControlClient>(std::move(socket), *this);
    if (clients.size() >= kMaxClients) {
      return client->refuse("There are " + std::to_string(kMaxClients) + " clients already; try again later.");
    }
    clients.insert(client);
    client->start();
  }

  void on_request(const RpcRequest& request, RpcReply reply) override { handler.handle(request, std::move(reply)); }
  void on_closed(const std::shared_ptr<ControlClient>& client) override { clients.erase(client); }

  void close() {
    boost::system::error_code ignored;
    acceptor.close(ignored);
    for (const auto& client : std::exchange(clients, {})) client->close();
    if (bound) ::unlink(path.c_str());
  }

  void drain(engine::TimePoint until, engine::Callback<> done) {
    bool sent = true;
    for (const auto& client : clients) sent = sent && client->all_sent();
    if (sent || reactor.now() >= until) return done();
    reactor.call_after(
        std::chrono::milliseconds(2),
        [self = shared_from_this(), until, done = std::move(done)]() mutable { self->drain(until, std::move(done)); });
  }
};

engine::Result<std::unique_ptr<ControlServer>> ControlServer::create(engine::Reactor& reactor, const InstanceLock& lock,
                                                                     RpcHandler& handler) {
  auto impl = std::make_shared<Impl>(reactor, lock, handler);
  std::unique_ptr<ControlServer> server(new ControlServer(impl));
  if (auto outcome = impl->listen(); !outcome) return std::unexpected(outcome.error());
  return server;
}

ControlServer::ControlServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
ControlServer::~ControlServer() { impl_->close(); }

void ControlServer::publish(const nlohmann::json& event) {
  const std::string line = notification_line("event", event);
  const auto clients = impl_->clients;  // a client that can't keep up leaves the set
  for (const auto& client : clients) client->publish(line);
}

void ControlServer::drain(engine::Duration patience, engine::Callback<> done) {
  impl_->drain(impl_->reactor.now() + patience, std::move(done));
}

}  // namespace lockstep::data_plane
