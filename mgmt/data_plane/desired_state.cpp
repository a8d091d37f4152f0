#include "mgmt/data_plane/desired_state.hpp"

#include <algorithm>
#include <charconv>

#include <arpa/inet.h>
#include <nlohmann/json.hpp>

#include "mgmt/data_plane/fields.hpp"
#include "mgmt/records/fields.hpp"

namespace lockstep::data_plane {
namespace {

using engine::ArbiterKind;
using engine::NodeSide;
using nlohmann::json;

constexpr std::uint64_t kMaxVolumeSize = std::uint64_t{64} << 40;  // bytes
constexpr std::size_t kMaxPath = 4095;
constexpr std::uint64_t kMaxNumber = std::uint64_t{1} << 62;

const std::initializer_list<std::pair<std::string_view, NodeSide>> kSides = {{"a", NodeSide::a}, {"b", NodeSide::b}};

SocketAddress address_of(const std::string& text, const std::string& path, FieldProblem& problem) {
  const auto address = SocketAddress::parse(text);
  if (!address) problem.note(path, "must be an IP address and a port, such as 10.0.0.1:3260 or [fd00::1]:3260");
  return address.value_or(SocketAddress{});
}

std::vector<SocketAddress> addresses(Fields& fields, std::string_view name) {
  std::vector<SocketAddress> all;
  const auto texts = fields.texts(name, kMaxPortals);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    all.push_back(address_of(texts[i], fields.path_of(name) + "[" + std::to_string(i) + "]", fields.problem()));
  }
  return all;
}

std::string iscsi_name(Fields& fields, std::string_view name) {
  std::string text = fields.text(name, 223);  // RFC 7143 4.2.7.1
  const bool known = text.starts_with("iqn.") || text.starts_with("eui.") || text.starts_with("naa.");
  if (!known) fields.problem().note(fields.path_of(name), "must be an iSCSI name (iqn., eui. or naa.)");
  return text;
}

std::optional<Credentials> credentials(Fields& fields, std::string_view user_name, std::string_view secret_name) {
  const auto user = fields.optional_text(user_name);
  const auto secret = fields.optional_text(secret_name);
  if (user.has_value() != secret.has_value()) {
    fields.problem().note(fields.path_of(user ? secret_name : user_name),
                          "is missing: a user and a secret go together");
  }
  if (!user || !secret) return std::nullopt;
  if (user->empty() || secret->empty()) fields.problem().note(fields.path_of(user_name), "or its secret is empty");
  return Credentials{*user, *secret};
}

Authentication authentication(Fields& fields) {
  Authentication both{credentials(fields, "chap_user", "chap_secret"),
                      credentials(fields, "mutual_user", "mutual_secret")};
  if (both.mutual && !both.chap) {
    fields.problem().note(fields.path_of("chap_user"), "is missing: mutual CHAP needs the other way too");
  }
  return both;
}

std::optional<OldAuthentication> old_authentication(Fields fields, const Authentication& now) {
  OldAuthentication old{authentication(fields), static_cast<std::int64_t>(fields.number("until_ms", 1, kMaxNumber))};
  // Without a secret now or then, nothing would have to be proven at all.
  if (!old.authentication.chap) fields.problem().note(fields.path_of("chap_user"), "is missing");
  if (!now.chap) fields.problem().note(fields.path_of("chap_user"), "is of no use: none is asked for now");
  fields.end();
  return old;
}

TargetSpec read_target(Fields fields) {
  TargetSpec target;
  target.name = iscsi_name(fields, "name");
  target.portals = addresses(fields, "portals");
  if (auto auth = fields.optional_object("discovery_auth")) {
    target.discovery_auth = authentication(*auth);
    auth->end();
  }
  fields.end();
  return target;
}

LinkTls read_link_tls(Fields fields) {
  LinkTls tls;
  tls.certificate = fields.text("certificate", replication::kMaxPem);
  tls.key = fields.text("key", replication::kMaxPem);
  tls.partner = fields.text("partner");
  tls.mode = fields.word<LinkTlsMode>(
      "mode", {{"accepted", LinkTlsMode::accepted}, {"used", LinkTlsMode::used}, {"required", LinkTlsMode::required}});
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (tls.partner.size() != 64 || !std::ranges::all_of(tls.partner, is_hex))
    fields.problem().note(fields.path_of("partner"), "is no SHA-256: 64 hex digits, lower case");
  fields.end();
  return tls;
}

std::vector<PathSpec> read_more_paths(Fields& link) {
  std::vector<PathSpec> all;
  link.objects("more_paths", kMaxMorePaths, [&all](Fields path) {
    PathSpec& spec = all.emplace_back();
    spec.listen = address_of(path.text("listen"), path.path_of("listen"), path.problem());
    spec.connect = address_of(path.text("connect"), path.path_of("connect"), path.problem());
    spec.last_resort = path.flag_or("last_resort", false);
    path.end();
  });
  return all;
}

PartnerSpec read_partner(Fields fields) {
  PartnerSpec partner;
  partner.name = fields.text("name", 63);
  partner.portals = addresses(fields, "portals");
  Fields link = fields.object("link");
  partner.link.listen = address_of(link.text("listen"), link.path_of("listen"), link.problem());
  partner.link.connect = address_of(link.text("connect"), link.path_of("connect"), link.problem());
  for (const auto& [key, into] : {std::pair{"listen_beside", &partner.link.listen_beside},
                                  std::pair{"connect_beside", &partner.link.connect_beside}})
    if (const auto text = link.optional_text(key)) *into = address_of(*text, link.path_of(key), link.problem());
  if (link.has("more_paths")) partner.link.more_paths = read_more_paths(link);
  partner.link.authentication = authentication(link);
  if (auto also = link.optional_object("also")) {
    partner.link.also = authentication(*also);
    // An entry without a secret would let in whoever calls.
    if (!partner.link.also->chap || !partner.link.authentication.chap)
      link.problem().note(also->path_of("chap_user"), "is missing, here or beside it");
    also->end();
  }
  if (auto tls = link.optional_object("tls")) partner.link.tls = read_link_tls(*tls);
  link.end();
  fields.end();
  return partner;
}

replication::WitnessAccess read_witness_access(Fields& fields) {
  replication::WitnessAccess access;
  access.ca = fields.text_or("ca", "", replication::kMaxPem);
  access.certificate = fields.text_or("certificate", "", replication::kMaxPem);
  access.key = fields.text_or("key", "", replication::kMaxPem);
  access.user = fields.text_or("user", "", replication::kMaxWitnessUser);
  access.password = fields.text_or("password", "", replication::kMaxWitnessUser);
  return access;
}

std::optional<SealSpec> read_seal(Fields fields) {
  SealSpec seal{fields.text("one"), fields.text("other")};
  fields.end();
  return seal;
}

// `all` is null where only what an epoch record keeps is read.
engine::ArbiterSettings read_arbiter(Fields fields, DesiredState* all) {
  engine::ArbiterSettings arbiter;
  arbiter.kind = fields.word<ArbiterKind>(
      "kind",
      {{"witness", ArbiterKind::witness}, {"preferred", ArbiterKind::preferred}, {"fence", ArbiterKind::fence}});
  if (arbiter.kind == ArbiterKind::fence) {
    // What is run, root's file alone says.
    fields.ignore("preferred");
    fields.ignore("endpoints");
  } else if (arbiter.kind == ArbiterKind::preferred) {
    arbiter.preferred = fields.word<NodeSide>("preferred", kSides);
    fields.ignore("endpoints");
  } else {
    const auto endpoints = fields.texts("endpoints", 9);
    for (const auto& one : endpoints) arbiter.address += (arbiter.address.empty() ? "" : ",") + one;
    const bool changing = all && fields.flag_or("changing", false);
    if (all) all->witness_changing = changing;
    if (endpoints.empty() != changing)
      fields.problem().note(fields.path_of("endpoints"), changing ? "names a witness while none is to be asked"
                                                                  : "is empty: a witness needs an address");
    if (arbiter.address.size() > 255) {
      fields.problem().note(fields.path_of("endpoints"),
                            "takes more than the 255 bytes that an epoch record has for it");
    }
    if (all) all->witness_access = read_witness_access(fields);
    fields.ignore("preferred");
  }
  if (all)
    if (auto seal = fields.optional_object("seal")) all->seal = read_seal(*seal);
  fields.end();
  return arbiter;
}

SettingsSpec read_settings(Fields fields) {
  SettingsSpec settings;
  settings.lease = std::chrono::milliseconds(fields.number_or("lease_ms", 1500, 500, 60000));
  if (const auto other = fields.number_or("other_lease_ms", 0, 0, 60000); other != 0) {
    settings.other_lease = std::chrono::milliseconds(other);
    if (other < 500) fields.problem().note(fields.path_of("other_lease_ms"), "must be 0, or from 500 to 60000");
  }
  settings.resync_floor = fields.number_or("resync_floor", settings.resync_floor, 0, kMaxNumber);
  settings.resync_ceiling = fields.number_or("resync_ceiling", settings.resync_ceiling, 0, kMaxNumber);
  fields.end();
  return settings;
}

std::uint32_t read_block_size(Fields& fields) {
  const auto size = fields.number("block_size", 512, 4096);
  if (size != 512 && size != 4096) fields.problem().note(fields.path_of("block_size"), "must be 512 or 4096");
  return static_cast<std::uint32_t>(size);
}

std::uint64_t read_size(Fields& fields) {
  const auto size = fields.number("size", 4096, kMaxVolumeSize);
  if (size % 4096 != 0) fields.problem().note(fields.path_of("size"), "must be a multiple of 4096 bytes");
  return size;
}

std::string read_path(Fields& fields, std::string_view name) {
  std::string path = fields.text(name, kMaxPath);
  if (!path.starts_with('/')) fields.problem().note(fields.path_of(name), "must be a path that starts with /");
  return path;
}

VolumeSpec read_volume(Fields fields) {
  VolumeSpec volume;
  volume.id = fields.uuid("id");
  volume.name = fields.text("name", 63);
  volume.serial = fields.text("serial", 32);
  volume.lun = static_cast<std::uint32_t>(fields.number("lun", 0, kMaxLun));
  volume.size = read_size(fields);
  volume.block_size = read_block_size(fields);
  volume.physical_block_size = static_cast<std::uint32_t>(fields.number_or("physical_block_size", 4096, 512, 4096));
  if (volume.physical_block_size != 512 && volume.physical_block_size != 4096)
    fields.problem().note(fields.path_of("physical_block_size"), "must be 512 or 4096");
  if (volume.physical_block_size < volume.block_size)
    fields.problem().note(fields.path_of("physical_block_size"), "must not be less than block_size");
  records::each_field<VolumeSpec>([&]<class Member>() {
    if constexpr (std::is_same_v<records::Field<VolumeSpec, Member>, bool>)
      volume.*Member::pointer = fields.flag_or(Member::name, volume.*Member::pointer);
  });
  volume.shard = static_cast<unsigned>(fields.number_or("shard", 0, 0, kMaxShards - 1));
  volume.data = fields.text("data", kMaxPath);
  volume.metadata = fields.text_or("metadata", "", kMaxPath);
  if (volume.data == "memory:") {
    if (volume.mirrored)
      fields.problem().note(fields.path_of("data"), "may be memory: only when the volume is not mirrored");
  } else {
    if (!volume.data.starts_with('/'))
      fields.problem().note(fields.path_of("data"), "must be a path that starts with /");
    if (volume.metadata.empty() ? volume.mirrored : !volume.metadata.starts_with('/')) {
      fields.problem().note(fields.path_of("metadata"), "must be a path that starts with /");
    }
  }
  fields.objects("access", kMaxAccessEntries, [&](Fields entry) {
    AccessEntry access{iscsi_name(entry, "initiator"), authentication(entry)};
    if (const auto old = entry.optional_object("old")) access.old = old_authentication(*old, access.authentication);
    entry.end();
    volume.access.push_back(std::move(access));
  });
  // An older management does not say it, and means it by an empty list.
  volume.any_initiator = fields.flag_or("any_initiator", volume.access.empty());
  if (volume.any_initiator && !volume.access.empty())
    fields.problem().note(fields.path_of("any_initiator"), "contradicts the list in access");
  fields.end();
  return volume;
}

template <class T>
std::expected<T, RpcError> verdict(const FieldProblem& problem, T value) {
  if (problem.found()) return std::unexpected(problem.error());
  return value;
}

}  // namespace

std::optional<SocketAddress> SocketAddress::parse(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string host(text.substr(0, colon));
  const std::string_view port_text = text.substr(colon + 1);
  SocketAddress address;
  const auto [end, error] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), address.port);
  if (error != std::errc{} || end != port_text.data() + port_text.size() || address.port == 0) return std::nullopt;
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  unsigned char bytes[16];
  if (::inet_pton(bracketed ? AF_INET6 : AF_INET, host.c_str(), bytes) != 1) return std::nullopt;
  address.host = std::move(host);
  return address;
}

std::string SocketAddress::to_string() const {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}

std::expected<DesiredState, RpcError> read_desired_state(const json& params) {
  FieldProblem problem;
  Fields fields(params, "params", problem);
  DesiredState state;
  state.revision = fields.number("revision", 0, kMaxNumber);
  Fields pair = fields.object("pair");
  state.pair = pair.uuid("id");
  state.pair_name = pair.text("name", 63);
  pair.end();
  Fields node = fields.object("node");
  state.side = node.word<NodeSide>("side", kSides);
  state.node = node.uuid("id");
  state.node_name = node.text("name", 63);
  node.end();
  state.target = read_target(fields.object("target"));
  if (const auto partner = fields.optional_object("partner")) state.partner = read_partner(*partner);
  const auto arbiter = fields.optional_object("arbiter");
  state.names_arbiter = arbiter.has_value();
  if (arbiter) state.arbiter = read_arbiter(*arbiter, &state);
  if (const auto settings = fields.optional_object("settings")) state.settings = read_settings(*settings);
  fields.objects("volumes", kMaxVolumes,
                 [&](Fields volume) { state.volumes.push_back(read_volume(std::move(volume))); });
  fields.end();
  return verdict(problem, std::move(state));
}

std::expected<WitnessTry, RpcError> read_witness_try(const json& params) {
  FieldProblem problem;
  Fields fields(params, "params", problem);
  WitnessTry request;
  request.endpoint = fields.text("endpoint");
  if (fields.optional_text("pair")) request.pair = fields.uuid("pair");
  request.access = read_witness_access(fields);
  fields.end();
  return verdict(problem, std::move(request));
}

std::expected<WitnessForget, RpcError> read_witness_forget(const json& params) {
  FieldProblem problem;
  Fields fields(params, "params", problem);
  WitnessForget request;
  request.at.endpoint = fields.text("endpoint");
  request.at.access = read_witness_access(fields);
  request.at.pair = fields.uuid("pair");
  for (const auto& text : fields.texts("volumes", kMaxVolumes)) {
    const auto volume = engine::Uuid::parse(text);
    if (!volume) problem.note("params.volumes", "must be a list of UUIDs");
    request.volumes.push_back(volume.value_or(engine::Uuid{}));
  }
  if (const auto keep = fields.optional_text("keep")) {
    const auto [end, error] = std::from_chars(keep->data(), keep->data() + keep->size(), request.keep, 16);
    if (error != std::errc{} || end != keep->data() + keep->size() || request.keep == 0)
      problem.note("params.keep", "must be a cluster's id, as witness.try gives it");
  }
  fields.end();
  return verdict(problem, std::move(request));
}

std::expected<ReplicaCreate, RpcError> read_replica_create(const json& params) {
  FieldProblem problem;
  Fields fields(params, "params", problem);
  ReplicaCreate create;
  create.identity.volume = fields.uuid("volume");
  create.identity.pair = fields.uuid("pair");
  create.identity.owner = fields.word<NodeSide>("side", kSides);
  create.identity.name = fields.text("name", 63);
  create.identity.serial = fields.text("serial", 32);
  create.identity.size = read_size(fields);
  create.identity.block_size = read_block_size(fields);
  create.data = read_path(fields, "data");
  create.metadata = read_path(fields, "metadata");
  create.thin = fields.flag_or("thin", true);
  create.encrypted = fields.flag_or("encrypted", false);
  create.clean = fields.flag("clean");
  Fields epoch = fields.object("epoch");
  create.epoch.number = epoch.number_or("number", 1, 1, kMaxNumber);
  create.epoch.id = epoch.uuid("id");
  create.epoch.members = epoch.word<engine::MemberSet>("members", {{"both", engine::MemberSet::both()},
                                                                   {"a", engine::MemberSet::only(NodeSide::a)},
                                                                   {"b", engine::MemberSet::only(NodeSide::b)}});
  create.epoch.sequencer = epoch.word<NodeSide>("sequencer", kSides);
  create.epoch.size = epoch.number_or("size", create.identity.size, 4096, create.identity.size);
  epoch.end();
  create.epoch.arbiter = read_arbiter(fields.object("arbiter"), nullptr);
  if (!create.epoch.members.contains(create.epoch.sequencer)) {
    problem.note("params.epoch.sequencer", "must be one of the members");
  }
  if (create.clean && !create.is_member()) {
    problem.note("params.clean", "must be false: a copy that is no member has to be brought up to date");
  }
  fields.end();
  return verdict(problem, std::move(create));
}

std::expected<ListenTry, RpcError> read_listen_try(const json& params) {
  FieldProblem problem;
  Fields fields(params, "params", problem);
  ListenTry wanted{addresses(fields, "addresses")};
  fields.end();
  return verdict(problem, std::move(wanted));
}

std::expected<LinkTry, RpcError> read_link_try(const json& params) {
  FieldProblem problem;
  Fields fields(params, "params", problem);
  LinkTry wanted;
  wanted.from = address_of(fields.text("from"), fields.path_of("from"), problem);
  wanted.connect = address_of(fields.text("connect"), fields.path_of("connect"), problem);
  fields.end();
  return verdict(problem, std::move(wanted));
}

std::expected<LinkTest, RpcError> read_link_test(const json& params) {
  FieldProblem problem;
  Fields fields(params, "params", problem);
  LinkTest test{.to = address_of(fields.text("to"), fields.path_of("to"), problem)};
  const std::string transport = fields.text_or("transport", "tcp");
  if (transport != "tcp" && transport != "rdma") problem.note("params.transport", "must be \"tcp\" or \"rdma\"");
  test.over_rdma = transport == "rdma";
  fields.end();
  return verdict(problem, std::move(test));
}

std::expected<ReplicaGrow, RpcError> read_replica_grow(const json& params) {
  FieldProblem problem;
  Fields fields(params, "params", problem);
  ReplicaGrow request;
  request.volume = fields.uuid("volume");
  request.size = fields.number("size", 4096, kMaxVolumeSize);
  if (request.size % 4096 != 0) fields.problem().note(fields.path_of("size"), "must be a multiple of 4096 bytes");
  fields.end();
  return verdict(problem, std::move(request));
}

std::expected<ReplicaDelete, RpcError> read_replica_delete(const json& params) {
  FieldProblem problem;
  Fields fields(params, "params", problem);
  ReplicaDelete request;
  request.volume = fields.uuid("volume");
  request.data = read_path(fields, "data");
  request.metadata = read_path(fields, "metadata");
  request.size = fields.number_or("size", 0, 0, kMaxVolumeSize);
  if (fields.optional_text("side")) request.side = fields.word<NodeSide>("side", kSides);
  request.keep_witness = fields.flag_or("keep_witness", false);
  fields.end();
  return verdict(problem, std::move(request));
}

}  // namespace lockstep::data_plane
