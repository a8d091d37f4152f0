#include "replication/core/witness_memory.hpp"

#include <algorithm>

namespace lockstep::replication {
namespace {
using engine::Knowledge;

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
  }
  return "?";
}

WitnessTrust judge_witness(const Knowledge& known, const WitnessView& view) {
  if (view.tampered) return WitnessTrust::tampered;
  if (known.witness_cluster == 0) return WitnessTrust::ok;
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
