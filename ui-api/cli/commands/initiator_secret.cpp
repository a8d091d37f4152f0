// lockstep initiator show, lockstep initiator secret
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "ui-api/cli/chap_options.hpp"
#include "ui-api/cli/commands.hpp"
#include "ui-api/cli/size.hpp"
#include "ui-api/cli/table.hpp"

namespace lockstep::cli {
namespace {

std::string old_text(const json& initiator) {
  const json& until = part(initiator, "old_secret_valid_until");
  return until.is_string() ? fmt::format("accepted until {} UTC", short_time(until)) : "none";
}

std::string initiator_text(const json& i) {
  std::string out = fmt::format("{}\n  CHAP: {}", text(i, "iqn"), text(i, "chap"));
  if (const std::string user = text(i, "chap_user"); !user.empty()) out += fmt::format(", user {}", printable(user));
  if (const std::string user = text(i, "mutual_user"); !user.empty())
    out += fmt::format(", the target's {}", printable(user));
  return out + fmt::format("\n  old secret: {}\n  volumes: {}\n", old_text(i), part(i, "volumes").size());
}

/// A secret, and perhaps another user for it.
struct NewSecret {
  std::string user, secret, file;

  void add_to(CLI::App& c, const std::string& prefix, const std::string& whose) {
    c.add_option(prefix + "-user", user, "Another user for it (default: the one that there is)")->type_name("USER");
    auto* plain = c.add_option(prefix + "-secret", secret,
                               whose + ", at least 12 characters; other users of this machine may see it")
                      ->type_name("SECRET");
    c.add_option(prefix + "-secret-file", file, "File with the secret, - for standard input")
        ->excludes(plain)
        ->type_name("FILE");
  }
  [[nodiscard]] bool given() const { return !user.empty() || !secret.empty() || !file.empty(); }
  [[nodiscard]] Outcome<json> body(Context& context, const char* prefix) const {
    const auto value = secret_of(context, prefix, secret, file);
    if (!value) return std::unexpected(value.error());
    json chap{{"secret", *value}};
    if (!user.empty()) chap["user"] = user;
    return chap;
  }
};

struct SecretOptions {
  std::string iqn, old_live;
  NewSecret chap, mutual;
  bool end_old = false;
};

Outcome<void> end_old(Context& context, const SecretOptions& o) {
  if (o.chap.given() || o.mutual.given() || !o.old_live.empty())
    return fail(Exit::usage,
                "--end-old goes with no other option: to give another secret and end all others, use "
                "--old-valid-for 0.");
  const auto ended = context.api.remove("/initiators/" + percent_encode(o.iqn) + "/old-secret");
  if (!ended) return std::unexpected(ended.error());
  if (!context.json_output) context.out << "Only the newest secret of " << o.iqn << " is accepted.\n";
  return {};
}

Outcome<void> change(Context& context, const SecretOptions& o) {
  if (o.end_old) return end_old(context, o);
  auto chap = o.chap.body(context, "--chap");
  if (!chap) return std::unexpected(chap.error());
  json body{{"chap", std::move(*chap)}};
  if (o.mutual.given()) {
    auto mutual = o.mutual.body(context, "--mutual");
    if (!mutual) return std::unexpected(mutual.error());
    body["mutual_chap"] = std::move(*mutual);
  }
  if (!o.old_live.empty()) {
    const auto seconds = parse_duration(o.old_live);
    if (!seconds) return std::unexpected(seconds.error());
    body["old_valid_for_seconds"] = *seconds;
  }
  const auto changed = context.api.post("/initiators/" + percent_encode(o.iqn) + "/secret", body);
  if (!changed) return std::unexpected(changed.error());
  context.show(*changed, [](const json& i) {
    const bool old = part(i, "old_secret_valid_until").is_string();
    return fmt::format("{} has another secret. The old one is {}.\n", text(i, "iqn"),
                       old ? old_text(i) : "accepted no more");
  });
  return {};
}

}  // namespace

void add_initiator_show(CLI::App& initiator, Action& chosen) {
  auto iqn = std::make_shared<std::string>();
  auto* c = initiator.add_subcommand("show", "Show an initiator, and until when an old secret of its is accepted");
  c->add_option("iqn", *iqn, "The initiator's iSCSI name")->required();
  c->callback([iqn, &chosen] {
    chosen = [iqn](Context& context) -> Outcome<void> {
      const auto found = context.api.get("/initiators/" + percent_encode(*iqn));
      if (!found) return std::unexpected(found.error());
      context.show(*found, initiator_text);
      return {};
    };
  });
}

void add_initiator_secret(CLI::App& initiator, Action& chosen) {
  auto o = std::make_shared<SecretOptions>();
  auto* c = initiator.add_subcommand("secret", "Give an initiator another secret; the old one is accepted for a while");
  c->footer(
      "Examples:\n"
      "  lockstep initiator secret iqn.1993-08.org.debian:01:host1 --chap-secret-file secret --old-valid-for 2h\n"
      "  lockstep initiator secret iqn.1993-08.org.debian:01:host1 --end-old");
  c->add_option("iqn", o->iqn, "The initiator's iSCSI name")->required();
  o->chap.add_to(*c, "--chap", "What the initiator proves itself with");
  o->mutual.add_to(*c, "--mutual", "What the target proves itself with (default: what there is)");
  c->add_option(
       "--old-valid-for", o->old_live,
       "For how long the old one is accepted, too: 90s, 15m, 1h, 7d; at most 30d, 0 for not at all (default: 1h)")
      ->type_name("TIME");
  c->add_flag("--end-old", o->end_old, "Accept the old one no more; changes nothing else");
  c->callback([o, &chosen] { chosen = [o](Context& context) { return change(context, *o); }; });
}

}  // namespace lockstep::cli
