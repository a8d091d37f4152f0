#pragma once
// What set-up must know of a node: from options, from what is there, or from the person at the terminal.
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "ui-api/cli/outcome.hpp"
#include "ui-api/cli/setup/host.hpp"

namespace lockstep::cli::setup {

/// The options as they were given; empty: not given.
struct Options {
  std::vector<std::string> portals;
  std::string link, management, node_name, volume_folder;
  std::string partner, partner_link;
  std::string pair, witness_token_file, preferred;
  std::string invitation_file;
  bool yes = false;
};

/// mgmtd.toml as it is, as far as set-up changes it. Empty: does not stand in it.
struct Present {
  std::string text;
  bool there = false;
  std::string listen = "0.0.0.0:8443";
  std::vector<std::string> portals;
  std::string link, management, node_name, volume_folder;
};

struct Answers {
  std::vector<std::string> portals;
  std::string link, management;
  std::string node_name, volume_folder;  ///< empty: stays as it is
};

constexpr unsigned kPortalPort = 3260, kLinkPort = 3261, kManagementPort = 8443;

/// How questions are put, and what answers them.
class Questions {
 public:
  /// Nothing, or a sentence about what is wrong with the answer.
  using Check = std::function<std::optional<std::string>(const std::string&)>;

  Questions(std::istream& in, std::ostream& err, bool terminal, bool yes)
      : in_(in), err_(err), terminal_(terminal && !yes), yes_(yes) {}

  [[nodiscard]] bool may_ask() const { return terminal_; }
  /// What was given, if it is good; else a person's answer, who takes `otherwise` by Enter; else, after --yes,
  /// `otherwise`. Exit::usage with the option's name where none of these gives an answer.
  [[nodiscard]] Outcome<std::string> answer(const std::string& option, const std::string& question,
                                            const std::string& given, const std::string& otherwise, const Check& check);
  /// A person's answer, as it is; nothing at the end of input.
  [[nodiscard]] std::optional<std::string> ask(const std::string& question, const std::string& otherwise);

 private:
  std::istream& in_;
  std::ostream& err_;
  bool terminal_;
  bool yes_;
};

/// Reads the file's text; a file that is not there is an empty one. Exit::refused where it is no TOML.
[[nodiscard]] Outcome<Present> read_present(const std::string& path);

/// The partner's address as it was given with `option`, with `port` where none was; empty stays empty.
[[nodiscard]] Outcome<std::string> address_given(const std::string& option, const std::string& text, unsigned port);

[[nodiscard]] Outcome<Answers> answers_for(const Options& options, const Present& present,
                                           const std::vector<Interface>& interfaces, Questions& questions);

}  // namespace lockstep::cli::setup
