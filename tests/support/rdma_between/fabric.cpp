#include "tests/support/rdma_between/fabric.hpp"

#include <cerrno>
#include <cstdlib>

#include "engine/net/socket_address.hpp"
#include "engine/rdma/registration_count.hpp"
#include "tests/support/rdma_between/addresses.hpp"
#include "tests/support/rdma_between/end.hpp"
#include "tests/support/rdma_between/listener.hpp"

namespace lockstep::test {

using namespace between;

struct BetweenFabric::Impl {
  explicit Impl(Folder folder) : process(std::move(folder)) {}
  [[nodiscard]] engine::Result<Descriptor> bind(std::string& address);

  Process process;
  rdma::RegistrationCount registrations;
  Control control{process.folder};
};

engine::Result<std::unique_ptr<BetweenFabric>> BetweenFabric::open(std::string folder) {
  auto opened = Folder::open(std::move(folder));
  if (!opened) return std::unexpected(opened.error());
  return std::unique_ptr<BetweenFabric>(new BetweenFabric(std::make_unique<Impl>(std::move(*opened))));
}

engine::Result<std::unique_ptr<rdma::Fabric>> open_fabric_between_processes() {
  const char* const folder = std::getenv(BetweenFabric::kFolderVariable);
  if (folder == nullptr) {
    return engine::fail(engine::Errc::not_ready,
                        std::string(BetweenFabric::kFolderVariable) + " names no folder for the test fabric.");
  }
  return BetweenFabric::open(folder);
}

BetweenFabric::BetweenFabric(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BetweenFabric::~BetweenFabric() = default;

void BetweenFabric::add_arena(std::span<std::byte> arena) {
  impl_->process.arenas.add(arena);
  impl_->registrations.made(arena.size());
}

void BetweenFabric::remove_arena(std::span<std::byte> arena) {
  impl_->process.arenas.remove(arena);
  impl_->registrations.gone(arena.size());
}

rdma::Registrations BetweenFabric::registrations() const { return impl_->registrations.now(); }
std::vector<std::string> BetweenFabric::faults() const { return impl_->process.faults(); }

std::unique_ptr<rdma::Completions> BetweenFabric::attach(engine::Reactor& reactor) {
  return std::make_unique<Host>(impl_->process, reactor);
}

/// Port 0 becomes one that is free.
engine::Result<Descriptor> BetweenFabric::Impl::bind(std::string& address) {
  constexpr int kTries = 1000;
  const bool is_picked = port_of(address) == 0;
  for (int tries = 0;; ++tries) {
    const std::string tried = is_picked ? with_port(address, process.new_port()) : address;
    auto bound = listen_at(process.folder.name_of(tried));
    if (bound) {
      address = tried;
      return std::move(*bound);
    }
    const bool is_taken = bound.error() == std::errc::address_in_use;
    if (is_picked && is_taken && tries < kTries) continue;
    return std::unexpected(engine::socket_error("Cannot listen for RDMA on " + address, bound.error().value(),
                                                "Another process listens there on the same test fabric."));
  }
}

engine::Result<std::unique_ptr<rdma::Listener>> BetweenFabric::listen(
    rdma::Completions& home, std::string_view address, engine::Callback<std::unique_ptr<rdma::Call>> called) {
  auto at = plain_address(address);
  if (!at) return std::unexpected(at.error());
  auto socket = impl_->bind(*at);
  if (!socket) return std::unexpected(socket.error());
  auto core = std::make_shared<ListenerCore>(impl_->control, static_cast<Host&>(home).reactor, *at, std::move(called));
  impl_->control.ask([&] { core->open(std::move(*socket)); });
  return std::make_unique<BetweenListener>(impl_->control, std::move(core));
}

std::unique_ptr<rdma::QueuePair> BetweenFabric::connect(rdma::Completions& completions, rdma::Domain domain,
                                                        std::string_view from, std::string_view to,
                                                        const rdma::Wanted& wanted,
                                                        std::span<const std::byte> private_data,
                                                        rdma::QueuePairUser& user) {
  const auto target = plain_address(to);
  const auto source = plain_address(from.empty() ? to : from);
  const bool is_understood = target && source;
  End::Names names{std::string(from), std::string(to)};
  if (is_understood) {
    const bool is_any = from.empty() || port_of(*source) == 0;
    names = {is_any ? with_port(*source, impl_->process.new_port()) : *source, *target};
  }
  auto made = std::make_unique<End>(static_cast<Host&>(completions), domain, wanted, std::move(names), user);
  if (is_understood) {
    made->call(private_data);
  } else {
    made->fail(std::make_error_code(std::errc::invalid_argument));
  }
  return made;
}

}  // namespace lockstep::test
