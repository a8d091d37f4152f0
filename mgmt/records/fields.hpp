#pragma once
// Records that describe themselves. A struct whose header says BOOST_DESCRIBE_STRUCT(Name, (), (its, fields)) has its
// forms derived: JSON (json.hpp), rows of a table (rows.hpp). What a form does differently for a record stands in that
// form, a type with an overload of `rules` for it:
//
//   struct Document {
//     static constexpr records::Rules rules(...) { return {}; }
//     static constexpr records::Rules rules(const Copy*) { return {.required = "number folder retired"}; }
//   };
//
// For sources that make or read a form; headers that describe a record include <boost/describe/class.hpp> alone.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <boost/describe/enumerators.hpp>
#include <boost/describe/members.hpp>

#include "engine/base/uuid.hpp"
#include "engine/metadata/identity.hpp"

namespace lockstep::engine {
BOOST_DESCRIBE_ENUM(NodeSide, a, b)
}

namespace lockstep::records {

/// Each is a list of a record's fields, by name, separated by spaces. A name that is not a field does not compile.
struct Rules {
  std::string_view required{};  ///< always there: a form without it is not read
  std::string_view written{};  ///< written always; has its default where it is missing. A record without contents: null
  std::string_view hidden{};   ///< not in this form, or by the form's own hands
  std::string_view numbers{};  ///< enumerations that travel as numbers
  std::string_view renamed{};  ///< "field=name", or "field=" for a nested record whose fields stand in this one's place
  std::string_view since{};    ///< "field=version": who doesn't know it would get something wrong
  /// All others: written only where they are not what they are by default. "*" stands for all.
};

/// Calls `each(name, value)` of a list of "name" or "name=value".
template <class Each>
constexpr void each_word(std::string_view list, Each&& each) {
  while (!list.empty()) {
    const auto end = std::min(list.find(' '), list.size());
    const std::string_view word = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    const auto mark = word.find('=');
    const bool has_value = mark != std::string_view::npos;
    each(word.substr(0, has_value ? mark : word.size()), has_value ? word.substr(mark + 1) : std::string_view());
  }
}

[[nodiscard]] constexpr bool lists(std::string_view list, std::string_view name) {
  bool found = list == "*";
  each_word(list, [&](std::string_view word, std::string_view) { found = found || word == name; });
  return found;
}

[[nodiscard]] constexpr std::optional<std::string_view> value_in(std::string_view list, std::string_view name) {
  std::optional<std::string_view> found;
  each_word(list, [&](std::string_view word, std::string_view value) {
    if (word == name) found = value;
  });
  return found;
}

[[nodiscard]] constexpr int number_in(std::string_view list, std::string_view name) {
  int number = 0;
  for (const char digit : value_in(list, name).value_or("")) number = number * 10 + (digit - '0');
  return number;
}

template <class T>
concept Record = std::is_class_v<T> && boost::describe::has_describe_members<T>::value;
template <class T>
concept Enumeration = boost::describe::has_describe_enumerators<T>::value;

template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;
template <class T>
constexpr bool is_list = false;
template <class T>
constexpr bool is_list<std::vector<T>> = true;
template <class T, std::size_t n>
constexpr bool is_list<std::array<T, n>> = true;

template <class R>
using Members = boost::describe::describe_members<R, boost::describe::mod_public>;

template <class R, class Member>
using Field = std::remove_cvref_t<decltype(std::declval<R&>().*Member::pointer)>;

template <template <class...> class List, class... Member, class Each>
constexpr void each_member(const List<Member...>&, Each&& each) {
  (each.template operator()<Member>(), ...);
}

/// Calls `each.operator()<Member>()` for every field: Member::name, Member::pointer.
template <Record R, class Each>
constexpr void each_field(Each&& each) {
  each_member(Members<R>(), each);
}

template <Record R>
[[nodiscard]] constexpr bool has_field(std::string_view name) {
  bool found = name == "*";
  each_field<R>([&]<class Member>() { found = found || Member::name == name; });
  return found;
}

template <Record R>
[[nodiscard]] constexpr std::size_t field_count() {
  std::size_t count = 0;
  each_field<R>([&]<class Member>() { ++count; });
  return count;
}

/// A form's rules for a record, whose names are that record's.
template <class Form, Record R>
[[nodiscard]] consteval Rules rules() {
  constexpr Rules found = Form::rules(static_cast<const R*>(nullptr));
  constexpr auto known = [](std::string_view list) {
    bool all = true;
    each_word(list, [&](std::string_view name, std::string_view) { all = all && has_field<R>(name); });
    return all;
  };
  static_assert(known(found.required) && known(found.written) && known(found.hidden) && known(found.numbers) &&
                    known(found.renamed) && known(found.since),
                "a form names a field that the record does not have");
  return found;
}

/// The name that a field has in a form.
template <class Form, Record R, class Member>
[[nodiscard]] constexpr std::string_view name_in() {
  return value_in(rules<Form, R>().renamed, Member::name).value_or(Member::name);
}

/// An enumerator's word.
template <Enumeration E>
[[nodiscard]] constexpr const char* word_of(E value) {
  const char* word = "";
  each_member(boost::describe::describe_enumerators<E>(), [&]<class Enumerator>() {
    if (Enumerator::value == value) word = Enumerator::name;
  });
  return word;
}

template <Enumeration E>
[[nodiscard]] constexpr std::optional<E> from_word(std::string_view word) {
  std::optional<E> found;
  each_member(boost::describe::describe_enumerators<E>(), [&]<class Enumerator>() {
    if (word == Enumerator::name) found = Enumerator::value;
  });
  return found;
}

template <Enumeration E>
[[nodiscard]] constexpr std::optional<E> from_number(std::int64_t number) {
  std::optional<E> found;
  each_member(boost::describe::describe_enumerators<E>(), [&]<class Enumerator>() {
    if (number == static_cast<std::int64_t>(Enumerator::value)) found = Enumerator::value;
  });
  return found;
}

/// The version of a form that a reader must know to get `value` right: `Form::version(record)` and the fields' own.
template <class Form, class T>
[[nodiscard]] int version_for(const T& value) {
  int version = 0;
  if constexpr (is_optional<T>) {
    if (value) version = version_for<Form>(*value);
  } else if constexpr (is_list<T>) {
    for (const auto& one : value) version = std::max(version, version_for<Form>(one));
  } else if constexpr (Record<T>) {
    if constexpr (requires { Form::version(value); }) version = Form::version(value);
    each_field<T>([&]<class Member>() {
      const auto& field = value.*Member::pointer;
      version = std::max(version, version_for<Form>(field));
      constexpr int since = number_in(rules<Form, T>().since, Member::name);
      if constexpr (since > 0)
        if (!(field == T().*Member::pointer)) version = std::max(version, since);
    });
  }
  return version;
}

/// Gives every field of `to` the value that the field of the same name has in `from`.
template <Record To, Record From>
void copy_same_fields(const From& from, To& to) {
  each_field<To>([&]<class Target>() {
    each_field<From>([&]<class Source>() {
      if constexpr (std::string_view(Target::name) == Source::name) to.*Target::pointer = from.*Source::pointer;
    });
  });
}

}  // namespace lockstep::records
