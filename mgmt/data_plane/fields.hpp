#pragma once
// Reads JSON objects that came from outside, field by field. The first thing that is wrong is kept with its path and
// what was expected; whatever is read after it are defaults. Ask problem() once, at the end.
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/base/uuid.hpp"
#include "mgmt/data_plane/json_rpc.hpp"

namespace lockstep::data_plane {

/// Shared by all Fields of one document.
class FieldProblem {
 public:
  [[nodiscard]] bool found() const { return error_.has_value(); }
  [[nodiscard]] const RpcError& error() const { return *error_; }
  /// "`path` is `what`": only the first is kept.
  void note(const std::string& path, const std::string& what);

 private:
  std::optional<RpcError> error_;
};

class Fields {
 public:
  /// `value` outlives this object.
  Fields(const nlohmann::json& value, std::string path, FieldProblem& problem);

  std::string text(std::string_view name, std::size_t max_bytes = 255);
  std::string text_or(std::string_view name, std::string otherwise, std::size_t max_bytes = 255);
  /// Missing and null are the same.
  std::optional<std::string> optional_text(std::string_view name, std::size_t max_bytes = 255);
  std::uint64_t number(std::string_view name, std::uint64_t min, std::uint64_t max);
  std::uint64_t number_or(std::string_view name, std::uint64_t otherwise, std::uint64_t min, std::uint64_t max);
  [[nodiscard]] bool has(std::string_view name) { return find(name) != nullptr; }  ///< missing and null are the same
  bool flag(std::string_view name);
  bool flag_or(std::string_view name, bool otherwise);
  engine::Uuid uuid(std::string_view name);
  /// One of a few words.
  template <class T>
  T word(std::string_view name, std::initializer_list<std::pair<std::string_view, T>> words);
  Fields object(std::string_view name);
  std::optional<Fields> optional_object(std::string_view name);
  /// Calls `each(const json& element, std::string path)`.
  template <class Each>
  void list(std::string_view name, std::size_t max, Each&& each);
  template <class Each>
  void objects(std::string_view name, std::size_t max, Each&& each);  ///< `each(Fields)`
  std::vector<std::string> texts(std::string_view name, std::size_t max);

  /// Known, and without meaning here.
  void ignore(std::string_view name) { asked_.emplace(name); }
  /// Call when everything was read: a name that was not asked for is refused.
  void end();
  [[nodiscard]] std::string path_of(std::string_view name) const;
  [[nodiscard]] FieldProblem& problem() { return *problem_; }

 private:
  const nlohmann::json* find(std::string_view name);      // null: missing or null
  const nlohmann::json* required(std::string_view name);  // notes when missing
  void expected(std::string_view name, const std::string& what);
  std::optional<std::size_t> word_index(std::string_view name, std::initializer_list<std::string_view> words);
  const nlohmann::json* list_of(std::string_view name, std::size_t max);
  static std::size_t size_of(const nlohmann::json& list);
  static const nlohmann::json& element(const nlohmann::json& list, std::size_t index);

  const nlohmann::json* value_;
  std::string path_;
  FieldProblem* problem_;
  std::set<std::string, std::less<>> asked_;
};

template <class T>
T Fields::word(std::string_view name, std::initializer_list<std::pair<std::string_view, T>> words) {
  const nlohmann::json* value = required(name);
  std::string all;
  for (const auto& [text, meaning] : words) {
    if (value && *value == text) return meaning;
    all += (all.empty() ? "\"" : ", \"") + std::string(text) + "\"";
  }
  if (value) expected(name, "one of " + all);
  return words.begin()->second;
}

template <class Each>
void Fields::list(std::string_view name, std::size_t max, Each&& each) {
  const nlohmann::json* value = list_of(name, max);
  for (std::size_t i = 0; value && i < size_of(*value); ++i) {
    each(element(*value, i), path_of(name) + "[" + std::to_string(i) + "]");
  }
}

template <class Each>
void Fields::objects(std::string_view name, std::size_t max, Each&& each) {
  list(name, max,
       [&](const nlohmann::json& value, std::string path) { each(Fields(value, std::move(path), *problem_)); });
}

}  // namespace lockstep::data_plane
