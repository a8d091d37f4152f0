#include "ui-api/cli/chap_options.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ui-api/cli/files.hpp"

namespace lockstep::cli {
void ChapOptions::add_to(CLI::App& c, const std::string& prefix, const std::string& who) {
  auto* user_option =
      c.add_option(prefix + "-user", user, "CHAP user that " + who + " proves itself with")->type_name("USER");
  auto* plain = c.add_option(prefix + "-secret", secret,
                             "Its secret, at least 12 characters; other users of this machine may see it")
                    ->needs(user_option)
                    ->type_name("SECRET");
  c.add_option(prefix + "-secret-file", secret_file, "File with the secret, - for standard input")
      ->needs(user_option)
      ->excludes(plain)
      ->type_name("FILE");
}

Outcome<std::string> secret_of(Context& context, const char* option, const std::string& secret,
                               const std::string& secret_file) {
  if (!secret_file.empty()) return read_secret(context, secret_file);
  if (secret.empty())
    return fail(Exit::usage, fmt::format("The secret is missing: give {0}-secret-file FILE or {0}-secret.", option));
  return secret;
}

Outcome<json> ChapOptions::body(Context& context, const char* option) const {
  if (user.empty()) return json();
  const auto value = secret_of(context, option, secret, secret_file);
  if (!value) return std::unexpected(value.error());
  return json{{"user", user}, {"secret", *value}};
}

}  // namespace lockstep::cli
