#include "mgmt/data_plane/fields.hpp"

#include <nlohmann/json.hpp>

namespace lockstep::data_plane {

using nlohmann::json;

namespace {

// What stands there, short enough for a message. Never the contents of strings under a name that may be a secret.
std::string shown(const json& value) {
  if (value.is_string()) return "a string";
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  return value.dump();
}

}  // namespace

void FieldProblem::note(const std::string& path, const std::string& what) {
  if (error_) return;
  error_ = RpcError{RpcCode::invalid_params, path + " " + what + ".", engine::Errc::refused, path};
}

Fields::Fields(const json& value, std::string path, FieldProblem& problem)
    : value_(&value), path_(std::move(path)), problem_(&problem) {
  if (!value.is_object()) problem_->note(path_, "must be an object, not " + shown(value));
}

std::string Fields::path_of(std::string_view name) const { return path_ + "." + std::string(name); }

const json* Fields::find(std::string_view name) {
  asked_.emplace(name);
  if (!value_->is_object()) return nullptr;
  const auto at = value_->find(name);
  return at == value_->end() || at->is_null() ? nullptr : &*at;
}

const json* Fields::required(std::string_view name) {
  const json* value = find(name);
  if (!value) problem_->note(path_of(name), "is missing");
  return value;
}

void Fields::expected(std::string_view name, const std::string& what) {
  problem_->note(path_of(name), "must be " + what + ", not " + shown(*find(name)));
}

std::string Fields::text(std::string_view name, std::size_t max_bytes) {
  return required(name) ? optional_text(name, max_bytes).value_or("") : std::string();
}

std::string Fields::text_or(std::string_view name, std::string otherwise, std::size_t max_bytes) {
  return optional_text(name, max_bytes).value_or(std::move(otherwise));
}

std::optional<std::string> Fields::optional_text(std::string_view name, std::size_t max_bytes) {
  const json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_string()) return expected(name, "a string"), std::nullopt;
  const auto& text = value->get_ref<const std::string&>();
  if (text.size() > max_bytes) {
    problem_->note(path_of(name), "is longer than " + std::to_string(max_bytes) + " bytes");
    return std::nullopt;
  }
  return text;
}

std::uint64_t Fields::number(std::string_view name, std::uint64_t min, std::uint64_t max) {
  return required(name) ? number_or(name, min, min, max) : min;
}

std::uint64_t Fields::number_or(std::string_view name, std::uint64_t otherwise, std::uint64_t min, std::uint64_t max) {
  const json* value = find(name);
  if (!value) return otherwise;
  if (value->is_number_unsigned() || (value->is_number_integer() && value->get<std::int64_t>() >= 0)) {
    const auto number = value->get<std::uint64_t>();
    if (number >= min && number <= max) return number;
  }
  expected(name, "a whole number from " + std::to_string(min) + " to " + std::to_string(max));
  return otherwise;
}

bool Fields::flag(std::string_view name) { return required(name) && flag_or(name, false); }

bool Fields::flag_or(std::string_view name, bool otherwise) {
  const json* value = find(name);
  if (!value) return otherwise;
  if (value->is_boolean()) return value->get<bool>();
  expected(name, "true or false");
  return otherwise;
}

engine::Uuid Fields::uuid(std::string_view name) {
  const json* value = required(name);
  if (!value) return {};
  const auto id = value->is_string() ? engine::Uuid::parse(value->get_ref<const std::string&>()) : std::nullopt;
  if (!id || id->is_nil()) {
    problem_->note(path_of(name), "must be a UUID such as 0f8fad5b-d9cb-469f-a165-70867728950e");
    return {};
  }
  return *id;
}

Fields Fields::object(std::string_view name) {
  static const json kEmpty = json::object();
  const json* value = required(name);
  return {value ? *value : kEmpty, path_of(name), *problem_};
}

std::optional<Fields> Fields::optional_object(std::string_view name) {
  const json* value = find(name);
  if (!value) return std::nullopt;
  return Fields(*value, path_of(name), *problem_);
}

const json* Fields::list_of(std::string_view name, std::size_t max) {
  const json* value = required(name);
  if (!value) return nullptr;
  if (!value->is_array()) return expected(name, "a list"), nullptr;
  if (value->size() <= max) return value;
  problem_->note(path_of(name), "has " + std::to_string(value->size()) + " entries; at most " + std::to_string(max) +
                                    " are supported");
  return nullptr;
}

std::size_t Fields::size_of(const json& list) { return list.size(); }
const json& Fields::element(const json& list, std::size_t index) { return list[index]; }

std::vector<std::string> Fields::texts(std::string_view name, std::size_t max) {
  std::vector<std::string> all;
  list(name, max, [&](const json& value, const std::string& path) {
    if (!value.is_string()) return problem_->note(path, "must be a string, not " + shown(value));
    all.push_back(value.get<std::string>());
  });
  return all;
}

void Fields::end() {
  if (!value_->is_object()) return;
  for (const auto& [name, value] : value_->items()) {
    if (!asked_.contains(name)) problem_->note(path_of(name), "is not a field that is known here");
  }
}

}  // namespace lockstep::data_plane
