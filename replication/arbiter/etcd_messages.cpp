#include "replication/arbiter/etcd_messages.hpp"

#include <charconv>
#include <limits>
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

json swaps_json(std::span<const EtcdSwap> swaps) {
  json compare = json::array(), success = json::array();
  for (const auto& [slot, seen, record] : swaps) {
    const std::string key = key_of(slot);
    compare.push_back(
        {{"target", "MOD"}, {"result", "EQUAL"}, {"key", key}, {"mod_revision", std::to_string(seen.mod_revision)}});
    const std::string value = base64_encode(encode_witness_value(slot, record, seen.writes + 1));
    success.push_back({{"request_put", {{"key", key}, {"value", value}}}});
    success.push_back({{"request_range", {{"key", key}}}});
  }
  return {{"compare", std::move(compare)}, {"success", std::move(success)}};
}

/// Whether a transaction was carried out.
engine::Result<bool> succeeded(const json& answer) {
  const auto found = answer.find("succeeded");
  if (found != answer.end() && !found->is_boolean())
    return fail(Errc::corrupt, "etcd's \"succeeded\" is neither true nor false");
  return found != answer.end() && found->get<bool>();
}

engine::Result<SwapOutcome> outcome_of(const WitnessSlot& slot, const WitnessRecord& record, const json& answer,
                                       const json& read, bool won) {
  if (!read.is_object() || !read.contains("response_range") || !read["response_range"].is_object())
    return fail(Errc::corrupt, "etcd's answer lacks the record read back");
  auto view = view_of(slot, answer, read["response_range"]);
  if (!view) return std::unexpected(view.error());
  if (won && view->record != record) return fail(Errc::corrupt, "etcd says it wrote the record but shows another");
  return SwapOutcome{won, *view};
}

}  // namespace

std::string etcd_range_request(const WitnessSlot& slot) {
  return json{{"key", key_of(slot)}, {"serializable", false}}.dump();
}

std::string etcd_write_trial_request(const WitnessSlot& slot) {
  const std::string key = key_of(slot);
  const std::string never = std::to_string(std::numeric_limits<std::int64_t>::max());
  return json{{"compare", {{{"target", "MOD"}, {"result", "EQUAL"}, {"key", key}, {"mod_revision", never}}}},
              {"success", {{{"request_put", {{"key", key}, {"value", ""}}}}}},
              {"failure", {{{"request_range", {{"key", key}}}}}}}
      .dump();
}

std::string etcd_reads_request(std::span<const WitnessSlot> slots) {
  json reads = json::array();
  for (const auto& slot : slots) reads.push_back({{"request_range", {{"key", key_of(slot)}}}});
  return json{{"success", std::move(reads)}}.dump();
}

std::string etcd_swap_request(const WitnessSlot& slot, const WitnessView& seen, const WitnessRecord& record) {
  const EtcdSwap one{slot, seen, record};
  json request = swaps_json(std::span(&one, 1));
  request["failure"] = json::array({{{"request_range", {{"key", key_of(slot)}}}}});
  return request.dump();
}

std::string etcd_swaps_request(std::span<const EtcdSwap> swaps) { return swaps_json(swaps).dump(); }

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
  const auto won = succeeded(*answer);
  if (!won) return std::unexpected(won.error());
  const auto responses = answer->find("responses");
  if (responses == answer->end() || !responses->is_array() || responses->size() != (*won ? 2u : 1u))
    return fail(Errc::corrupt, "etcd's answer lacks the transaction's responses");
  return outcome_of(slot, record, *answer, responses->back(), *won);
}

engine::Result<std::vector<SwapOutcome>> parse_swaps_answer(std::span<const EtcdSwap> swaps, std::string_view body) {
  const auto answer = parse_object(body);
  if (!answer) return std::unexpected(answer.error());
  const auto won = succeeded(*answer);
  if (!won) return std::unexpected(won.error());
  if (!*won) return std::vector<SwapOutcome>();
  const auto responses = answer->find("responses");
  if (responses == answer->end() || !responses->is_array() || responses->size() != 2 * swaps.size())
    return fail(Errc::corrupt, "etcd's answer lacks the transaction's responses");
  std::vector<SwapOutcome> outcomes;
  for (std::size_t i = 0; i < swaps.size(); ++i) {
    auto outcome = outcome_of(swaps[i].slot, swaps[i].record, *answer, (*responses)[2 * i + 1], true);
    if (!outcome) return std::unexpected(outcome.error());
    outcomes.push_back(*outcome);
  }
  return outcomes;
}

engine::Result<void> parse_delete_answer(std::string_view body) {
  const auto answer = parse_object(body);
  if (!answer) return std::unexpected(answer.error());
  return {};
}

}  // namespace lockstep::replication
