// Configuration as JSON, for the partner and for tentative revisions: what the description (configuration.hpp) has, and
// here what this form does differently.
#include <algorithm>

#include <fmt/format.h>

#include "mgmt/control/configuration.hpp"
#include "mgmt/data_plane/volume_spec.hpp"
#include "mgmt/records/json.hpp"

namespace lockstep::mgmt {
namespace {

using records::json;
using records::Rules;
// The versions, and what goes wrong with a program that overlooks what is new in one:
//   2  a volume's shape and use. What version 1 lacks has the values that were built in.
//   3  a volume may be encrypted: it makes a copy that is not.
//   4  discovery may ask for a secret, a volume may have nobody on its list: it lets everybody in. The witness may want
//      TLS and a user: it can't ask it.
//   5  the witness's records may be sealed with other secrets than the link's: it trusts none. A copy may
//      have been replaced: it takes the lost one's files for it.
//   6  the witness may be changing: it asks the one that the other node is about to ask no more.
//   7  so may a preferred side: it lets that side go on alone when another one is about to. Fences.
//   8  credentials of before, or to come, may be accepted beside those in force: it shuts out who has only those.
//   9  the link may have TLS: it calls without, in vain.
//   9  a node may be reached at a second address: it lets nobody call from there, and calls there too late.
//   9  one lease may be taking the place of another: it waits for the shorter one alone.
//  10  the link may have several paths: it knows one, and drops the others.
//  11  a volume may live in another shard than the first: it looks for it on the wrong link. A copy may not have
//      been made yet: it forgets that one is owed. (Version 11 itself knew of the latter from the beginning.)
static_assert(kNewestDocument == 11);
constexpr int kOldestVersion = 1;
constexpr int kOldestWritten = 2;

// `required` and `written` are what the first versions had. A field that is new has no line here, and `since` only
// where a program that doesn't know it would get something wrong.
struct Document {
  static constexpr Rules rules(const Pair*) {
    return {.required = "id name target_name arbiter settings link link_mutual created_ms",
            .written = "next_lun discovery seal",
            .since = "discovery=4 seal=5 link_beside=8 link_protection=9"};
  }
  static constexpr Rules rules(const Arbiter*) {
    return {.required = "witness endpoints preferred", .written = "access", .since = "access=4 fence=7"};
  }
  static constexpr Rules rules(const PairSettings*) {
    return {.required = "lease_ms resync_floor resync_ceiling", .since = "other_lease_ms=9"};
  }
  static constexpr Rules rules(const LinkBeside*) {
    return {.required = "link link_mutual are_old", .renamed = "are_old=old"};
  }
  static constexpr Rules rules(const Node*) {
    return {.required = "id side name portals link_address management_address fingerprint",
            .since = "beside=9 more_link_addresses=10 last_link_addresses=10"};
  }
  static constexpr Rules rules(const Copy*) { return {.required = "number folder retired", .since = "unmade=11"}; }
  static constexpr Rules rules(const Volume*) {
    return {.required = "id name serial lun size block_size thin lifecycle first_epoch access created_ms",
            .written = "physical_block read_only removable encrypted write_cache import_secret any_initiator",
            .numbers = "lifecycle",
            .since = "encrypted=3 copies=5 shard=11"};
  }
  static constexpr Rules rules(const Initiator*) {
    return {.required = "iqn chap mutual created_ms", .since = "old=8"};
  }
  static constexpr Rules rules(const Token*) {
    return {.required = "id name digest created_ms expires_ms", .hidden = "role"};
  }
  static constexpr Rules rules(const OldCredentials*) { return {.required = "chap mutual until_ms"}; }
  static constexpr Rules rules(const void*) { return {.required = "*"}; }

  static void wrote(json& j, const Token& token) { j["viewer"] = token.role == Role::viewer; }
  static void read(const json& j, Token& token) {
    token.role = j.at("viewer").get<bool>() ? Role::viewer : Role::admin;
  }
  static void read(const json& j, Volume& volume) {
    if (!j.contains("any_initiator")) volume.any_initiator = volume.access.empty();
    if (volume.shard < 0 || volume.shard >= data_plane::kMaxShards)
      throw std::runtime_error("a volume is in a shard that there can't be");
  }
  static void read(const json&, Copy& copy) {
    if (copy.number < 1) throw std::runtime_error("a copy has no number");
  }

  static int version(const Volume& volume) { return volume.is_closed() ? 4 : kOldestWritten; }
  static int version(const Arbiter& arbiter) { return !arbiter.changing ? kOldestWritten : arbiter.witness ? 6 : 7; }
};

}  // namespace

int document_version(const Configuration& configuration) {
  return std::max(kOldestWritten, records::version_for<Document>(configuration));
}

const char* kind_name(const Arbiter& arbiter) {
  return arbiter.witness ? "witness" : arbiter.fence ? "fence" : "preferred";
}

std::string arbiter_document(const Arbiter& arbiter) { return records::to_json<Document>(arbiter).dump(); }

Outcome<Arbiter> arbiter_from_document(std::string_view text) {
  try {
    return records::from_json<Document, Arbiter>(json::parse(text));
  } catch (const std::exception& e) {
    return refuse(RefusalKind::malformed, fmt::format("What is said of a witness cannot be read: {}.", e.what()));
  }
}

std::string to_document(const Configuration& configuration) {
  json document = records::to_json<Document>(configuration);
  document["version"] = document_version(configuration);
  return document.dump();
}

Outcome<Configuration> from_document(std::string_view text) {
  try {
    const json document = json::parse(text);
    const int version = document.at("version");
    if (version < kOldestVersion || version > kNewestDocument)
      throw std::runtime_error(
          fmt::format("it is of version {}, and this program knows version {}", version, kNewestDocument));
    auto configuration = records::from_json<Document, Configuration>(document);
    configuration.sort();
    return configuration;
  } catch (const std::exception& e) {
    return refuse(
        RefusalKind::malformed,
        fmt::format("The partner's configuration cannot be read: {}. Are both nodes of the same version?", e.what()));
  }
}

}  // namespace lockstep::mgmt
