#pragma once
// What this node remembers for itself, beside the pair's configuration.
#include <optional>
#include <string>

namespace lockstep::mgmt {

class Database;

class NodeSettings {
 public:
  explicit NodeSettings(Database& database) : database_(database) {}
  [[nodiscard]] std::optional<std::string> get(const std::string& key) const;
  void set(const std::string& key, const std::string& value);
  void erase(const std::string& key);

 private:
  Database& database_;
};

}  // namespace lockstep::mgmt
