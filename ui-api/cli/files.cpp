#include "ui-api/cli/files.hpp"

#include <fstream>
#include <istream>

#include <fmt/format.h>

namespace lockstep::cli {

Outcome<std::string> read_secret(Context& context, const std::string& path) {
  std::string secret;
  if (path == "-") {
    std::getline(context.in, secret);
  } else {
    std::ifstream file(path);
    std::getline(file, secret);
  }
  if (secret.empty())
    return fail(Exit::usage, fmt::format("No secret can be read from {}.", path == "-" ? "standard input" : path));
  return secret;
}

Outcome<std::string> read_text(const std::string& path) {
  constexpr std::streamsize longest = std::streamsize{1} << 20;
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(longest), '\0');
  file.read(text.data(), longest);
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.empty()) return fail(Exit::usage, fmt::format("{} can't be read or is empty.", path));
  return text;
}

}  // namespace lockstep::cli
