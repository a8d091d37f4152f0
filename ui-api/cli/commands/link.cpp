// lockstep link: the paths of the replication link
#include <algorithm>
#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "mgmt/control/address.hpp"
#include "ui-api/cli/commands.hpp"
#include "ui-api/cli/size.hpp"
#include "ui-api/cli/table.hpp"

namespace lockstep::cli {
namespace {

constexpr unsigned kPatienceMs = 15'000, kLookMs = 500;

bool is_there(const json& end) {
  const std::string state = text(end, "state");
  return state == "proven" || state == "proving";
}

bool is_there_on_both(const json& path) {
  const json& ends = part(path, "nodes");
  return ends.size() == 2 && std::ranges::all_of(ends, is_there);
}

/// "node-a: It does not answer." for each node that does not use it.
std::string why_not(const json& path, const std::string& indent) {
  std::string why;
  for (const json& end : part(path, "nodes")) {
    if (is_there(end)) continue;
    std::string reason = text(end, "problem");
    if (reason.empty()) reason = text(end, "state") + ".";
    why += fmt::format("{}{}: {}\n", indent, text(end, "node"), printable(reason));
  }
  return why;
}

std::string round_trip_of(const json& ends) {
  for (const json& end : ends)
    if (part(end, "round_trip_us").is_number())
      return fmt::format("{:.2f} ms", static_cast<double>(number(end, "round_trip_us")) / 1000);
  return "-";
}

/// What it carries both ways, as the two nodes count it.
std::uint64_t bytes_of(const json& ends) {
  std::uint64_t all = 0;
  for (const json& end : ends) all += number(end, "bytes_out") + number(end, "bytes_in");
  return all;
}

/// Whose kernel encrypts what they send.
std::string kernels_of(const json& ends) {
  std::string nodes;
  std::size_t count = 0;
  for (const json& end : ends) {
    if (!flag(end, "kernel_tls")) continue;
    nodes = text(end, "node");
    ++count;
  }
  if (count == 0) return "";
  return count == ends.size() ? ", TLS by the kernel" : ", TLS by the kernel of " + nodes;
}

/// "tcp, rdma proving" where there is both, "tcp, rdma proven / -" where one node does not try it; "tcp" where none
/// does.
std::string transport_of(const json& ends) {
  std::string transport, states, last;
  bool any = false;
  for (const json& end : ends) {
    if (transport.empty()) transport = text(end, "transport");
    const json& rdma = part(end, "rdma");
    any |= rdma.is_object();
    const std::uint64_t lost = number(rdma, "losses");
    const std::string here =
        rdma.is_object() ? text(rdma, "state") + (lost != 0 ? fmt::format(" ({} lost)", lost) : "") : "-";
    if (here != last) states += (states.empty() ? "" : " / ") + here;
    last = here;
  }
  return transport + kernels_of(ends) + (any ? ", rdma " + states : "");
}

/// What stands below the table already, of what carries the data, is not said again.
std::string why_not_over_rdma(const json& path, const json& link) {
  std::string why;
  for (const json& end : part(path, "nodes")) {
    const std::string problem = text(part(end, "rdma"), "problem");
    const bool is_said = std::ranges::any_of(part(link, "carriers"), [&](const json& carrier) {
      return text(carrier, "side") == text(end, "side") && text(carrier, "why_not_rdma") == problem;
    });
    if (!problem.empty() && !is_said) why += fmt::format("  {}: {}\n", text(end, "node"), printable(problem));
  }
  return why;
}

/// A sentence for each node.
std::string carriers_text(const json& link) {
  std::string lines;
  for (const json& carrier : part(link, "carriers")) {
    const std::string transport = text(carrier, "transport"), why = text(carrier, "why_not_rdma");
    const std::string cipher = text(carrier, "cipher");
    const std::string encrypted =
        cipher.empty() ? "." : fmt::format(", encrypted with {}: the processor copies it for that.", printable(cipher));
    if (transport == "rdma") lines += fmt::format("{}: RDMA carries the data{}\n", text(carrier, "node"), encrypted);
    if (transport == "tcp")
      lines +=
          fmt::format("{}: TCP carries the data.{}\n", text(carrier, "node"), why.empty() ? "" : " " + printable(why));
  }
  return lines;
}

std::string paths_text(const json& link) {
  Table table{">#", "ADDRESS OF A", "ADDRESS OF B", "TRANSPORT", "STATE", ">ROUND TRIP", ">BYTES", ">LOSSES", "FOR"};
  std::string below;
  for (const json& path : part(link, "paths")) {
    const json& ends = part(path, "nodes");
    std::string addresses[2], state;
    std::uint64_t losses = 0;
    for (const json& end : ends) {
      addresses[text(end, "side") == "b" ? 1 : 0] = text(end, "address");
      if (const std::string here = text(end, "state"); state != here) state += (state.empty() ? "" : " / ") + here;
      losses = std::max(losses, number(end, "losses"));
    }
    table.add({std::to_string(number(path, "number")), or_dash(addresses[0]), or_dash(addresses[1]),
               or_dash(transport_of(ends)), or_dash(state), round_trip_of(ends), format_size(bytes_of(ends)),
               std::to_string(losses), flag(path, "last_resort") ? "last resort" : "data"});
    if (const std::string why = why_not(path, "  "); !why.empty())
      below += fmt::format("Path {} is not used:\n{}", number(path, "number"), why);
    if (const std::string why = why_not_over_rdma(path, link); !why.empty())
      below += fmt::format("Path {} is not used over RDMA:\n{}", number(path, "number"), why);
  }
  return table.text() + below + carriers_text(link);
}

/// `address` with a port: where it has none, that of the first path at this side.
Outcome<std::string> with_port(const std::string& address, const char* side, const json& link) {
  if (mgmt::parse_address(address)) return address;
  const json& paths = part(link, "paths");
  if (paths.empty()) return address;
  for (const json& end : part(paths.front(), "nodes")) {
    const auto first = mgmt::parse_address(text(end, "address"));
    if (text(end, "side") != side || !first) continue;
    for (const char* form : {"{}:{}", "[{}]:{}"}) {
      const std::string whole = fmt::format(fmt::runtime(form), address, first->port);
      if (mgmt::parse_address(whole)) return whole;
    }
  }
  return fail(Exit::usage, fmt::format("\"{}\" is no address: say --{} ADDRESS:PORT.", address, side));
}

const json* path_at(const json& link, const std::string& address) {
  for (const json& path : part(link, "paths"))
    for (const json& end : part(path, "nodes"))
      if (text(end, "address") == address) return &path;
  return nullptr;
}

Outcome<void> wait_until_there(Context& context, const std::string& address) {
  for (unsigned waited = 0;; waited += kLookMs) {
    const auto link = context.api.get("/pair/link");
    if (!link) return std::unexpected(link.error());
    const json* path = path_at(*link, address);
    const bool there = path && is_there_on_both(*path);
    if (there || waited >= kPatienceMs) context.show(*link, paths_text);
    if (there) return {};
    if (waited >= kPatienceMs)
      return fail(Exit::refused, "The path is configured, but is not there yet, and the link goes on without it:\n" +
                                     (path ? why_not(*path, "  ") : "  This node does not know of it yet.\n") +
                                     "`lockstep link` says when it is.");
    context.sleep(kLookMs);
  }
}

void add_link_add(CLI::App& link, Action& chosen) {
  struct Options {
    std::string a, b;
    bool last_resort = false;
  };
  auto o = std::make_shared<Options>();
  auto* c = link.add_subcommand("add", "Have the link go over a further path, in use");
  c->footer(
      "Both nodes must be up. An address without a port has that of the first path. Four paths at the most.\n"
      "Examples:\n"
      "  lockstep link add --a 10.9.0.11 --b 10.9.0.12\n"
      "  lockstep link add --a 10.0.0.11:3261 --b 10.0.0.12:3261 --last-resort");
  c->add_option("--a", o->a, "Where node A is reached on that network")->type_name("ADDRESS:PORT")->required();
  c->add_option("--b", o->b, "Where node B is reached on that network")->type_name("ADDRESS:PORT")->required();
  c->add_flag("--last-resort", o->last_resort, "It is to carry data only while no other path does");
  c->callback([o, &chosen] {
    chosen = [o](Context& context) -> Outcome<void> {
      const auto before = context.api.get("/pair/link");
      if (!before) return std::unexpected(before.error());
      const auto a = with_port(o->a, "a", *before);
      if (!a) return std::unexpected(a.error());
      const auto b = with_port(o->b, "b", *before);
      if (!b) return std::unexpected(b.error());
      const auto added =
          context.api.post("/pair/link/paths", json{{"a", *a}, {"b", *b}, {"last_resort", o->last_resort}});
      if (!added) return std::unexpected(added.error());
      return wait_until_there(context, *a);
    };
  });
}

void add_link_remove(CLI::App& link, Action& chosen) {
  auto address = std::make_shared<std::string>();
  auto* c = link.add_subcommand("remove", "Have the link not go over a path any more, in use");
  c->footer("The first path stays: `lockstep node set --link-address` moves it.");
  c->add_option("address", *address, "Either node's address of the path")->type_name("ADDRESS:PORT")->required();
  c->callback([address, &chosen] {
    chosen = [address](Context& context) -> Outcome<void> {
      const auto removed = context.api.remove("/pair/link/paths/" + percent_encode(*address));
      if (!removed) return std::unexpected(removed.error());
      if (!context.json_output) context.out << "The link goes over the other paths.\n";
      return {};
    };
  });
}

std::string rate_of(std::uint64_t bytes_a_second) {
  return fmt::format("{:.1f} MiB/s", static_cast<double>(bytes_a_second) / 1048576);
}

double microseconds(const json& size, const char* what) {
  const json& value = part(size, what);
  return value.is_number() ? value.get<double>() : 0;
}

std::string measurement_text(const json& found) {
  Table table{">SIZE", ">LEAST", ">MEDIAN", ">P99", ">RATE"};
  for (const json& size : part(found, "sizes"))
    table.add({format_size(number(size, "bytes")), fmt::format("{:.0f} us", microseconds(size, "least_us")),
               fmt::format("{:.0f} us", microseconds(size, "median_us")),
               fmt::format("{:.0f} us", microseconds(size, "p99_us")), rate_of(number(size, "bytes_a_second"))});
  std::string out = fmt::format("Path {}, from {} ({}) to {} by {}:\n{}", number(found, "path"),
                                printable(text(found, "node")), printable(text(found, "from")),
                                printable(text(found, "to")), printable(text(found, "transport")), table.text());
  const json& findings = part(found, "findings");
  if (findings.empty()) return out + "Nothing stands out.\n";
  for (const json& one : findings)
    out += fmt::format("- {}\n", printable(one.is_string() ? one.get<std::string>() : ""));
  return out;
}

struct PathToTest {
  std::uint64_t number = 0;
  const char* transport = "tcp";
};

/// Whether the way out of that node is up.
bool goes_over_rdma(const json& path, const std::string& node) {
  return std::ranges::any_of(part(path, "nodes"), [&node](const json& end) {
    const json& rdma = part(end, "rdma");
    return text(end, "node") == node && rdma.is_object() && text(rdma, "state") != "down";
  });
}

/// All that there are, where none is named.
Outcome<json> paths_to_test(Context& context, std::uint64_t wanted) {
  const auto link = context.api.get("/pair/link");
  if (!link) return std::unexpected(link.error());
  json all = json::array();
  for (const json& path : part(*link, "paths"))
    if (wanted == 0 || number(path, "number") == wanted) all.push_back(path);
  if (all.empty() && wanted != 0) all.push_back({{"number", wanted}});  // the answer says why not
  return all;
}

json order_of(const PathToTest& path) {
  json order{{"path", path.number}};
  if (path.transport != std::string_view("tcp")) order["transport"] = path.transport;
  return order;
}

/// What was found, and the sentences of what could not be.
struct PathsTested {
  json found = json::array();
  std::string failures;
};

/// Gives the node whose way out it was; empty: it could not be measured.
std::string test_path(Context& context, const PathToTest& path, PathsTested& all) {
  const auto found = context.api.post("/pair/link/measurement", order_of(path));
  if (!found) {
    all.failures +=
        fmt::format("Path {} could not be measured by {}: {}\n", path.number, path.transport, found.error().message);
    return {};
  }
  if (!context.json_output) context.out << measurement_text(*found) << std::flush;
  all.found.push_back(*found);
  return text(*found, "node");
}

/// By TCP, and by RDMA where the same way is up over that.
Outcome<void> test_paths(Context& context, std::uint64_t wanted) {
  const auto paths = paths_to_test(context, wanted);
  if (!paths) return std::unexpected(paths.error());
  PathsTested all;
  for (const json& path : *paths) {
    const std::uint64_t here = number(path, "number");
    const std::string node = test_path(context, {here, "tcp"}, all);
    if (goes_over_rdma(path, node)) (void)test_path(context, {here, "rdma"}, all);
  }
  if (context.json_output) context.out << json{{"paths", all.found}}.dump(2) << '\n';
  if (all.failures.empty()) return {};
  all.failures.pop_back();
  return fail(Exit::refused, all.failures);
}

void add_link_test(CLI::App& link, Action& chosen) {
  auto path = std::make_shared<std::uint64_t>(0);
  auto* c = link.add_subcommand("test", "Measure round trips and bandwidth of each path, in use");
  c->footer(
      "Of the way out of the node that is asked, over TCP and, where a path is up over that, over RDMA; about two\n"
      "seconds for each, beside what hosts write.\n"
      "Times are of requests one after the other, the rate is of some at once, 2 MiB at the most.");
  c->add_option("--path", *path, "That one only, by its number in `lockstep link`")->check(CLI::Range(1, 4));
  c->callback([path, &chosen] { chosen = [path](Context& context) { return test_paths(context, *path); }; });
}

}  // namespace

void add_link_commands(CLI::App& app, Action& chosen) {
  auto* link = app.add_subcommand("link", "The paths of the replication link between the nodes, and their state");
  link->require_subcommand(0, 1);
  link->callback([link, &chosen] {
    if (!link->get_subcommands().empty()) return;
    chosen = [](Context& context) -> Outcome<void> {
      const auto found = context.api.get("/pair/link");
      if (!found) return std::unexpected(found.error());
      context.show(*found, paths_text);
      return {};
    };
  });
  add_link_add(*link, chosen);
  add_link_remove(*link, chosen);
  add_link_test(*link, chosen);
}

}  // namespace lockstep::cli
