#pragma once
// Lines that people paste: invitations and tokens. They are longer than what a terminal takes in a line by itself (4096
// characters), and they are secrets, which are not shown.
#include <iosfwd>
#include <string>

#include "ui-api/cli/outcome.hpp"

namespace lockstep::cli {

constexpr std::size_t kLongestPasted = 64u << 10;

/// The first line of the file, or of `in` where `path` is "-". `terminal`: a person is at `in`. Exit::usage, with
/// `what` in the sentence, when there is none or it is longer than kLongestPasted.
[[nodiscard]] Outcome<std::string> read_pasted(std::istream& in, bool terminal, const std::string& path,
                                               const std::string& what);

}  // namespace lockstep::cli
