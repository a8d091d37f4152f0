#include "mgmt/control/migrations.hpp"

#include <array>

namespace lockstep::mgmt {
namespace {

constexpr std::string_view kInitial = R"sql(
-- What belongs to this node alone: its id, its pending join, and the like.
CREATE TABLE settings (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The configuration in force is what the tables below hold; its revision is the newest committed row.
-- At most one row is tentative: it waits, with its whole document, for the partner's decision.
CREATE TABLE revisions (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  epoch TEXT NOT NULL,
  n INTEGER NOT NULL,
  change TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('tentative', 'committed')),
  summary TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  document TEXT,
  CHECK ((state = 'tentative') = (document IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX one_tentative_revision ON revisions (state) WHERE state = 'tentative';

CREATE TABLE pair (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  target_name TEXT NOT NULL,
  arbiter TEXT NOT NULL CHECK (arbiter IN ('witness', 'preferred')),
  endpoints TEXT NOT NULL,
  preferred TEXT NOT NULL CHECK (preferred IN ('a', 'b')),
  lease_ms INTEGER NOT NULL,
  resync_floor INTEGER NOT NULL,
  resync_ceiling INTEGER NOT NULL,
  link_user TEXT NOT NULL,
  link_secret TEXT NOT NULL,
  link_mutual_user TEXT NOT NULL,
  link_mutual_secret TEXT NOT NULL,
  created_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE nodes (
  side TEXT PRIMARY KEY CHECK (side IN ('a', 'b')),
  id TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL UNIQUE,
  portals TEXT NOT NULL,
  link_address TEXT NOT NULL,
  management_address TEXT NOT NULL,
  fingerprint TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE volumes (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  serial TEXT NOT NULL UNIQUE,
  lun INTEGER NOT NULL UNIQUE,
  size INTEGER NOT NULL,
  block_size INTEGER NOT NULL,
  thin INTEGER NOT NULL CHECK (thin IN (0, 1)),
  lifecycle TEXT NOT NULL CHECK (lifecycle IN ('creating', 'ready', 'deleting')),
  first_epoch TEXT NOT NULL,
  created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE initiators (
  iqn TEXT PRIMARY KEY,
  chap_user TEXT,
  chap_secret TEXT,
  mutual_user TEXT,
  mutual_secret TEXT,
  created_ms INTEGER NOT NULL,
  CHECK ((chap_user IS NULL) = (chap_secret IS NULL)),
  CHECK ((mutual_user IS NULL) = (mutual_secret IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE access (
  volume TEXT NOT NULL REFERENCES volumes (id) ON DELETE CASCADE,
  initiator TEXT NOT NULL REFERENCES initiators (iqn),
  PRIMARY KEY (volume, initiator)
) STRICT, WITHOUT ROWID;
CREATE INDEX access_by_initiator ON access (initiator);

CREATE TABLE tokens (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  digest TEXT NOT NULL UNIQUE,
  role TEXT NOT NULL CHECK (role IN ('admin', 'viewer')),
  created_ms INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- This node's own: when a token was last used here.
CREATE TABLE token_use (
  id TEXT PRIMARY KEY,
  used_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE invitations (
  digest TEXT PRIMARY KEY,
  expires_ms INTEGER NOT NULL,
  used INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  runner TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('pending', 'running', 'done', 'failed')),
  step TEXT NOT NULL,
  progress REAL NOT NULL,
  message TEXT NOT NULL,
  error TEXT,
  volume TEXT,
  parameters TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  finished_ms INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX jobs_by_time ON jobs (created_ms);

CREATE TABLE events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at_ms INTEGER NOT NULL,
  kind TEXT NOT NULL,
  severity TEXT NOT NULL CHECK (severity IN ('info', 'warning', 'critical')),
  side TEXT,
  volume TEXT,
  message TEXT NOT NULL,
  partner_id INTEGER UNIQUE
) STRICT;
)sql";

// The defaults are what every volume had before.
constexpr std::string_view kVolumeShapes = R"sql(
ALTER TABLE volumes ADD COLUMN physical_block INTEGER NOT NULL DEFAULT 4096;
ALTER TABLE volumes ADD COLUMN read_only INTEGER NOT NULL DEFAULT 0 CHECK (read_only IN (0, 1));
ALTER TABLE volumes ADD COLUMN removable INTEGER NOT NULL DEFAULT 0 CHECK (removable IN (0, 1));
ALTER TABLE volumes ADD COLUMN write_cache INTEGER NOT NULL DEFAULT 0 CHECK (write_cache IN (0, 1));
-- Not empty while the volume is being filled from another array.
ALTER TABLE volumes ADD COLUMN import_secret TEXT NOT NULL DEFAULT '';
)sql";

constexpr std::string_view kEncryption = R"sql(
ALTER TABLE volumes ADD COLUMN encrypted INTEGER NOT NULL DEFAULT 0 CHECK (encrypted IN (0, 1));
)sql";

constexpr std::string_view kNextLun = R"sql(
ALTER TABLE pair ADD COLUMN next_lun INTEGER NOT NULL DEFAULT 0;
UPDATE pair SET next_lun = (SELECT COALESCE(MAX(lun) + 1, 0) FROM volumes);
)sql";

constexpr std::string_view kDiscovery = R"sql(
ALTER TABLE pair ADD COLUMN discovery_user TEXT;
ALTER TABLE pair ADD COLUMN discovery_secret TEXT;
)sql";

// A volume without a list was open to all, and stays so.
constexpr std::string_view kClosedVolumes = R"sql(
ALTER TABLE volumes ADD COLUMN any_initiator INTEGER NOT NULL DEFAULT 0 CHECK (any_initiator IN (0, 1));
UPDATE volumes SET any_initiator = 1 WHERE id NOT IN (SELECT volume FROM access);
)sql";

constexpr std::string_view kWitnessAccess = R"sql(
ALTER TABLE pair ADD COLUMN witness_ca TEXT NOT NULL DEFAULT '';
ALTER TABLE pair ADD COLUMN witness_certificate TEXT NOT NULL DEFAULT '';
ALTER TABLE pair ADD COLUMN witness_key TEXT NOT NULL DEFAULT '';
ALTER TABLE pair ADD COLUMN witness_user TEXT NOT NULL DEFAULT '';
ALTER TABLE pair ADD COLUMN witness_password TEXT NOT NULL DEFAULT '';
)sql";

// A family is what stands before the first dot of a kind.
constexpr std::string_view kEventShares = R"sql(
ALTER TABLE events ADD COLUMN times INTEGER NOT NULL DEFAULT 1;
ALTER TABLE events ADD COLUMN family TEXT GENERATED ALWAYS AS (substr(kind, 1, instr(kind || '.', '.') - 1)) VIRTUAL;
CREATE INDEX events_by_family ON events (family, id);
)sql";

// A node may be replaced: an invitation names the side, and the witness's records keep the seal that they have.
constexpr std::string_view kReplacement = R"sql(
ALTER TABLE invitations ADD COLUMN replaces TEXT NOT NULL DEFAULT '' CHECK (replaces IN ('', 'a', 'b'));
ALTER TABLE pair ADD COLUMN seal_one TEXT;
ALTER TABLE pair ADD COLUMN seal_other TEXT;
)sql";

// Of volumes of which a copy was replaced; the others' copies are the first ones, in the nodes' own folders.
constexpr std::string_view kCopies = R"sql(
CREATE TABLE copies (
  volume TEXT NOT NULL REFERENCES volumes (id),
  side TEXT NOT NULL CHECK (side IN ('a', 'b')),
  number INTEGER NOT NULL CHECK (number >= 1),
  folder TEXT NOT NULL,
  retired INTEGER NOT NULL CHECK (retired IN (0, 1)),
  PRIMARY KEY (volume, side)
) STRICT;
)sql";

constexpr std::string_view kChangingWitness = R"sql(
ALTER TABLE pair ADD COLUMN witness_changing INTEGER NOT NULL DEFAULT 0 CHECK (witness_changing IN (0, 1));
)sql";

// Who decides over the configuration. Epochs that are not here are of both nodes, number 1. Members: 1 = A, 2 = B, 3 =
// both.
constexpr std::string_view kConfigurationEpochs = R"sql(
CREATE TABLE configuration_epochs (
  id TEXT PRIMARY KEY,
  number INTEGER NOT NULL CHECK (number >= 1),
  members INTEGER NOT NULL CHECK (members IN (1, 2, 3)),
  forced INTEGER NOT NULL CHECK (forced IN (0, 1)),
  ancestors TEXT NOT NULL
) STRICT;
)sql";

// Beside `arbiter`, which is 'preferred' then: a table's check can't be changed.
constexpr std::string_view kFence = R"sql(
ALTER TABLE pair ADD COLUMN fence INTEGER NOT NULL DEFAULT 0 CHECK (fence IN (0, 1));
)sql";

// What was replaced may be accepted for a while beside what took its place.
constexpr std::string_view kRotation = R"sql(
ALTER TABLE initiators ADD COLUMN old_user TEXT;
ALTER TABLE initiators ADD COLUMN old_secret TEXT;
ALTER TABLE initiators ADD COLUMN old_mutual_user TEXT;
ALTER TABLE initiators ADD COLUMN old_mutual_secret TEXT;
ALTER TABLE initiators ADD COLUMN old_until_ms INTEGER;
-- The link's other secrets: about to be in force, or of before.
ALTER TABLE pair ADD COLUMN beside_user TEXT;
ALTER TABLE pair ADD COLUMN beside_secret TEXT;
ALTER TABLE pair ADD COLUMN beside_mutual_user TEXT;
ALTER TABLE pair ADD COLUMN beside_mutual_secret TEXT;
ALTER TABLE pair ADD COLUMN beside_old INTEGER CHECK (beside_old IN (0, 1));
)sql";

// A pair of before goes on without TLS on its link until it is told otherwise.
constexpr std::string_view kLinkProtection = R"sql(
ALTER TABLE pair ADD COLUMN link_protection TEXT NOT NULL DEFAULT 'off'
  CHECK (link_protection IN ('off', 'accepted', 'used', 'required'));
)sql";

// A node may be reached at other addresses, too, while they take the place of those that it has.
constexpr std::string_view kBeside = R"sql(
ALTER TABLE nodes ADD COLUMN beside_link_address TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN beside_management_address TEXT NOT NULL DEFAULT '';
)sql";

constexpr std::string_view kTwoLeases = R"sql(
ALTER TABLE pair ADD COLUMN other_lease_ms INTEGER NOT NULL DEFAULT 0 CHECK (other_lease_ms >= 0);
)sql";

// A volume that was made while the other node was away.
constexpr std::string_view kUnmadeCopies = R"sql(
ALTER TABLE copies ADD COLUMN unmade INTEGER NOT NULL DEFAULT 0 CHECK (unmade IN (0, 1));
)sql";

// Lists, as portals are.
constexpr std::string_view kLinkPaths = R"sql(
ALTER TABLE nodes ADD COLUMN more_link_addresses TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN last_link_addresses TEXT NOT NULL DEFAULT '';
)sql";

constexpr std::string_view kShards = R"sql(
ALTER TABLE volumes ADD COLUMN shard INTEGER NOT NULL DEFAULT 0 CHECK (shard >= 0);
)sql";

constexpr std::array<std::string_view, 20> kMigrations{
    kInitial,         kVolumeShapes,        kEncryption,   kNextLun,     kDiscovery,
    kClosedVolumes,   kWitnessAccess,       kEventShares,  kReplacement, kCopies,
    kChangingWitness, kConfigurationEpochs, kFence,        kRotation,    kTwoLeases,
    kBeside,          kLinkProtection,      kUnmadeCopies, kLinkPaths,   kShards};

}  // namespace

std::span<const std::string_view> migrations() { return kMigrations; }

}  // namespace lockstep::mgmt
