#pragma once
// Where a volume is imported from: a logical unit of any iSCSI array, as people write it. Pure.
#include <optional>
#include <string>
#include <string_view>

#include "mgmt/control/configuration.hpp"

namespace lockstep::mgmt {

struct ImportSource {
  std::string host;  ///< a name or a numeric address; IPv6 without brackets
  int port = 3260;
  std::string target;
  int lun = 0;
  std::optional<Chap> chap;
  bool operator==(const ImportSource&) const = default;

  /// "10.0.0.1:3260", "[fd00::1]:3260".
  [[nodiscard]] std::string portal() const;
  /// For people: the URL without the credentials.
  [[nodiscard]] std::string shown() const;
};

/// Reads iscsi://[user%secret@]host[:port]/target/lun; the complaint never repeats the credentials.
[[nodiscard]] std::expected<ImportSource, std::string> parse_import_source(std::string_view url);

}  // namespace lockstep::mgmt
