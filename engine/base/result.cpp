#include "engine/base/result.hpp"

namespace lockstep::engine {
namespace {

const char* sentence(Errc code) {
  switch (code) {
    case Errc::ok:
      return "no error";
    case Errc::out_of_range:
      return "beyond the end of the volume or store";
    case Errc::misaligned:
      return "not a multiple of the block size";
    case Errc::io_error:
      return "the store failed the operation";
    case Errc::no_space:
      return "no space is left on the store";
    case Errc::not_serving:
      return "this node may not serve the volume now";
    case Errc::unknown_outcome:
      return "it is not known whether the operation was carried out";
    case Errc::refused:
      return "the request was refused";
    case Errc::stale:
      return "it belongs to an epoch or session that is over";
    case Errc::aborted:
      return "dropped on request before it had any effect";
    case Errc::miscompare:
      return "the data differs";
    case Errc::corrupt:
      return "the data is corrupt";
    case Errc::foreign:
      return "it belongs to another pair, volume or node";
    case Errc::wrong_version:
      return "it has a version that this program does not know";
    case Errc::resource_exhausted:
      return "a limit was reached";
    case Errc::timed_out:
      return "no answer came in time";
    case Errc::reservation_conflict:
      return "a reservation of another initiator forbids it";
    case Errc::write_protected:
      return "the volume is write-protected";
    case Errc::not_ready:
      return "there is no medium, or it is being sanitized";
  }
  return "unknown error";
}

class Category final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "lockstep"; }
  [[nodiscard]] std::string message(int value) const override { return sentence(static_cast<Errc>(value)); }
};

}  // namespace

const std::error_category& error_category() noexcept {
  static const Category category;
  return category;
}

std::error_code make_error_code(Errc e) noexcept { return {static_cast<int>(e), error_category()}; }

}  // namespace lockstep::engine
