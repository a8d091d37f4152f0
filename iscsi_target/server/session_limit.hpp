#pragma once
// How many sessions there may be: in all, of one initiator name, and from one address. The last places are for those
// who have few, so that nobody who opens many keeps a host out.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "engine/iscsi/opcodes.hpp"

namespace lockstep::iscsi_target {

/// Not thread-safe: the server locks around it.
class SessionLimit {
 public:
  struct Bounds {
    std::size_t in_all = 4096;
    std::size_t of_name = 256;
    std::size_t from_address = 2048;
    /// So many of the places are only for initiators that have fewer than kFew, by name and by address.
    std::size_t reserve = 512;
  };
  static constexpr std::size_t kFew = 8;

  struct Verdict {
    iscsi::LoginStatus status = iscsi::LoginStatus::success;  ///< else nothing was counted
    std::string reason{};                                     ///< a whole sentence
    bool is_news = false;                                     ///< the first refusal of its kind since there was room
  };

  explicit SessionLimit(const Bounds& bounds) : bounds_(bounds) {}

  /// A session that is about to be let in. `takes_over`: another of the same initiator port ends for it.
  [[nodiscard]] Verdict enter(std::uint64_t id, std::string_view name, std::string_view address, bool takes_over);
  /// One that is not there is fine.
  void leave(std::uint64_t id);
  [[nodiscard]] std::size_t size() const { return all_.size(); }

 private:
  struct Count {
    std::size_t sessions = 0;
    bool is_told = false;  // that it has too many
  };
  using Counts = std::map<std::string, Count, std::less<>>;
  struct Member {
    Counts::iterator name, address;
  };
  [[nodiscard]] Verdict judge(std::string_view name, std::string_view address);
  static void one_less(Counts& counts, Counts::iterator count);
  [[nodiscard]] static std::size_t sessions_of(const Counts& counts, std::string_view key);

  Bounds bounds_;
  Counts names_, addresses_;
  std::map<std::uint64_t, Member> all_;
  bool is_full_told_ = false;
};

}  // namespace lockstep::iscsi_target
