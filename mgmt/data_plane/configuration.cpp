#include "mgmt/data_plane/configuration.hpp"

#define TOML_EXCEPTIONS 0
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include <toml++/toml.h>

namespace lockstep::data_plane {
namespace {

using engine::Errc;

// Reads known keys; the first that is wrong is kept.
class Reader {
 public:
  Reader(const toml::table& table, std::string file) : table_(table), file_(std::move(file)) {}

  void text(const char* key, std::string& value) {
    const toml::node* node = take(key);
    if (!node) return;
    const auto found = node->value<std::string>();
    if (!node->is_string() || found->empty()) return wrong(*node, key, "a text in quotes");
    value = *found;
  }
  void path(const char* key, std::string& value) {
    text(key, value);
    if (!value.starts_with('/')) wrong(*table_.get(key), key, "a path that starts with /");
  }
  template <class T>
  void number(const char* key, T& value, std::int64_t min, std::int64_t max) {
    const toml::node* node = take(key);
    if (!node) return;
    const auto found = node->value<std::int64_t>();
    if (!node->is_integer() || *found < min || *found > max) {
      return wrong(*node, key, "a whole number from " + std::to_string(min) + " to " + std::to_string(max));
    }
    value = static_cast<T>(*found);
  }
  void word(const char* key, std::string& value, const std::set<std::string>& words) {
    text(key, value);
    if (words.contains(value)) return;
    std::string all;
    for (const auto& w : words) all += (all.empty() ? "" : ", ") + w;
    wrong(*table_.get(key), key, "one of " + all);
  }
  void no_others() {
    for (const auto& [key, node] : table_) {
      if (!known_.contains(std::string(key.str()))) note(node, "\"" + std::string(key.str()) + "\" is not an option.");
    }
  }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  const toml::node* take(const char* key) {
    known_.insert(key);
    return table_.get(key);
  }
  void wrong(const toml::node& node, const char* key, const std::string& expected) {
    note(node, "\"" + std::string(key) + "\" must be " + expected + ".");
  }
  void note(const toml::node& node, const std::string& what) {
    if (problem_.empty()) problem_ = file_ + ", line " + std::to_string(node.source().begin.line) + ": " + what;
  }
  const toml::table& table_;
  std::string file_;
  std::set<std::string> known_;
  std::string problem_;
};

}  // namespace

engine::Result<Configuration> parse_configuration(std::string_view text, const std::string& name) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return engine::fail(Errc::refused, name + ", line " + std::to_string(parsed.error().source().begin.line) + ": " +
                                           std::string(parsed.error().description()) + ".");
  }
  Configuration c;
  Reader reader(parsed.table(), name);
  reader.path("rpc_socket", c.rpc_socket);
  reader.path("state_folder", c.state_folder);
  reader.path("fence_socket", c.fence_socket);
  reader.number("reactors", c.reactors, 1, 64);
  reader.number("buffer_mib", c.buffer_mib, 32, 1 << 20);
  c.buffer_mib = std::max<std::uint64_t>(c.buffer_mib, 64);  // the least in which each command that units announce fits
  reader.number("link_buffer_mib", c.link_buffer_mib, 32, 1 << 20);
  reader.number("busy_poll_us", c.busy_poll_us, 0, 1000000);
  reader.word("lease_clock", c.lease_clock, {"auto", "boottime", "partner"});
  std::string rdma = "auto";
  reader.word("rdma", rdma, {"auto", "on", "off"});
  c.rdma = rdma != "off";
  c.rdma_asked = rdma == "on";
  std::string kernel_tls = "auto";
  reader.word("link_kernel_tls", kernel_tls, {"auto", "off"});
  c.link_kernel_tls = kernel_tls == "auto";
  reader.word("log_level", c.log_level, {"debug", "info", "warning", "error"});
  reader.no_others();
  if (!reader.problem().empty()) return engine::fail(Errc::refused, reader.problem());
  return c;
}

engine::Result<Configuration> load_configuration(const std::string& path) {
  std::ifstream file(path);
  if (!file)
    return engine::fail(Errc::io_error, "Can't read the configuration " + path + ": " + std::strerror(errno) + ".");
  std::stringstream text;
  text << file.rdbuf();
  return parse_configuration(text.str(), path);
}

}  // namespace lockstep::data_plane
