// lockstep node certificate ...
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ui-api/cli/commands.hpp"
#include "ui-api/cli/files.hpp"
#include "ui-api/cli/table.hpp"

namespace lockstep::cli {
namespace {

std::string certificate_text(const json& c) {
  std::string out = fmt::format(
      "{} shows {} certificate\n  subject: {}\n  issuer: {}\n  names: {}\n  valid: {} to {} UTC\n  SHA-256: {}\n",
      printable(text(c, "node")), flag(c, "own") ? "its own" : "a self-made", printable(text(c, "subject")),
      printable(text(c, "issuer")), printable(joined(part(c, "names"))), short_time(part(c, "valid_from")),
      short_time(part(c, "valid_until")), text(c, "fingerprint"));
  if (const std::string missing = joined(part(c, "missing_names")); !missing.empty())
    out += fmt::format("It does not name: {}. Whoever asks for the node by that is warned.\n", printable(missing));
  return out;
}

void add_certificate_set(CLI::App& certificate, Action& chosen) {
  struct Options {
    std::string certificate, key, chain;
  };
  auto o = std::make_shared<Options>();
  auto* c = certificate.add_subcommand("set", "Have this node show a certificate of yours, from now on");
  c->footer(
      "It is of the node that --server names, of this machine by default. Give the other node its own.\n"
      "Example:\n"
      "  lockstep node certificate set --certificate node-a.crt --key node-a.key --chain authority.crt");
  c->add_option("--certificate", o->certificate, "PEM file with the certificate, perhaps its chain behind it")
      ->required()
      ->type_name("FILE");
  c->add_option("--key", o->key, "PEM file with its key, without a passphrase")->required()->type_name("FILE");
  c->add_option("--chain", o->chain, "PEM file with the authorities between it and one that is trusted")
      ->type_name("FILE");
  c->callback([o, &chosen] {
    chosen = [o](Context& context) -> Outcome<void> {
      auto certificates = read_text(o->certificate);
      if (!certificates) return std::unexpected(certificates.error());
      const auto key = read_text(o->key);
      if (!key) return std::unexpected(key.error());
      if (!o->chain.empty()) {
        const auto chain = read_text(o->chain);
        if (!chain) return std::unexpected(chain.error());
        *certificates += "\n" + *chain;
      }
      const auto shown = context.api.put("/certificate", json{{"certificate", *certificates}, {"key", *key}});
      if (!shown) return std::unexpected(shown.error());
      context.show(*shown, certificate_text);
      return {};
    };
  });
}

}  // namespace

void add_node_certificate_commands(CLI::App& node, Action& chosen) {
  auto* certificate = node.add_subcommand("certificate", "What a node shows to browsers and programs");
  certificate->require_subcommand(1);
  certificate->add_subcommand("show", "Show which certificate that is")->callback([&chosen] {
    chosen = [](Context& context) -> Outcome<void> {
      const auto shown = context.api.get("/certificate");
      if (!shown) return std::unexpected(shown.error());
      context.show(*shown, certificate_text);
      return {};
    };
  });
  add_certificate_set(*certificate, chosen);
  certificate->add_subcommand("reset", "Have it show a self-made one again")->callback([&chosen] {
    chosen = [](Context& context) -> Outcome<void> {
      const auto gone = context.api.remove("/certificate");
      if (!gone) return std::unexpected(gone.error());
      if (!context.json_output) context.out << "The node shows a self-made certificate.\n";
      return {};
    };
  });
}

}  // namespace lockstep::cli
