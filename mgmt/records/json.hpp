#pragma once
// A record as JSON, in a form (fields.hpp), and back. A form may have, for a type that it has a word of its own for:
//   static json to_json(const T&);  static void from_json(const json&, T&);     in place of the derived ones
//   static void wrote(json&, const R&);  static void read(const json&, R&);     after them
// Reading throws std::runtime_error or one of nlohmann's exceptions, which the border of the message catches.
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

#include "mgmt/records/fields.hpp"

namespace lockstep::records {

using nlohmann::json;

template <class Form, class T>
[[nodiscard]] json to_json(const T& value, bool as_number = false);
template <class Form, class T>
void from_json(const json& j, T& value, std::string_view name = {}, bool as_number = false);

/// What stands at "name" or "name/name"; made where it is not there.
[[nodiscard]] inline json& place(json& object, std::string_view path) {
  const auto end = path.find('/');
  json& there = object[std::string(path.substr(0, end))];
  return end == std::string_view::npos ? there : place(there, path.substr(end + 1));
}

/// Null where there is nothing.
[[nodiscard]] inline const json* find(const json& object, std::string_view path) {
  const auto end = path.find('/');
  const auto found = object.is_object() ? object.find(path.substr(0, end)) : object.end();
  if (found == object.end()) return nullptr;
  return end == std::string_view::npos ? &*found : find(*found, path.substr(end + 1));
}

template <class Form, Record R>
[[nodiscard]] json record_to_json(const R& record) {
  constexpr Rules how = rules<Form, R>();
  json object = json::object();
  each_field<R>([&]<class Member>() {
    constexpr std::string_view name = name_in<Form, R, Member>();
    using T = Field<R, Member>;
    const T& value = record.*Member::pointer;
    if constexpr (lists(how.hidden, Member::name)) {
      return;
    } else if constexpr (name.empty()) {
      object.update(to_json<Form>(value));
    } else {
      constexpr bool written = lists(how.written, Member::name);
      if constexpr (!lists(how.required, Member::name) && (Record<T> || !written))
        if (value == R().*Member::pointer) {
          if constexpr (written) place(object, name) = nullptr;
          return;
        }
      place(object, name) = to_json<Form>(value, lists(how.numbers, Member::name));
    }
  });
  if constexpr (requires { Form::wrote(object, record); }) Form::wrote(object, record);
  return object;
}

// A form whose makers say null for what they don't know, and of which anything may be missing, has `kNullIsMissing`.
template <class Form>
constexpr bool kNullIsMissing = requires {
  Form::kNullIsMissing;
};

template <class Form, Record R>
void record_from_json(const json& object, R& record) {
  constexpr Rules how = rules<Form, R>();
  each_field<R>([&]<class Member>() {
    constexpr std::string_view name = name_in<Form, R, Member>();
    using T = Field<R, Member>;
    T& value = record.*Member::pointer;
    if constexpr (lists(how.hidden, Member::name)) {
      return;
    } else if constexpr (name.empty()) {
      from_json<Form>(object, value);
    } else {
      const json* found = find(object, name);
      constexpr bool required = lists(how.required, Member::name);
      if (!found && required) throw std::runtime_error(std::string(name) + " is missing");
      if (!found) return;
      if constexpr (!required && (is_optional<T> || Record<T> || kNullIsMissing<Form>))
        if (found->is_null()) return;
      from_json<Form>(*found, value, name, lists(how.numbers, Member::name));
    }
  });
  if constexpr (requires { Form::read(object, record); }) Form::read(object, record);
}

template <class Form, class T>
json to_json(const T& value, bool as_number) {
  if constexpr (requires { Form::to_json(value); }) {
    return Form::to_json(value);
  } else if constexpr (is_optional<T>) {
    return value ? to_json<Form>(*value, as_number) : json();
  } else if constexpr (is_list<T>) {
    json list = json::array();
    for (const auto& one : value) list.push_back(to_json<Form>(one, as_number));
    return list;
  } else if constexpr (std::is_same_v<T, engine::Uuid>) {
    return value.to_string();
  } else if constexpr (Enumeration<T>) {
    return as_number ? json(static_cast<int>(value)) : json(word_of(value));
  } else if constexpr (Record<T>) {
    return record_to_json<Form>(value);
  } else {
    return value;
  }
}

template <class Form, class T>
void from_json(const json& j, T& value, std::string_view name, bool as_number) {
  const auto refuse = [&] { throw std::runtime_error(std::string(name) + " is not known: " + j.dump()); };
  if constexpr (requires { Form::from_json(j, value); }) {
    Form::from_json(j, value);
  } else if constexpr (is_optional<T>) {
    value.reset();
    if (!j.is_null()) from_json<Form>(j, value.emplace(), name, as_number);
  } else if constexpr (is_list<T>) {
    if constexpr (requires { value.emplace_back(); }) value.clear();
    if (!j.is_array()) refuse();
    std::size_t at = 0;
    for (const auto& one : j)
      if constexpr (requires { value.emplace_back(); })
        from_json<Form>(one, value.emplace_back(), name, as_number);
      else if (at < value.size())
        from_json<Form>(one, value[at++], name, as_number);
  } else if constexpr (std::is_same_v<T, engine::Uuid>) {
    const auto id = engine::Uuid::parse(j.get<std::string>());
    if (!id) throw std::runtime_error(std::string(name) + " is not a UUID: " + j.get<std::string>());
    value = *id;
  } else if constexpr (Enumeration<T>) {
    const auto found = as_number ? from_number<T>(j.get<std::int64_t>()) : from_word<T>(j.get<std::string>());
    if (!found) refuse();
    value = *found;
  } else if constexpr (Record<T>) {
    record_from_json<Form>(j, value);
  } else {
    value = j.get<T>();
  }
}

/// The record that `j` is.
template <class Form, class R>
[[nodiscard]] R from_json(const json& j) {
  R record;
  from_json<Form>(j, record);
  return record;
}

}  // namespace lockstep::records
