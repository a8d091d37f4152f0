#pragma once
// What set-up looks at before it writes. Each check gives a line that says what was seen and, where it is not well,
// what to do. They read the machine by Host and change nothing.
#include <optional>
#include <string>
#include <vector>

#include "ui-api/cli/setup/answers.hpp"
#include "ui-api/cli/setup/host.hpp"

namespace lockstep::cli::setup {

struct Finding {
  enum class Kind { good, warning, refused };
  Kind kind = Kind::good;
  std::string text;
};

[[nodiscard]] std::vector<Finding> check_addresses(Host& host, const Answers& answers, const Present& present);
[[nodiscard]] Finding check_clock(Host& host);
[[nodiscard]] std::vector<Finding> check_volume_folder(Host& host, const Answers& answers, const Present& present);
/// Where volumes will be kept.
[[nodiscard]] std::string volume_folder(Host& host, const Answers& answers, const Present& present);
/// `partner_link`: the partner's link address, or empty.
[[nodiscard]] std::vector<Finding> check_link(Host& host, const Answers& answers, const std::string& partner_link);
/// What a partner's management answered at `address`: the text of its description, or why there is none.
[[nodiscard]] Finding check_partner(const std::string& address, const Outcome<std::string>& description,
                                    const std::string& own_version);

/// "0.1.0" out of an OpenAPI description; nothing where there is none in its beginning.
[[nodiscard]] std::optional<std::string> version_in(const std::string& description);

}  // namespace lockstep::cli::setup
