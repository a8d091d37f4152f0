#include "replication/core/witness_memory.hpp"

#include <algorithm>
#include <limits>

namespace lockstep::replication {
namespace {
using engine::Knowledge;

/// No witness ever has that revision: to a version that does not know of it, one that has less was set back.
constexpr std::int64_t kLetGo = std::numeric_limits<std::int64_t>::max();

void take_record(Knowledge& known, const WitnessView& view) {
  const WitnessRecord record = view.record.value_or(WitnessRecord{});
  known.record_number = record.number;
  known.record_epoch = record.epoch;
  known.record_members = record.members;
}
}  // namespace

std::optional<WitnessRecord> last_seen(const Knowledge& known) {
  if (!known.record_seen()) return std::nullopt;
  return WitnessRecord{known.record_number, known.record_epoch, known.record_members};
}

bool has_taken_witness(const Knowledge& known) {
  return known.witness_cluster != 0 && known.witness_revision != kLetGo;
}

Knowledge let_go_of_witness(Knowledge known) {
  if (known.witness_cluster != 0) known.witness_revision = kLetGo;
  return known;
}

const char* to_string(WitnessTrust trust) {
  switch (trust) {
    case WitnessTrust::ok:
      return "ok";
    case WitnessTrust::behind:
      return "behind";
    case WitnessTrust::other_cluster:
      return "other_cluster";
    case WitnessTrust::no_record_any_more:
      return "no_record_any_more";
    case WitnessTrust::tampered:
      return "tampered";
    case WitnessTrust::let_go:
      return "let_go";
  }
  return "?";
}

WitnessTrust judge_witness(const Knowledge& known, const WitnessView& view) {
  if (view.tampered) return WitnessTrust::tampered;
  if (known.witness_cluster == 0) return WitnessTrust::ok;
  if (!has_taken_witness(known)) return WitnessTrust::let_go;
  const auto seen = last_seen(known);
  if (seen && !view.record) return WitnessTrust::no_record_any_more;
  if (view.cluster != known.witness_cluster) return WitnessTrust::other_cluster;
  if (view.revision < known.witness_revision) return WitnessTrust::behind;
  if (view.record == seen) return WitnessTrust::ok;
  const bool later = view.mod_revision > known.witness_revision;
  const bool higher = !seen || view.record->number > seen->number;
  return later && higher ? WitnessTrust::ok : WitnessTrust::behind;
}

Knowledge learn(Knowledge known, const WitnessView& view) {
  if (view.cluster == 0 || !view.record || judge_witness(known, view) != WitnessTrust::ok) return known;
  known.witness_cluster = view.cluster;
  known.witness_revision = std::max(known.witness_revision, view.revision);
  take_record(known, view);
  return known;
}

Knowledge accept_witness(Knowledge known, const WitnessView& view) {
  if (view.cluster == 0) return known;
  if (judge_witness(known, view) == WitnessTrust::ok) return learn(known, view);
  ++known.witness_repairs;
  known.witness_cluster = view.cluster;
  known.witness_revision = view.revision;
  take_record(known, view);
  return known;
}

}  // namespace lockstep::replication
