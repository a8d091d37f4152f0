#include "mgmt/control/bounded_json.hpp"

#include <nlohmann/json.hpp>

namespace lockstep::mgmt {
namespace {

using nlohmann::json;

// Counts what passes by; keeps nothing.
class Counter final : public nlohmann::json_sax<json> {
 public:
  explicit Counter(JsonBounds bounds) : bounds_(bounds) {}
  [[nodiscard]] bool exceeded() const { return exceeded_; }

  bool null() override { return one(); }
  bool boolean(bool) override { return one(); }
  bool number_integer(number_integer_t) override { return one(); }
  bool number_unsigned(number_unsigned_t) override { return one(); }
  bool number_float(number_float_t, const string_t&) override { return one(); }
  bool string(string_t&) override { return one(); }
  bool binary(binary_t&) override { return one(); }
  bool key(string_t&) override { return one(); }
  bool start_object(std::size_t) override { return deeper(); }
  bool start_array(std::size_t) override { return deeper(); }
  bool end_object() override { return higher(); }
  bool end_array() override { return higher(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  bool one() {
    exceeded_ = exceeded_ || ++values_ > bounds_.values;
    return !exceeded_;
  }
  bool deeper() {
    exceeded_ = exceeded_ || ++depth_ > bounds_.depth;
    return one();
  }
  bool higher() {
    --depth_;
    return true;
  }

  JsonBounds bounds_;
  std::size_t values_ = 0;
  std::size_t depth_ = 0;
  bool exceeded_ = false;
};

}  // namespace

bool within_bounds(std::string_view text, JsonBounds bounds) {
  Counter counter(bounds);
  (void)json::sax_parse(text, &counter);
  return !counter.exceeded();
}

}  // namespace lockstep::mgmt
