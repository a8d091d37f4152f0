#include "mgmt/control/configuration_tables.hpp"

#include <algorithm>

#include <SQLiteCpp/SQLiteCpp.h>

#include "mgmt/control/table_rows.hpp"

namespace lockstep::mgmt {
namespace {

using records::Row;
using records::Rules;

// What the tables call otherwise than the description (configuration.hpp) does. `access` and `copies` have tables of
// their own.
struct Tables {
  static constexpr Rules rules(const Pair*) { return {.renamed = "arbiter= settings= link_beside=beside"}; }
  static constexpr Rules rules(const Arbiter*) {
    return {.hidden = "witness", .renamed = "access=witness changing=witness_changing"};
  }
  static constexpr Rules rules(const LinkBeside*) { return {.renamed = "link= link_mutual=mutual are_old=old"}; }
  static constexpr Rules rules(const OldCredentials*) { return {.renamed = "chap="}; }
  static constexpr Rules rules(const Volume*) { return {.hidden = "access copies"}; }
  static constexpr Rules rules(const void*) { return {}; }

  static void wrote(Row& row, const std::string& prefix, const Arbiter& arbiter) {
    row.put(prefix + "arbiter", arbiter.witness ? "witness" : "preferred");
  }
  static void read(const Row& row, const std::string& prefix, Arbiter& arbiter) {
    arbiter.witness = row.text(prefix + "arbiter") == "witness";
  }
};

void load_volumes(SQLite::Database& db, Configuration& c) {
  c.volumes = select_records<Tables, Volume>(db, "volumes");
  for (const auto& row : select_rows(db, {"volume", "initiator"}, "access", "ORDER BY initiator"))
    if (Volume* volume = c.volume(records::uuid_in(row, "volume"))) volume->access.push_back(row.text("initiator"));
  auto columns = records::columns_of<Tables, Copy>();
  columns.insert(columns.end(), {"volume", "side"});
  for (const auto& row : select_rows(db, columns, "copies"))
    if (Volume* volume = c.volume(records::uuid_in(row, "volume")))
      volume->copy(row.text("side") == "a" ? NodeSide::a : NodeSide::b) = records::record_of<Tables, Copy>(row);
}

void save_volume(SQLite::Database& db, const Volume& volume) {
  insert_row(db, "volumes", records::row_of<Tables>(volume));
  for (const auto& initiator : volume.access) {
    Row row;
    row.put("volume", volume.id.to_string());
    row.put("initiator", initiator);
    insert_row(db, "access", row);
  }
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    if (volume.copy(side) == Copy{}) continue;
    Row row = records::row_of<Tables>(volume.copy(side));
    row.put("volume", volume.id.to_string());
    row.put("side", side_name(side));
    insert_row(db, "copies", row);
  }
}

}  // namespace

std::map<std::string, std::vector<std::string>> described_columns() {
  return {{"pair", records::columns_of<Tables, Pair>()},
          {"nodes", records::columns_of<Tables, Node>()},
          {"volumes", records::columns_of<Tables, Volume>()},
          {"copies", records::columns_of<Tables, Copy>()},
          {"initiators", records::columns_of<Tables, Initiator>()},
          {"tokens", records::columns_of<Tables, Token>()}};
}

Configuration load_configuration(SQLite::Database& db) {
  Configuration c;
  for (auto& pair : select_records<Tables, Pair>(db, "pair")) c.pair = std::move(pair);
  c.nodes = select_records<Tables, Node>(db, "nodes");
  load_volumes(db, c);
  c.initiators = select_records<Tables, Initiator>(db, "initiators");
  c.tokens = select_records<Tables, Token>(db, "tokens");
  c.sort();
  return c;
}

void save_configuration(SQLite::Database& db, const Configuration& c) {
  // Hundreds of rows at the most: writing them all is simpler than finding what differs, and as durable.
  for (const char* table : {"access", "copies", "volumes", "initiators", "tokens", "nodes", "pair"})
    db.exec(std::string("DELETE FROM ") + table);
  if (c.pair) {
    Row row = records::row_of<Tables>(*c.pair);
    row.put("only", std::int64_t{1});
    insert_row(db, "pair", row);
  }
  for (const auto& n : c.nodes) insert_row(db, "nodes", records::row_of<Tables>(n));
  for (const auto& i : c.initiators) insert_row(db, "initiators", records::row_of<Tables>(i));
  for (const auto& v : c.volumes) save_volume(db, v);
  for (const auto& t : c.tokens) insert_row(db, "tokens", records::row_of<Tables>(t));
}

}  // namespace lockstep::mgmt
