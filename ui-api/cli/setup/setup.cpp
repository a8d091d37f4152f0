#include "ui-api/cli/setup/setup.hpp"

#include <fstream>
#include <iostream>
#include <tuple>

#include <fmt/format.h>
#include <unistd.h>

#include "mgmt/control/invitation.hpp"
#include "mgmt/control/validation.hpp"
#include "ui-api/cli/pasted.hpp"
#include "ui-api/cli/setup/checks.hpp"
#include "ui-api/cli/setup/config_file.hpp"
#include "ui-api/cli/setup/node_pair.hpp"
#include "ui-api/cli/table.hpp"

namespace lockstep::cli::setup {
namespace {

constexpr unsigned kTurnMs = 200;
constexpr int kTurns = 300;  // a minute
constexpr const char* kManagementUnit = "lockstep-mgmtd.service";
constexpr const char* kDataPlaneUnit = "lockstepd.service";

Url url_of(const mgmt::Address& address) { return {true, address.host, std::to_string(address.port)}; }

class Setup {
 public:
  Setup(const Options& options, const Machine& machine)
      : options_(options),
        machine_(machine),
        host_(*machine.host),
        questions_(machine.in, machine.err, machine.terminal, options.yes) {}

  Outcome<void> run();

 private:
  Outcome<void> read_wish();
  Outcome<void> ask_wish();
  Outcome<void> ask_arbiter();
  Outcome<std::string> pasted(const std::string& path, const std::string& what);
  Outcome<void> take_invitation(const std::string& text);
  Outcome<void> take_token(const std::string& text);
  Outcome<void> look();
  Outcome<void> look_at_pair();
  Outcome<std::string> description_at(const std::string& address);
  Outcome<void> write();
  Outcome<void> bring_in_force();
  Outcome<void> restart();
  Outcome<void> run_or_fail(const std::vector<std::string>& words);
  Outcome<void> wait_for_management();
  Outcome<void> try_management();
  Outcome<void> pair_up();
  [[nodiscard]] bool volume_folder_changes() const {
    return !answers_.volume_folder.empty() && answers_.volume_folder != present_.volume_folder;
  }
  /// The daemons may not write there yet: it is another one, or a disk was mounted there.
  [[nodiscard]] bool folder_has_to_be_prepared() {
    const FolderState folder = host_.folder(volume_folder(host_, answers_, present_));
    return volume_folder_changes() || (folder.there && !folder.is_users);
  }
  Context context() {
    return {*api_, machine_.in, machine_.out, machine_.err, false, machine_.terminal, machine_.sleep};
  }

  const Options& options_;
  const Machine& machine_;
  Host& host_;
  Questions questions_;
  Present present_;
  Answers answers_;
  PairWish wish_;
  std::string partner_, partner_link_;
  bool prepares_folder_ = false;
  std::unique_ptr<Transport> transport_;  // to this node's management, once it answers
  std::optional<Api> api_;
};

Outcome<std::string> Setup::pasted(const std::string& path, const std::string& what) {
  if (path == "-" && machine_.terminal) machine_.err << "Paste " << what << " (it is not shown): " << std::flush;
  return read_pasted(machine_.in, machine_.terminal, path, what);
}

Outcome<void> Setup::take_invitation(const std::string& text) {
  const auto invitation = mgmt::invitation_from(text);
  if (!invitation) return fail(Exit::usage, invitation.error().detail);
  wish_.invitation = text;
  if (partner_.empty()) partner_ = invitation->address;
  return {};
}

Outcome<void> Setup::take_token(const std::string& text) {
  auto token = witness_token_from(text);
  if (!token) return std::unexpected(token.error());
  if (wish_.pair.empty()) wish_.pair = token->pair;
  wish_.witness = std::move(*token);
  return {};
}

/// What the options say of the pair, without a question.
Outcome<void> Setup::read_wish() {
  wish_.pair = options_.pair;
  wish_.preferred = options_.preferred;
  if (!wish_.pair.empty())
    if (const auto wrong = mgmt::check_pair_name(wish_.pair)) return fail(Exit::usage, "--pair: " + *wrong);
  for (const auto& [option, text, port, place] :
       {std::tuple{"--partner", &options_.partner, kManagementPort, &partner_},
        std::tuple{"--partner-link", &options_.partner_link, kLinkPort, &partner_link_}}) {
    auto address = address_given(option, *text, port);
    if (!address) return std::unexpected(address.error());
    *place = std::move(*address);
  }
  if (!options_.invitation_file.empty()) {
    const auto text = pasted(options_.invitation_file, "the invitation");
    if (!text) return std::unexpected(text.error());
    return take_invitation(*text);
  }
  if (!options_.witness_token_file.empty()) {
    const auto text = pasted(options_.witness_token_file, "the witness's token");
    if (!text) return std::unexpected(text.error());
    return take_token(*text);
  }
  return {};
}

/// Who decides when the nodes cannot talk, of a pair that is to be made here.
Outcome<void> Setup::ask_arbiter() {
  if (wish_.pair.empty() || wish_.witness || !wish_.preferred.empty()) return {};
  if (!questions_.may_ask())
    return fail(
        Exit::usage,
        "Who decides when the nodes cannot talk? Say --witness-token-file FILE (recommended; - for pasting), or "
        "--preferred a: this node then goes on alone, and the other never does.");
  const auto has = questions_.ask("Have you the token of a witness, from `lockstep-witness setup`? (yes, no)", "yes");
  if (has == "yes") {
    const auto text = pasted("-", "the witness's token");
    if (!text) return std::unexpected(text.error());
    return take_token(*text);
  }
  const auto alone = questions_.ask(
      "Without a witness this node goes on when the nodes cannot talk, and the other never does. Is that wanted? (yes, "
      "no)",
      "no");
  if (alone != "yes") return fail(Exit::usage, "Set a witness up first (lockstep-witness(8)). Nothing was changed.");
  wish_.preferred = "a";
  return {};
}

Outcome<void> Setup::ask_wish() {
  if (wish_.pair.empty() && wish_.invitation.empty() && questions_.may_ask()) {
    const auto which = questions_.ask(
        "Is this the first node of a pair, or have you an invitation of the first one? (first, invitation, later)",
        "first");
    if (which == "invitation") {
      const auto text = pasted("-", "the invitation");
      if (!text) return std::unexpected(text.error());
      return take_invitation(*text);
    }
    if (which != "first") return {};
    auto name = questions_.answer("--pair", "The pair's name", "", "pair1", mgmt::check_pair_name);
    if (!name) return std::unexpected(name.error());
    wish_.pair = std::move(*name);
  }
  return ask_arbiter();
}

Outcome<std::string> Setup::description_at(const std::string& address) {
  const auto parsed = mgmt::parse_address(address);
  if (!parsed) return fail(Exit::usage, "it is no address");
  // Nothing secret is sent, and nothing that is answered is trusted: join() proves both sides by the invitation.
  const auto transport =
      machine_.connect(Settings{url_of(*parsed), "", Trust{.insecure = true, .fingerprint = {}, .ca_file = {}}});
  auto answer = transport->send({"GET", "/api/v1/openapi.yaml", std::nullopt});
  if (!answer) return std::unexpected(answer.error());
  return std::move(answer->body);
}

/// Every check is made and told before the first refusal ends it: a person mends all at once.
Outcome<void> Setup::look() {
  std::vector<Finding> findings = check_addresses(host_, answers_, present_);
  const auto add = [&findings](std::vector<Finding> more) {
    findings.insert(findings.end(), more.begin(), more.end());
  };
  add({check_clock(host_)});
  add(check_volume_folder(host_, answers_, present_));
  add(check_link(host_, answers_, partner_link_));
  if (!partner_.empty()) add({check_partner(partner_, description_at(partner_), LOCKSTEP_VERSION)});
  bool refused = false;
  for (const Finding& finding : findings) {
    const char* mark = finding.kind == Finding::Kind::good      ? "ok     "
                       : finding.kind == Finding::Kind::warning ? "warning"
                                                                : "REFUSED";
    machine_.err << "  " << mark << "  " << finding.text << '\n';
    refused = refused || finding.kind == Finding::Kind::refused;
  }
  machine_.err << std::flush;
  if (refused) return fail(Exit::refused, "Set-up does not go on with what is refused above. Nothing was changed.");
  return {};
}

/// Management that does not answer yet knows of no pair that it could be asked about. One that answers and does not let
/// set-up in may know of one: nothing is written past it.
Outcome<void> Setup::look_at_pair() {
  if (auto answered = try_management(); !answered) {
    if (answered.error().exit != Exit::refused) return {};
    Failure failure = answered.error();
    failure.message += "\nWhether this node is in a pair could not be seen. Nothing was changed.";
    return std::unexpected(failure);
  }
  Context here = context();
  return check_against_pair(here, answers_, wish_, volume_folder_changes());
}

/// One attempt to speak to this node's management.
Outcome<void> Setup::try_management() {
  std::string token = machine_.token;
  if (token.empty()) std::ifstream(machine_.token_file) >> token;
  if (token.empty()) {  // management that was never started has made none yet; an empty file is somebody's wish
    const bool emptied = ::access(machine_.token_file.c_str(), F_OK) == 0;
    return fail(
        emptied ? Exit::refused : Exit::unreachable,
        fmt::format("There is no token in {}. `lockstep token create --local` makes one.", machine_.token_file));
  }
  const Places places = host_.places();
  Trust trust{.insecure = false, .fingerprint = {}, .ca_file = places.certificate};
  if (::access(places.shown_certificate.c_str(), R_OK) == 0) trust.shown_file = places.shown_certificate;
  auto server = local_server(places.configuration);
  if (!server) return std::unexpected(server.error());
  transport_ = machine_.connect(Settings{std::move(*server), token, trust});
  api_.emplace(*transport_);
  const auto pair = api_->get("/pair");
  if (!pair) return std::unexpected(pair.error());
  return {};
}

Outcome<void> Setup::wait_for_management() {
  for (int i = 0;; ++i) {
    auto answered = try_management();
    if (answered || answered.error().exit == Exit::refused || i == kTurns) return answered;
    machine_.sleep(kTurnMs);
  }
}

Outcome<void> Setup::run_or_fail(const std::vector<std::string>& words) {
  const auto finished = host_.run(words);
  if (!finished) return std::unexpected(finished.error());
  if (finished->status == 0) return {};
  return fail(Exit::refused, fmt::format("`{}` failed: {}", fmt::join(words, " "), printable(finished->output)));
}

Outcome<void> Setup::restart() {
  if (!host_.has_systemd()) {
    machine_.err
        << "There is no systemd here: what the file says counts when lockstep-mgmtd is started the next time.\n";
    return {};
  }
  std::vector<std::string> words{"systemctl", "restart"};
  if (prepares_folder_) words.emplace_back(kDataPlaneUnit);
  words.emplace_back(kManagementUnit);
  return run_or_fail(words);
}

Outcome<void> Setup::bring_in_force() {
  if (prepares_folder_)
    if (auto prepared = run_or_fail({host_.places().prepare_state}); !prepared) return prepared;
  if (auto restarted = restart(); !restarted) return restarted;
  return wait_for_management();
}

Outcome<void> Setup::write() {
  const std::string file = host_.places().configuration;
  const auto text = text_with(present_, answers_);
  prepares_folder_ = folder_has_to_be_prepared();
  if (!text) return fail(Exit::refused, fmt::format("{}: {}", file, text.error().message));
  if (*text == present_.text) {
    machine_.err << file << " says all of this already.\n";
    if (prepares_folder_) return bring_in_force();
    if (try_management() || !host_.has_systemd()) return wait_for_management();
    if (auto started = run_or_fail({"systemctl", "start", kManagementUnit}); !started) return started;
    return wait_for_management();
  }
  ConfigFile configuration(host_, present_);
  if (auto replaced = configuration.replace(*text); !replaced) return replaced;
  machine_.err << file << " is written.\n" << std::flush;
  auto in_force = bring_in_force();
  if (in_force) return in_force;
  Failure failure = in_force.error();
  if (const auto back = configuration.put_back(); !back) {
    failure.message += "\n" + back.error().message;
    return std::unexpected(failure);
  }
  if (volume_folder_changes()) static_cast<void>(host_.run({host_.places().prepare_state}));
  static_cast<void>(restart());
  failure.message += fmt::format(
      "\nManagement does not come up with the new settings: {} is as it was. `journalctl -u {}` "
      "tells more.",
      file, kManagementUnit);
  return std::unexpected(failure);
}

Outcome<void> Setup::pair_up() {
  Context here = context();
  if (!wish_.invitation.empty()) return join_pair(here, answers_, wish_.invitation);
  if (!wish_.pair.empty()) return make_pair(here, answers_, wish_);
  machine_.err
      << "This node is set up. Next: `lockstep setup --pair NAME --witness-token-file -` on the pair's first node, "
         "or `lockstep setup --invitation-file -` on its second.\n";
  return {};
}

Outcome<void> Setup::run() {
  auto present = read_present(host_.places().configuration);
  if (!present) return std::unexpected(present.error());
  present_ = std::move(*present);
  if (auto read = read_wish(); !read) return read;
  auto answers = answers_for(options_, present_, host_.interfaces(), questions_);
  if (!answers) return std::unexpected(answers.error());
  answers_ = std::move(*answers);
  for (const auto step : {&Setup::ask_wish, &Setup::look, &Setup::look_at_pair, &Setup::write, &Setup::pair_up})
    if (auto done = (this->*step)(); !done) return done;
  return {};
}

}  // namespace

Outcome<void> run(const Options& options, const Machine& machine) {
  if (machine.host == nullptr || !machine.host->is_root())
    return fail(Exit::usage, "Run this as root, on the node that is to be set up.");
  return Setup(options, machine).run();
}

}  // namespace lockstep::cli::setup
