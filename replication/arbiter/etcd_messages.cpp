#include "replication/arbiter/etcd_messages.hpp"

#include <charconv>
#include <utility>

#include <nlohmann/json.hpp>

#include "replication/arbiter/base64.hpp"

namespace lockstep::replication {
namespace {

using engine::Errc;
using engine::fail;
using nlohmann::json;

std::string key_of(const WitnessSlot& slot) { return base64_encode(witness_key(slot.pair, slot.volume)); }

engine::Result<json> parse_object(std::string_view body) {
  json value = json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) return fail(Errc::corrupt, "etcd's answer is not a JSON object");
  if (!value.contains("header") || !value["header"].is_object()) {
    return fail(Errc::corrupt, "etcd's answer has no header");
  }
  return value;
}

/// A whole number above zero, as a string or not.
template <class T>
std::optional<T> number(const json& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end()) return std::nullopt;
  T value = 0;
  if (at->is_number_unsigned() && std::in_range<T>(at->get<std::uint64_t>())) {
    value = static_cast<T>(at->get<std::uint64_t>());
  } else if (at->is_string()) {
    const auto& text = at->get_ref<const std::string&>();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  }
  return value > 0 ? std::optional(value) : std::nullopt;
}

/// Of a record that is made anew with what one like it once held, nothing else tells. Never 0.
std::uint64_t record_since(std::uint64_t cluster, std::int64_t made) {
  const std::uint64_t both = cluster * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(made);
  return both == 0 ? 1 : both;
}

// `range` is a RangeResponse of this one key within `answer`: no record, or exactly one.
engine::Result<WitnessView> view_of(const WitnessSlot& slot, const json& answer, const json& range) {
  const auto cluster = number<std::uint64_t>(answer["header"], "cluster_id");
  if (!cluster) return fail(Errc::corrupt, "etcd's answer has no cluster_id");
  const auto revision = number<std::int64_t>(answer["header"], "revision");
  if (!revision) return fail(Errc::corrupt, "etcd's answer has no revision");
  const auto kvs = range.find("kvs");
  if (kvs == range.end()) {
    if (range.contains("count")) return fail(Errc::corrupt, "etcd counts keys but shows none");
    return WitnessView{std::nullopt, 0, *cluster, *revision};
  }
  if (!kvs->is_array() || kvs->size() != 1 || !(*kvs)[0].is_object()) {
    return fail(Errc::corrupt, "etcd's answer holds more or less than the one key asked for");
  }
  const json& kv = (*kvs)[0];
  const auto key = kv.find("key");
  if (key == kv.end() || !key->is_string() || key->get_ref<const std::string&>() != key_of(slot)) {
    return fail(Errc::corrupt, "etcd's answer is about another key");
  }
  const auto mod_revision = number<std::int64_t>(kv, "mod_revision");
  if (!mod_revision) return fail(Errc::corrupt, "etcd's answer has no mod_revision");
  if (*mod_revision > *revision) return fail(Errc::corrupt, "etcd's answer is older than the record in it");
  const auto writes = number<std::int64_t>(kv, "version");
  const auto made = number<std::int64_t>(kv, "create_revision");
  if (!writes || !made) return fail(Errc::corrupt, "etcd's answer does not tell when the record was made");
  const auto value = kv.find("value");
  if (value != kv.end() && !value->is_string()) return fail(Errc::corrupt, "etcd's answer holds no value");
  const auto bytes = base64_decode(value == kv.end() ? "" : value->get_ref<const std::string&>());
  if (!bytes) return fail(Errc::corrupt, "the witness's record is not base64");
  const auto sealed = decode_witness_value(*bytes, slot);
  if (!sealed || sealed->writes != *writes) {
    return WitnessView{std::nullopt, *mod_revision, *cluster, *revision, *writes, /*tampered=*/true};
  }
  return WitnessView{sealed->record, *mod_revision, record_since(*cluster, *made), *revision, *writes};
}

}  // namespace

std::string etcd_range_request(const WitnessSlot& slot) {
  return json{{"key", key_of(slot)}, {"serializable", false}}.dump();
}

std::string etcd_reads_request(std::span<const WitnessSlot> slots) {
  json reads = json::array();
  for (const auto& slot : slots) reads.push_back({{"request_range", {{"key", key_of(slot)}}}});
  return json{{"success", std::move(reads)}}.dump();
}

std::string etcd_swap_request(const WitnessSlot& slot, const WitnessView& seen, const WitnessRecord& record) {
  const std::string key = key_of(slot);
  const std::string value = base64_encode(encode_witness_value(slot, record, seen.writes + 1));
  const json read = {{"request_range", {{"key", key}}}};
  const json put = {{"request_put", {{"key", key}, {"value", value}}}};
  const json compare = {
      {"target", "MOD"}, {"result", "EQUAL"}, {"key", key}, {"mod_revision", std::to_string(seen.mod_revision)}};
  return json{
      {"compare", json::array({compare})}, {"success", json::array({put, read})}, {"failure", json::array({read})}}
      .dump();
}

std::string etcd_delete_request(const WitnessSlot& slot) { return json{{"key", key_of(slot)}}.dump(); }

engine::Result<WitnessView> parse_range_answer(const WitnessSlot& slot, std::string_view body) {
  const auto answer = parse_object(body);
  if (!answer) return std::unexpected(answer.error());
  return view_of(slot, *answer, *answer);
}

std::vector<engine::Result<WitnessView>> parse_reads_answer(std::span<const WitnessSlot> slots, std::string_view body) {
  const auto all = [&](const engine::Error& error) {
    return std::vector<engine::Result<WitnessView>>(slots.size(), std::unexpected(error));
  };
  const auto answer = parse_object(body);
  if (!answer) return all(answer.error());
  const auto responses = answer->find("responses");
  if (responses == answer->end() || !responses->is_array() || responses->size() != slots.size())
    return all({make_error_code(Errc::corrupt), "etcd's answer lacks the transaction's responses"});
  std::vector<engine::Result<WitnessView>> views;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const json& one = (*responses)[i];
    const bool there = one.is_object() && one.contains("response_range") && one["response_range"].is_object();
    views.push_back(there ? view_of(slots[i], *answer, one["response_range"])
                          : fail(Errc::corrupt, "etcd's answer lacks a record"));
  }
  return views;
}

engine::Result<SwapOutcome> parse_swap_answer(const WitnessSlot& slot, const WitnessRecord& record,
                                              std::string_view body) {
  const auto answer = parse_object(body);
  if (!answer) return std::unexpected(answer.error());
  const auto succeeded = answer->find("succeeded");
  if (succeeded != answer->end() && !succeeded->is_boolean()) {
    return fail(Errc::corrupt, "etcd's \"succeeded\" is neither true nor false");
  }
  const bool won = succeeded != answer->end() && succeeded->get<bool>();
  const auto responses = answer->find("responses");
  if (responses == answer->end() || !responses->is_array() || responses->size() != (won ? 2u : 1u)) {
    return fail(Errc::corrupt, "etcd's answer lacks the transaction's responses");
  }
  const json& last = responses->back();
  if (!last.is_object() || !last.contains("response_range") || !last["response_range"].is_object()) {
    return fail(Errc::corrupt, "etcd's answer lacks the record read back");
  }
  auto view = view_of(slot, *answer, last["response_range"]);
  if (!view) return std::unexpected(view.error());
  if (won && view->record != record) return fail(Errc::corrupt, "etcd says it wrote the record but shows another");
  return SwapOutcome{won, *view};
}

engine::Result<void> parse_delete_answer(std::string_view body) {
  const auto answer = parse_object(body);
  if (!answer) return std::unexpected(answer.error());
  return {};
}

}  // namespace lockstep::replication
