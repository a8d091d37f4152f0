#include "mgmt/data_plane/fabric_watch.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

#include <ifaddrs.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mgmt/log/log.hpp"

namespace lockstep::data_plane {
namespace {

rdma::Gid gid_of(const sockaddr* address) {
  rdma::Gid gid{};
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, address, sizeof v6);
    std::memcpy(gid.data(), &v6.sin6_addr, gid.size());
  } else {
    sockaddr_in v4{};
    std::memcpy(&v4, address, sizeof v4);
    gid[10] = gid[11] = 0xff;
    std::memcpy(&gid[12], &v4.sin_addr, sizeof v4.sin_addr);
  }
  return gid;
}

/// Also those that are down. A label, as in "eth1:0", is an address's, not an interface's.
std::map<rdma::Gid, std::string> interfaces_by_address() {
  std::map<rdma::Gid, std::string> found;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, &::freeifaddrs);
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_addr->sa_family != AF_INET && one->ifa_addr->sa_family != AF_INET6))
      continue;
    const std::string name = one->ifa_name;
    found.emplace(gid_of(one->ifa_addr), name.substr(0, name.find(':')));
  }
  return found;
}

void find_interfaces(std::vector<rdma::ServedAddress>& addresses) {
  const auto interfaces = interfaces_by_address();
  for (auto& served : addresses) {
    const auto gid = rdma::gid_of(served.address);
    const auto at = gid ? interfaces.find(*gid) : interfaces.end();
    served.interface = at == interfaces.end() ? "" : at->second;
  }
}

}  // namespace

FabricWatch::FabricWatch(engine::Reactor& home, FabricWatchOptions options)
    : home_(home), options_(std::move(options)) {
  use_.asked = options_.asked;
  use_.why_none = options_.why_none;
  use_.pinning = options_.pinning;
}

void FabricWatch::end() {
  if (looker_.joinable()) looker_.join();
}

void FabricWatch::serve(const DesiredState& state) {
  auto addresses = addresses_for_rdma(state);
  if (addresses == use_.addresses && state.partner.has_value() == use_.has_partner) return;
  use_.addresses = std::move(addresses);
  use_.has_partner = state.partner.has_value();
  look_now();
}

void FabricWatch::count(const iser::Figures& hosts, const iser::Figures& link) {
  const bool by_hosts = hosts.messages_in > 0, by_link = link.messages_in > 0;
  if (by_hosts == use_.hosts_use && by_link == use_.link_uses) return;
  use_.hosts_use = by_hosts;
  use_.link_uses = by_link;
  look_now();
}

void FabricWatch::look_now() {
  if (!options_.wanted) return;
  if (looking_)
    again_ = true;
  else
    look();
}

void FabricWatch::look() {
  home_.cancel(std::exchange(timer_, engine::TimerId::none));
  if (looker_.joinable()) looker_.join();  // it posted what led here: it has ended, or is about to
  try {
    looker_ = std::thread([this, use = use_]() mutable {
      find_interfaces(use.addresses);
      home_.post([this, seen = rdma::look_at_fabric(options_.root, options_.ask_flow_control), use = std::move(use)] {
        take(seen, use);
      });
    });
    looking_ = true;
  } catch (const std::system_error&) {  // the system has no thread now
    look_later();
  }
}

void FabricWatch::look_later() {
  timer_ = home_.call_after(kEvery, [this] { look(); });
}

void FabricWatch::take(const rdma::FabricView& seen, const rdma::FabricUse& use) {
  looking_ = false;
  ++looks_;
  auto now = check_.look(seen, use, home_.now());
  counters_ = rdma::counters_of(seen, use);
  log_new(now);
  findings_ = std::move(now);
  if (std::exchange(again_, false)) return look();
  look_later();
}

/// Figures in the sentence may change, of one that was told.
void FabricWatch::log_new(const std::vector<rdma::Finding>& now) const {
  for (const auto& finding : now) {
    const bool told = std::ranges::any_of(findings_, [&](const rdma::Finding& before) {
      return before.id == finding.id && before.subject == finding.subject;
    });
    if (told) continue;
    mgmt::log(finding.severity == rdma::Severity::warning ? mgmt::LogLevel::warning : mgmt::LogLevel::info,
              finding.message + " " + finding.advice);
  }
}

std::vector<rdma::ServedAddress> addresses_for_rdma(const DesiredState& state) {
  std::vector<rdma::ServedAddress> all;
  for (const auto& portal : state.target.portals) all.push_back({portal.host, {}, false});
  if (!state.partner) return all;
  const LinkSpec& link = state.partner->link;
  all.push_back({link.listen.host, {}, true});
  for (const PathSpec& path : link.more_paths)
    if (!path.last_resort) all.push_back({path.listen.host, {}, true});
  return all;
}

std::optional<std::uint64_t> pinning_limit() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct held[_LINUX_CAPABILITY_U32S_3]{};
  const bool told = ::syscall(SYS_capget, &header, held) == 0;
  if (told && (held[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) != 0) return {};
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return limit.rlim_cur;
}

}  // namespace lockstep::data_plane
