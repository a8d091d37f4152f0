#include "mgmt/control/configuration_tables.hpp"

#include <iterator>
#include <sstream>
#include <stdexcept>

#include <SQLiteCpp/SQLiteCpp.h>

namespace lockstep::mgmt {
namespace {

using SQLite::Column;
using SQLite::Statement;

constexpr const char* kLifecycles[] = {"creating", "ready", "deleting"};

Uuid uuid_of(const Column& column) {
  const auto id = Uuid::parse(column.getString());
  if (!id) throw std::runtime_error("The database holds a malformed UUID: " + column.getString());
  return *id;
}

NodeSide side_of(const Column& column) { return column.getString() == "a" ? NodeSide::a : NodeSide::b; }

std::string joined(const std::vector<std::string>& words) {
  std::string line;
  for (const auto& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
}

std::vector<std::string> split(const std::string& line) {
  std::istringstream words(line);
  return {std::istream_iterator<std::string>(words), {}};
}

std::optional<Chap> chap_of(const Column& user, const Column& secret) {
  if (user.isNull()) return std::nullopt;
  return Chap{user.getString(), secret.getString()};
}

void bind_chap(Statement& statement, int at, const std::optional<Chap>& chap) {
  if (!chap) return;  // stays NULL
  statement.bind(at, chap->user);
  statement.bind(at + 1, chap->secret);
}

void load_pair(SQLite::Database& db, Configuration& c) {
  Statement q(
      db,
      "SELECT id, name, target_name, arbiter, endpoints, preferred, lease_ms, resync_floor, resync_ceiling, "
      "link_user, link_secret, link_mutual_user, link_mutual_secret, created_ms, next_lun, "
      "discovery_user, discovery_secret, witness_ca, witness_certificate, witness_key, witness_user, "
      "witness_password, seal_one, seal_other, witness_changing, fence, "
      "beside_user, beside_secret, beside_mutual_user, beside_mutual_secret, beside_old, other_lease_ms FROM pair");
  if (!q.executeStep()) return;
  Pair p;
  p.id = uuid_of(q.getColumn(0));
  p.name = q.getColumn(1).getString();
  p.target_name = q.getColumn(2).getString();
  p.arbiter = {q.getColumn(3).getString() == "witness",
               split(q.getColumn(4).getString()),
               side_of(q.getColumn(5)),
               {q.getColumn(17).getString(), q.getColumn(18).getString(), q.getColumn(19).getString(),
                q.getColumn(20).getString(), q.getColumn(21).getString()},
               q.getColumn(24).getInt() != 0,
               q.getColumn(25).getInt() != 0};
  p.settings = {q.getColumn(6).getInt64(), q.getColumn(7).getInt64(), q.getColumn(8).getInt64(),
                q.getColumn(31).getInt64()};
  p.link = {q.getColumn(9).getString(), q.getColumn(10).getString()};
  p.link_mutual = {q.getColumn(11).getString(), q.getColumn(12).getString()};
  p.created_ms = q.getColumn(13).getInt64();
  p.next_lun = q.getColumn(14).getInt64();
  p.discovery = chap_of(q.getColumn(15), q.getColumn(16));
  if (!q.getColumn(22).isNull()) p.seal = SealSecrets{q.getColumn(22).getString(), q.getColumn(23).getString()};
  if (const auto link = chap_of(q.getColumn(26), q.getColumn(27)))
    p.link_beside =
        LinkBeside{*link, {q.getColumn(28).getString(), q.getColumn(29).getString()}, q.getColumn(30).getInt() != 0};
  c.pair = p;
}

void load_nodes(SQLite::Database& db, Configuration& c) {
  Statement q(db, "SELECT side, id, name, portals, link_address, management_address, fingerprint FROM nodes");
  while (q.executeStep())
    c.nodes.push_back({uuid_of(q.getColumn(1)), side_of(q.getColumn(0)), q.getColumn(2).getString(),
                       split(q.getColumn(3).getString()), q.getColumn(4).getString(), q.getColumn(5).getString(),
                       q.getColumn(6).getString()});
}

void load_volumes(SQLite::Database& db, Configuration& c) {
  Statement q(
      db,
      "SELECT id, name, serial, lun, size, block_size, thin, lifecycle, first_epoch, created_ms, physical_block, "
      "read_only, removable, write_cache, import_secret, encrypted, any_initiator FROM volumes");
  Statement access(db, "SELECT initiator FROM access WHERE volume = ? ORDER BY initiator");
  while (q.executeStep()) {
    Volume v;
    v.id = uuid_of(q.getColumn(0));
    v.name = q.getColumn(1).getString();
    v.serial = q.getColumn(2).getString();
    v.lun = q.getColumn(3).getInt64();
    v.size = q.getColumn(4).getInt64();
    v.block_size = q.getColumn(5).getInt64();
    v.thin = q.getColumn(6).getInt() != 0;
    const std::string lifecycle = q.getColumn(7).getString();
    for (int i = 0; i < 3; ++i)
      if (lifecycle == kLifecycles[i]) v.lifecycle = static_cast<Lifecycle>(i);
    v.first_epoch = uuid_of(q.getColumn(8));
    v.created_ms = q.getColumn(9).getInt64();
    v.physical_block = q.getColumn(10).getInt64();
    v.read_only = q.getColumn(11).getInt() != 0;
    v.removable = q.getColumn(12).getInt() != 0;
    v.write_cache = q.getColumn(13).getInt() != 0;
    v.import_secret = q.getColumn(14).getString();
    v.encrypted = q.getColumn(15).getInt() != 0;
    v.any_initiator = q.getColumn(16).getInt() != 0;
    access.reset();
    access.bind(1, v.id.to_string());
    while (access.executeStep()) v.access.push_back(access.getColumn(0).getString());
    c.volumes.push_back(std::move(v));
  }
}

void load_copies(SQLite::Database& db, Configuration& c) {
  Statement q(db, "SELECT volume, side, number, folder, retired FROM copies");
  while (q.executeStep()) {
    Volume* volume = c.volume(uuid_of(q.getColumn(0)));
    if (volume)
      volume->copy(side_of(q.getColumn(1))) = {q.getColumn(2).getInt64(), q.getColumn(3).getString(),
                                               q.getColumn(4).getInt() != 0};
  }
}

void load_initiators(SQLite::Database& db, Configuration& c) {
  Statement q(db,
              "SELECT iqn, chap_user, chap_secret, mutual_user, mutual_secret, created_ms, old_user, old_secret, "
              "old_mutual_user, old_mutual_secret, old_until_ms FROM initiators");
  while (q.executeStep()) {
    Initiator i{q.getColumn(0).getString(), chap_of(q.getColumn(1), q.getColumn(2)),
                chap_of(q.getColumn(3), q.getColumn(4)), q.getColumn(5).getInt64()};
    if (const auto old = chap_of(q.getColumn(6), q.getColumn(7)))
      i.old = OldCredentials{*old, chap_of(q.getColumn(8), q.getColumn(9)), q.getColumn(10).getInt64()};
    c.initiators.push_back(std::move(i));
  }
}

void load_tokens(SQLite::Database& db, Configuration& c) {
  Statement q(db, "SELECT id, name, digest, role, created_ms, expires_ms FROM tokens");
  while (q.executeStep())
    c.tokens.push_back({uuid_of(q.getColumn(0)), q.getColumn(1).getString(), q.getColumn(2).getString(),
                        q.getColumn(3).getString() == "viewer" ? Role::viewer : Role::admin, q.getColumn(4).getInt64(),
                        q.getColumn(5).getInt64()});
}

void save_pair(SQLite::Database& db, const Pair& p) {
  Statement q(db,
              "INSERT INTO pair VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
              "?, ?, ?, ?, ?, ?, ?)");
  q.bind(1, p.id.to_string());
  q.bind(2, p.name);
  q.bind(3, p.target_name);
  q.bind(4, p.arbiter.witness ? "witness" : "preferred");
  q.bind(5, joined(p.arbiter.endpoints));
  q.bind(6, side_name(p.arbiter.preferred));
  q.bind(7, p.settings.lease_ms);
  q.bind(8, p.settings.resync_floor);
  q.bind(9, p.settings.resync_ceiling);
  q.bind(10, p.link.user);
  q.bind(11, p.link.secret);
  q.bind(12, p.link_mutual.user);
  q.bind(13, p.link_mutual.secret);
  q.bind(14, p.created_ms);
  q.bind(15, p.next_lun);
  bind_chap(q, 16, p.discovery);
  q.bind(18, p.arbiter.access.ca);
  q.bind(19, p.arbiter.access.certificate);
  q.bind(20, p.arbiter.access.key);
  q.bind(21, p.arbiter.access.user);
  q.bind(22, p.arbiter.access.password);
  if (p.seal) {  // stay NULL otherwise
    q.bind(23, p.seal->one);
    q.bind(24, p.seal->other);
  }
  q.bind(25, p.arbiter.changing ? 1 : 0);
  q.bind(26, p.arbiter.fence ? 1 : 0);
  if (const auto& beside = p.link_beside) {  // stay NULL otherwise
    bind_chap(q, 27, beside->link);
    bind_chap(q, 29, beside->link_mutual);
    q.bind(31, beside->are_old ? 1 : 0);
  }
  q.bind(32, p.settings.other_lease_ms);
  q.exec();
}

void save_node(SQLite::Database& db, const Node& n) {
  Statement q(db, "INSERT INTO nodes VALUES (?, ?, ?, ?, ?, ?, ?)");
  q.bind(1, side_name(n.side));
  q.bind(2, n.id.to_string());
  q.bind(3, n.name);
  q.bind(4, joined(n.portals));
  q.bind(5, n.link_address);
  q.bind(6, n.management_address);
  q.bind(7, n.fingerprint);
  q.exec();
}

void save_volume(SQLite::Database& db, const Volume& v) {
  Statement q(db,
              "INSERT INTO volumes (id, name, serial, lun, size, block_size, thin, lifecycle, first_epoch, created_ms, "
              "physical_block, read_only, removable, write_cache, import_secret, encrypted, any_initiator) "
              "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  q.bind(1, v.id.to_string());
  q.bind(2, v.name);
  q.bind(3, v.serial);
  q.bind(4, v.lun);
  q.bind(5, v.size);
  q.bind(6, v.block_size);
  q.bind(7, v.thin ? 1 : 0);
  q.bind(8, kLifecycles[static_cast<int>(v.lifecycle)]);
  q.bind(9, v.first_epoch.to_string());
  q.bind(10, v.created_ms);
  q.bind(11, v.physical_block);
  q.bind(12, v.read_only ? 1 : 0);
  q.bind(13, v.removable ? 1 : 0);
  q.bind(14, v.write_cache ? 1 : 0);
  q.bind(15, v.import_secret);
  q.bind(16, v.encrypted ? 1 : 0);
  q.bind(17, v.any_initiator ? 1 : 0);
  q.exec();
  for (const auto& initiator : v.access) {
    Statement access(db, "INSERT INTO access VALUES (?, ?)");
    access.bind(1, v.id.to_string());
    access.bind(2, initiator);
    access.exec();
  }
}

void save_copies(SQLite::Database& db, const Volume& v) {
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    const Copy& copy = v.copy(side);
    if (copy == Copy{}) continue;
    Statement q(db, "INSERT INTO copies VALUES (?, ?, ?, ?, ?)");
    q.bind(1, v.id.to_string());
    q.bind(2, side_name(side));
    q.bind(3, copy.number);
    q.bind(4, copy.folder);
    q.bind(5, copy.retired ? 1 : 0);
    q.exec();
  }
}

void save_initiator(SQLite::Database& db, const Initiator& i) {
  Statement q(db, "INSERT INTO initiators VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  q.bind(1, i.iqn);
  bind_chap(q, 2, i.chap);
  bind_chap(q, 4, i.mutual);
  q.bind(6, i.created_ms);
  if (i.old) {  // stay NULL otherwise
    bind_chap(q, 7, i.old->chap);
    bind_chap(q, 9, i.old->mutual);
    q.bind(11, i.old->until_ms);
  }
  q.exec();
}

void save_token(SQLite::Database& db, const Token& t) {
  Statement q(db, "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?)");
  q.bind(1, t.id.to_string());
  q.bind(2, t.name);
  q.bind(3, t.digest);
  q.bind(4, t.role == Role::viewer ? "viewer" : "admin");
  q.bind(5, t.created_ms);
  q.bind(6, t.expires_ms);
  q.exec();
}

}  // namespace

Configuration load_configuration(SQLite::Database& db) {
  Configuration c;
  load_pair(db, c);
  load_nodes(db, c);
  load_volumes(db, c);
  load_copies(db, c);
  load_initiators(db, c);
  load_tokens(db, c);
  c.sort();
  return c;
}

void save_configuration(SQLite::Database& db, const Configuration& c) {
  // Hundreds of rows at the most: writing them all is simpler than finding what differs, and as durable.
  for (const char* table : {"access", "copies", "volumes", "initiators", "tokens", "nodes", "pair"})
    db.exec(std::string("DELETE FROM ") + table);
  if (c.pair) save_pair(db, *c.pair);
  for (const auto& n : c.nodes) save_node(db, n);
  for (const auto& i : c.initiators) save_initiator(db, i);
  for (const auto& v : c.volumes) {
    save_volume(db, v);
    save_copies(db, v);
  }
  for (const auto& t : c.tokens) save_token(db, t);
}

}  // namespace lockstep::mgmt
