#include "tests/support/rdma/network.hpp"

#include <algorithm>

#include "tests/support/rdma/end.hpp"

namespace lockstep::test::fabric {
namespace {

std::pair<std::string_view, std::string_view> parts_of(std::string_view address) {
  const auto colon = address.rfind(':');
  if (colon == std::string_view::npos) return {address, {}};
  return {address.substr(0, colon), address.substr(colon + 1)};
}

bool is_any(std::string_view host) { return host == "0.0.0.0" || host == "[::]"; }

std::vector<std::byte> padded(std::span<const std::byte> bytes, std::size_t size) {
  std::vector<std::byte> whole(bytes.begin(), bytes.end());
  whole.resize(std::max(size, whole.size()));
  return whole;
}

rdma::Limits limits_of(const rdma::Wanted& wanted, const FakeDevice& own) {
  return {.sends = std::min(wanted.sends, own.sends),
          .receives = std::min(wanted.receives, own.receives),
          .reads = std::min(wanted.reads, own.reads),
          .max_inline = std::min(wanted.max_inline, own.max_inline),
          .max_message = own.max_message,
          .invalidates = own.invalidates};
}

class FakePair final : public rdma::QueuePair {
 public:
  FakePair(std::shared_ptr<Network> network, End& end) : network_(std::move(network)), end_(end) {}
  ~FakePair() override { end_.dropped(); }

  void receive(std::span<std::byte> first, std::span<std::byte> second, std::uint64_t id) override {
    end_.receive(first, second, id);
  }
  void send(const rdma::Send& send) override { end_.send(send); }
  void write(std::span<const std::byte> from, const rdma::Remote& to, std::uint64_t id) override {
    end_.write(from, to, id);
  }
  void read(std::span<std::byte> into, const rdma::Remote& from, std::uint64_t id) override {
    end_.read(into, from, id);
  }
  [[nodiscard]] bool is_registered(std::span<const std::byte> memory) const override {
    return end_.is_registered(memory);
  }
  [[nodiscard]] rdma::Remote expose(std::span<std::byte> memory, rdma::Access access) override {
    return end_.expose(memory, access);
  }
  void hide(std::uint32_t key, std::uint64_t id) override { end_.hide(key, id); }
  void await_sends() override { end_.await_sends(); }
  void close(engine::Callback<> closed) override { end_.close(std::move(closed)); }
  [[nodiscard]] const rdma::Limits& limits() const override { return end_.limits; }
  [[nodiscard]] const std::string& local_address() const override { return end_.local_address; }
  [[nodiscard]] const std::string& peer_address() const override { return end_.peer_address; }

 private:
  std::shared_ptr<Network> network_;
  End& end_;
};

class FakeCall final : public rdma::Call {
 public:
  FakeCall(std::shared_ptr<Network> network, Connection& connection, std::vector<std::byte> private_data,
           bool can_invalidate)
      : network_(std::move(network)),
        connection_(connection),
        private_data_(std::move(private_data)),
        can_invalidate_(can_invalidate) {}
  ~FakeCall() override {
    if (connection_.answerer == nullptr) network_->refuse(connection_);
  }

  [[nodiscard]] const std::string& local_address() const override { return connection_.caller->peer_address; }
  [[nodiscard]] const std::string& peer_address() const override { return connection_.caller->local_address; }
  [[nodiscard]] std::span<const std::byte> private_data() const override { return private_data_; }
  [[nodiscard]] bool can_invalidate() const override { return can_invalidate_; }
  [[nodiscard]] std::unique_ptr<rdma::QueuePair> accept(rdma::Completions& completions, rdma::Domain domain,
                                                        const rdma::Wanted& wanted,
                                                        std::span<const std::byte> private_data,
                                                        rdma::QueuePairUser& user) override {
    auto& host = dynamic_cast<Host&>(completions);
    return handle_of(network_, network_->accept(connection_, host, domain, wanted, private_data, user));
  }

 private:
  std::shared_ptr<Network> network_;
  Connection& connection_;
  std::vector<std::byte> private_data_;
  bool can_invalidate_;
};

}  // namespace

std::unique_ptr<rdma::QueuePair> handle_of(std::shared_ptr<Network> network, End& end) {
  return std::make_unique<FakePair>(std::move(network), end);
}

// --- Timers, machines and hosts -------------------------------------------------------------------------------------

void Timers::after(engine::Duration delay, engine::Callback<> action) {
  const std::uint64_t number = ++last_;
  pending_[number] = clock_.call_after(delay, [this, number, run = std::move(action)]() mutable {
    pending_.erase(number);
    run();
  });
}

void Timers::clear() {
  const auto pending = std::move(pending_);
  pending_.clear();
  for (const auto& [number, timer] : pending) clock_.cancel(timer);
}

bool Machine::has(std::span<const std::byte> bytes) const {
  return std::ranges::any_of(arenas, [&](auto arena) {
    return bytes.data() >= arena.data() && bytes.data() + bytes.size() <= arena.data() + arena.size();
  });
}

const Grant* Machine::grant_to_peer_of(const End& end, std::uint32_t key) const {
  const auto found = grants.find(key);
  if (found == grants.end() || found->second.domain != end.domain) return nullptr;
  const End* const window_of = found->second.window_of;
  return window_of == nullptr || window_of == &end ? &found->second : nullptr;
}

std::error_code Machine::take_failure(rdma::Work work) {
  const auto found = std::ranges::find(failing, work, &std::pair<rdma::Work, std::error_code>::first);
  if (found == failing.end()) return {};
  const auto why = found->second;
  failing.erase(found);
  return why;
}

Host::~Host() { network->host_ends(*this); }

void Network::host_ends(Host& host) {
  for (End* const end : open_ends()) {
    if (end->host() != &host) continue;
    fault("connection " + std::to_string(end->connection().id) +
          ": its completions were destroyed before it was closed");
    end->abandon();
  }
  std::erase_if(listeners, [&](const auto& listener) { return listener->home == &host; });
}

void Network::abandon(Host& host) {
  for (End* const end : open_ends()) {
    if (end->host() == &host) end->abandon();
  }
  std::erase_if(listeners, [&](const auto& listener) { return listener->home == &host; });
  host.timers.clear();
}

std::vector<End*> Network::open_ends() const {
  std::vector<End*> open;
  for (const auto& [id, connection] : connections) {
    for (End* const end : {connection->caller.get(), connection->answerer.get()}) {
      if (end != nullptr && !end->is_closed()) open.push_back(end);
    }
  }
  return open;
}

// --- The network ----------------------------------------------------------------------------------------------------

engine::Duration Network::draw(engine::Duration most) {
  return engine::Duration(static_cast<std::int64_t>(dice.below(static_cast<std::uint64_t>(most.count()) + 1)));
}

bool Network::is_silent(const Connection& connection) const {
  return connection.is_silent || connection.caller->machine.is_silent ||
         (connection.called != nullptr && connection.called->is_silent);
}

void Network::carry(Connection& connection, engine::Callback<> action) {
  after(delays.calls, [this, &connection, run = std::move(action)]() mutable {
    if (is_silent(connection)) {
      held_.emplace_back(&connection, std::move(run));
    } else {
      run();
    }
  });
}

void Network::resume() {
  auto held = std::move(held_);
  held_.clear();
  for (auto& [connection, action] : held) carry(*connection, std::move(action));
  for (End* const end : open_ends()) end->start_wire();
}

bool Network::takes_damage(rdma::Work work, std::size_t bytes) {
  const auto found =
      std::ranges::find_if(damages, [&](const auto& one) { return one.work == work && one.least <= bytes; });
  if (bytes == 0 || found == damages.end()) return false;
  if (found->passed != 0) return --found->passed, false;
  damages.erase(found);
  return true;
}

Connection* Network::find(std::uint32_t id) {
  const auto found = connections.find(id);
  return found == connections.end() ? nullptr : found->second.get();
}

std::string Network::pick_port(std::string_view address) {
  const auto [host, port] = parts_of(address);
  if (port != "0" && !port.empty()) return std::string(address);
  return std::string(host) + ":" + std::to_string(++last_port_);
}

ListenerState* Network::listener(std::string_view address) const {
  const auto [host, port] = parts_of(address);
  for (const auto& listener : listeners) {
    const auto [own_host, own_port] = parts_of(listener->address);
    if (own_port == port && (own_host == host || is_any(own_host))) return listener.get();
  }
  return nullptr;
}

// --- Calls ----------------------------------------------------------------------------------------------------------

End& Network::call(Host& host, rdma::Domain domain, std::string_view from, std::string_view to,
                   const rdma::Wanted& wanted, std::span<const std::byte> private_data, rdma::QueuePairUser& user) {
  auto& connection = *(connections[++last_connection_] = std::make_unique<Connection>());
  connection.id = last_connection_;
  connection.caller = std::make_unique<End>(*this, connection, host, domain, user);
  End& caller = *connection.caller;
  caller.limits = limits_of(wanted, host.machine.device);
  caller.windows = wanted.windows;
  caller.local_address = pick_port(from.empty() ? std::string(parts_of(to).first) + ":0" : std::string(from));
  caller.peer_address = std::string(to);
  if (private_data.size() > 56) fault("private data of a call is longer than 56 bytes");
  if (const auto why = caller.why_refused()) {
    caller.lose(why);
  } else if (host.machine.is_removed) {
    caller.device_removed();
  } else {
    carry(connection, [this, &connection, data = std::vector(private_data.begin(), private_data.end())]() mutable {
      arrived(connection, std::move(data));
    });
    timers_.after(delays.unanswered, [&caller] { caller.nobody_answered(); });
  }
  return caller;
}

void Network::arrived(Connection& connection, std::vector<std::byte> private_data) {
  if (connection.caller->is_closing() || connection.caller->is_lost()) return;
  ListenerState* const found = listener(connection.caller->peer_address);
  if (found == nullptr) return refuse(connection);
  Machine& machine = found->home->machine;
  if (machine.is_removed) return;
  connection.called = &machine;
  if (is_silent(connection)) {
    return carry(connection, [this, &connection, data = std::move(private_data)]() mutable {
      arrived(connection, std::move(data));
    });
  }
  auto call = std::make_unique<FakeCall>(
      shared_from_this(), connection, padded(private_data, machine.device.request_padding), machine.device.invalidates);
  const auto state = std::ranges::find(listeners, found, &std::shared_ptr<ListenerState>::get);
  found->home->timers.after(draw(delays.told), [listener = std::weak_ptr(*state), made = std::move(call)]() mutable {
    if (const auto here = listener.lock()) here->called(std::move(made));
  });
}

void Network::refuse(Connection& connection) {
  carry(connection, [&connection] { connection.caller->lose(std::make_error_code(std::errc::connection_refused)); });
}

End& Network::accept(Connection& connection, Host& host, rdma::Domain domain, const rdma::Wanted& wanted,
                     std::span<const std::byte> private_data, rdma::QueuePairUser& user) {
  if (connection.answerer != nullptr) {
    fault("a call was accepted twice");
    return *connection.answerer;
  }
  if (private_data.size() > 196) fault("private data of an answer is longer than 196 bytes");
  connection.answerer = std::make_unique<End>(*this, connection, host, domain, user);
  End& end = *connection.answerer;
  const End& caller = *connection.caller;
  end.limits = limits_of(wanted, host.machine.device);
  end.limits.reads = std::min(end.limits.reads, caller.machine.device.serves_reads);
  end.windows = wanted.windows;
  end.local_address = caller.peer_address;
  end.peer_address = caller.local_address;
  if (const auto why = end.why_refused()) {
    end.lose(why);
    refuse(connection);
  } else if (host.machine.is_removed) {
    end.device_removed();
  } else {
    carry(connection, [this, &connection, data = std::vector(private_data.begin(), private_data.end())]() mutable {
      answered(connection, std::move(data));
    });
    timers_.after(delays.unanswered, [&end] { end.nobody_answered(); });
  }
  return end;
}

void Network::answered(Connection& connection, std::vector<std::byte> private_data) {
  End& caller = *connection.caller;
  End& answerer = *connection.answerer;
  if (caller.is_closing() || caller.is_lost()) {
    return carry(connection, [&answerer] { answerer.lose(std::make_error_code(std::errc::connection_reset)); });
  }
  caller.limits.reads = std::min(caller.limits.reads, answerer.machine.device.serves_reads);
  caller.stand(padded(private_data, caller.machine.device.answer_padding));
  carry(connection, [&answerer] { answerer.stand({}); });
}

}  // namespace lockstep::test::fabric
