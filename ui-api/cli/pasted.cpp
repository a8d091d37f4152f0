#include "ui-api/cli/pasted.hpp"

#include <fstream>
#include <iostream>
#include <optional>

#include <fmt/format.h>
#include <termios.h>
#include <unistd.h>

namespace lockstep::cli {
namespace {

constexpr char kControlC = 0x03;
constexpr char kControlD = 0x04;
constexpr char kBackspace = 0x08;
constexpr char kDelete = 0x7f;

/// The terminal hands over each character at once, shows none, and leaves Ctrl-C to the reader, so that the terminal is
/// always put back as it was.
class CharacterByCharacter {
 public:
  explicit CharacterByCharacter(int terminal) : terminal_(terminal) {
    set_ = ::tcgetattr(terminal_, &before_) == 0;
    if (!set_) return;
    termios wanted = before_;
    wanted.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    wanted.c_cc[VMIN] = 1;
    wanted.c_cc[VTIME] = 0;
    set_ = ::tcsetattr(terminal_, TCSADRAIN, &wanted) == 0;
  }
  ~CharacterByCharacter() {
    if (set_) ::tcsetattr(terminal_, TCSADRAIN, &before_);
  }
  CharacterByCharacter(const CharacterByCharacter&) = delete;
  CharacterByCharacter& operator=(const CharacterByCharacter&) = delete;

 private:
  int terminal_;
  bool set_ = false;
  termios before_{};
};

/// Nothing: Ctrl-C. Ctrl-D and the end of input end the line.
std::optional<std::string> line_of_terminal(int terminal) {
  const CharacterByCharacter raw(terminal);
  std::string line;
  char c = 0;
  while (line.size() <= kLongestPasted && ::read(terminal, &c, 1) == 1 && c != '\n' && c != '\r' && c != kControlD) {
    if (c == kControlC) return std::nullopt;
    if (c != kBackspace && c != kDelete)
      line += c;
    else if (!line.empty())
      line.pop_back();
  }
  return line;
}

std::string line_of(std::istream& in) {
  std::string line;
  for (char c = 0; line.size() <= kLongestPasted && in.get(c) && c != '\n';) line += c;
  return line;
}

}  // namespace

Outcome<std::string> read_pasted(std::istream& in, bool terminal, const std::string& path, const std::string& what) {
  std::string line;
  if (path != "-") {
    std::ifstream file(path);
    line = line_of(file);
  } else if (terminal && &in == &std::cin) {
    auto typed = line_of_terminal(STDIN_FILENO);
    std::cerr << '\n';
    if (!typed) return fail(Exit::usage, "Cut off. Nothing was done.");
    line = std::move(*typed);
  } else {
    line = line_of(in);
  }
  while (line.ends_with('\r') || line.ends_with(' ')) line.pop_back();
  const std::string from = path == "-" ? "standard input" : path;
  if (line.empty()) return fail(Exit::usage, fmt::format("{} can't be read from {}: there is nothing.", what, from));
  if (line.size() > kLongestPasted)
    return fail(Exit::usage, fmt::format("What {} holds is too long for {}.", from, what));
  return line;
}

}  // namespace lockstep::cli
