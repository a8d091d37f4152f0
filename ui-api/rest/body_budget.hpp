#pragma once
// How much memory the bodies of all requests under way may take together.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace lockstep::ui_api {

/// Not thread-safe.
class BodyBudget {
 public:
  explicit BodyBudget(std::uint64_t bytes) : left_(bytes) {}

  /// Given back when it is destroyed. The budget outlives it.
  class Share {
   public:
    Share(BodyBudget& budget, std::uint64_t bytes) : budget_(&budget), bytes_(bytes) {}
    Share(Share&& other) noexcept : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
    Share& operator=(Share&&) = delete;
    ~Share() {
      if (budget_) budget_->left_ += bytes_;
    }

   private:
    BodyBudget* budget_;
    std::uint64_t bytes_;
  };

  [[nodiscard]] std::optional<Share> take(std::uint64_t bytes) {
    if (bytes > left_) return std::nullopt;
    left_ -= bytes;
    return Share(*this, bytes);
  }

 private:
  std::uint64_t left_;
};

}  // namespace lockstep::ui_api
