#pragma once
// How large this volume is to be, and what both replicas have room for (docs/developer/grow.md). What is agreed becomes
// the size of an epoch; that is membership's step.
//
// Guarantees: a size is taken only where both said that they have room. Callers: the operator's commands, and
// membership, for what the partner says.
#include <functional>

#include "replication/core/local_store.hpp"
#include "replication/core/messages.hpp"
#include "replication/core/standing.hpp"

namespace lockstep::replication {

class Growth {
 public:
  using Done = engine::Callback<engine::Result<void>>;

  /// `news`: something that the partner should know, or a step that may begin.
  Growth(const Standing& standing, LocalStore& store, std::function<void()> news)
      : standing_(standing), store_(store), news_(std::move(news)) {}

  void make_room(std::uint64_t size, Done done);
  void want_size(std::uint64_t size);
  /// As the partner says in a state, or in a question for one.
  void note_partner_room(const Message& message);
  /// 0: not known.
  [[nodiscard]] std::uint64_t partner_room() const { return partner_room_; }
  /// What both replicas have room for; 0: nothing is wanted.
  [[nodiscard]] std::uint64_t size_to_take() const;
  /// It may grow with the partner.
  [[nodiscard]] bool is_due() const { return size_to_take() > store_.volume_size(); }
  /// What this replica alone has room for; 0: nothing is wanted.
  [[nodiscard]] std::uint64_t size_to_take_alone() const;
  [[nodiscard]] bool idle() const { return !making_room_; }

 private:
  const Standing& standing_;
  LocalStore& store_;
  std::function<void()> news_;
  std::uint64_t wanted_size_ = 0;   ///< 0: as it is
  std::uint64_t partner_room_ = 0;  ///< as it said last; 0: not known
  bool making_room_ = false;
};

}  // namespace lockstep::replication
