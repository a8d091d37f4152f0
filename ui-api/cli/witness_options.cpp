#include "ui-api/cli/witness_options.hpp"

#include <iostream>
#include <utility>

#include <CLI/CLI.hpp>

#include "ui-api/cli/files.hpp"
#include "ui-api/cli/pasted.hpp"
#include "ui-api/cli/witness_token.hpp"

namespace lockstep::cli {
namespace {

struct Added {
  CLI::Option *endpoints, *ca, *user, *password, *certificate, *key, *token;
};

Added add(WitnessOptions& o, CLI::App& command, const std::string& endpoint, const std::string& prefix) {
  const auto option = [&](const std::string& name, auto& value, const char* help, const char* type) {
    return command.add_option(name, value, help)->type_name(type)->group("The witness");
  };
  Added added{};
  added.endpoints =
      option(endpoint, o.endpoints, "The etcd server that decides when the nodes cannot talk; may be repeated", "URL");
  added.ca = option(prefix + "ca", o.ca, "Who must have signed its certificate, PEM; for https:// URLs", "FILE");
  added.user = option(prefix + "user", o.user, "User of etcd's authentication; for https:// URLs", "NAME");
  added.password = option(prefix + "password-file", o.password_file,
                          "File whose first line is that user's password, - for standard input", "FILE");
  added.certificate =
      option(prefix + "certificate", o.certificate, "What the nodes show an etcd that asks for it, PEM", "FILE");
  added.key = option(prefix + "key", o.key, "That certificate's key, PEM without a passphrase", "FILE");
  added.token = option("--witness-token-file", o.token_file,
                       "All of this at once: the token that `lockstep-witness` printed, - for pasting it", "FILE");
  for (CLI::Option* other : {added.endpoints, added.ca, added.user, added.password, added.certificate, added.key})
    added.token->excludes(other);
  added.user->needs(added.password);
  added.certificate->needs(added.key);
  added.key->needs(added.certificate);
  return added;
}

}  // namespace

WitnessOptions::Names WitnessOptions::add_to(CLI::App& command) {
  const Added added = add(*this, command, "--witness", "--witness-");
  added.ca->needs(added.endpoints);
  added.user->needs(added.ca);
  added.password->needs(added.user);
  added.certificate->needs(added.ca);
  return {added.endpoints, added.token};
}

void WitnessOptions::add_for_change(CLI::App& command) { add(*this, command, "--endpoint", "--"); }

Outcome<json> WitnessOptions::body(Context& context, std::string* pair_id) const {
  json said = json::object();
  if (!token_file.empty()) {
    if (token_file == "-" && context.terminal)
      context.err << "Paste the witness's token (it is not shown): " << std::flush;
    const auto text = read_pasted(context.in, context.terminal, token_file, "the witness's token");
    if (!text) return std::unexpected(text.error());
    const auto token = witness_token_from(*text);
    if (!token) return std::unexpected(token.error());
    if (pair_id != nullptr && pair_id->empty()) *pair_id = token->id;
    if (pair_id != nullptr && *pair_id != token->id)
      return fail(Exit::usage, "The witness's token is for a pair with another id than --id says.");
    return token->access();
  }
  if (!endpoints.empty()) said["endpoints"] = endpoints;
  for (const auto& [file, field] :
       {std::pair{&ca, "ca"}, std::pair{&certificate, "certificate"}, std::pair{&key, "key"}}) {
    if (file->empty()) continue;
    auto pem = read_text(*file);
    if (!pem) return std::unexpected(pem.error());
    said[field] = std::move(*pem);
  }
  if (!user.empty()) said["user"] = user;
  if (password_file.empty()) return said;
  auto password = read_secret(context, password_file);
  if (!password) return std::unexpected(password.error());
  said["password"] = std::move(*password);
  return said;
}

}  // namespace lockstep::cli
