#include "mgmt/data_plane/witness_question.hpp"

#include <limits>

#include "mgmt/data_plane/fields.hpp"

namespace lockstep::data_plane {

using engine::NodeSide;
using nlohmann::json;
using replication::WitnessRecord;
using replication::WitnessView;

namespace {

constexpr std::size_t kMaxEndpoints = 16;
constexpr std::uint64_t kMaxCount = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kAnyNumber = std::numeric_limits<std::uint64_t>::max();

std::string addresses_of(Fields& fields) {
  std::string all;
  for (const auto& one : fields.texts("endpoints", kMaxEndpoints)) all += (all.empty() ? "" : ",") + one;
  return all;
}

std::int64_t count(Fields& fields, std::string_view name) {
  return static_cast<std::int64_t>(fields.number(name, 0, kMaxCount));
}

WitnessRecord read_record(Fields fields) {
  WitnessRecord record;
  record.number = fields.number("number", 1, kAnyNumber);
  record.epoch = fields.uuid("epoch");
  record.members.bits = static_cast<std::uint8_t>(fields.number("members", 1, 3));
  Fields reached = fields.object("generations");
  record.generations = {reached.number("a", 0, kAnyNumber), reached.number("b", 0, kAnyNumber)};
  reached.end();
  fields.end();
  return record;
}

WitnessView read_view(Fields fields) {
  WitnessView view;
  if (auto record = fields.optional_object("record")) view.record = read_record(*record);
  view.mod_revision = count(fields, "mod_revision");
  view.cluster = fields.number("cluster", 0, kAnyNumber);
  view.revision = count(fields, "revision");
  view.writes = count(fields, "writes");
  view.tampered = fields.flag("tampered");
  fields.end();
  return view;
}

json view_json(const WitnessView& view) {
  json record;
  if (view.record)
    record = {{"number", view.record->number},
              {"epoch", view.record->epoch.to_string()},
              {"members", view.record->members.bits},
              {"generations",
               {{"a", view.record->generation_of(NodeSide::a)}, {"b", view.record->generation_of(NodeSide::b)}}}};
  return {{"record", record},        {"mod_revision", view.mod_revision},
          {"cluster", view.cluster}, {"revision", view.revision},
          {"writes", view.writes},   {"tampered", view.tampered}};
}

}  // namespace

std::expected<WitnessRead, RpcError> read_witness_read(const json& params) {
  FieldProblem problem;
  Fields fields(params, "params", problem);
  WitnessRead read{addresses_of(fields)};
  fields.end();
  if (problem.found()) return std::unexpected(problem.error());
  return read;
}

std::expected<WitnessSwap, RpcError> read_witness_swap(const json& params) {
  FieldProblem problem;
  Fields fields(params, "params", problem);
  WitnessSwap swap;
  swap.addresses = addresses_of(fields);
  swap.seen = read_view(fields.object("seen"));
  swap.record = read_record(fields.object("record"));
  fields.end();
  if (problem.found()) return std::unexpected(problem.error());
  return swap;
}

json to_json(const engine::IoResult<WitnessView>& view) {
  if (view) return {{"view", view_json(*view)}, {"problem", ""}};
  if (view.error() == make_error_code(engine::Errc::not_serving))
    return {{"view", nullptr}, {"problem", "lockstepd does not use this witness"}};
  return {{"view", nullptr}, {"problem", view.error().message()}};
}

json to_json(const engine::IoResult<replication::SwapOutcome>& outcome) {
  if (!outcome) return {{"won", false}, {"view", nullptr}};
  return {{"won", outcome->won}, {"view", view_json(outcome->current)}};
}

}  // namespace lockstep::data_plane
