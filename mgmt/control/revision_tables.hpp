#pragma once
// Revisions and the configuration in force, in SQLite.
#include "mgmt/control/revisions.hpp"

namespace lockstep::mgmt {

class Database;

class RevisionTables final : public RevisionStore {
 public:
  /// Begins an epoch with an empty configuration in a new database.
  explicit RevisionTables(Database& database);
  RevisionId head() override;
  ConfigurationEpoch epoch() override;
  Configuration configuration() override;
  std::optional<Tentative> tentative() override;
  void put_tentative(const Tentative& revision) override;
  void drop_tentative() override;
  void commit(const RevisionId& id, const ConfigurationEpoch& epoch, const std::string& summary,
              const Configuration& configuration) override;

 private:
  Database& database_;
};

}  // namespace lockstep::mgmt
