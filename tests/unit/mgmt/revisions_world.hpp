#pragma once
// Two nodes of the revision protocol, the wire between them and their stores, each of which a test may have fail or
// end.
#include <memory>
#include <set>
#include <stdexcept>

#include <gtest/gtest.h>

#include "mgmt/control/revisions.hpp"
#include "mgmt/control/secrets.hpp"

namespace lockstep::mgmt::revisions_test {

struct Crash : std::runtime_error {
  Crash() : std::runtime_error("the node ended here") {}
};

// Counts every step of a run at which something can go wrong, and lets one of them go wrong.
struct Faults {
  enum class Kind { none, lost, answer_lost, crash_before, crash_after };
  int at = -1;
  Kind kind = Kind::none;
  int steps = 0;
  bool strikes(Kind k) const { return steps == at && kind == k; }
};

class MemoryStore final : public RevisionStore {
 public:
  MemoryStore(Faults& faults, RevisionId head) : faults_(faults), head_(head) {}
  RevisionId head() override { return head_; }
  Configuration configuration() override { return configuration_; }
  std::optional<Tentative> tentative() override { return tentative_; }
  void put_tentative(const Tentative& revision) override {
    durably([&] { tentative_ = revision; });
  }
  void drop_tentative() override {
    durably([&] { tentative_.reset(); });
  }
  ConfigurationEpoch epoch() override { return epoch_; }
  void commit(const RevisionId& id, const ConfigurationEpoch& epoch, const std::string&,
              const Configuration& configuration) override {
    durably([&] {
      head_ = id;
      epoch_ = epoch;
      configuration_ = configuration;
      tentative_.reset();
    });
  }
  /// As a backup of it is put back.
  void set_to(const MemoryStore& other) {
    head_ = other.head_;
    epoch_ = other.epoch_;
    configuration_ = other.configuration_;
    tentative_ = other.tentative_;
  }

 private:
  void durably(const std::function<void()>& effect) {
    ++faults_.steps;
    if (faults_.strikes(Faults::Kind::crash_before)) throw Crash();
    effect();
    if (faults_.strikes(Faults::Kind::crash_after)) throw Crash();
  }
  Faults& faults_;
  RevisionId head_;
  ConfigurationEpoch epoch_{.id = head_.epoch};
  Configuration configuration_;
  std::optional<Tentative> tentative_;
};

// The wire to a node. A crash of the node at the other end looks like a lost answer.
class Wire final : public RevisionPeer {
 public:
  Wire(Faults& faults, std::unique_ptr<Revisions>& to, std::function<void()> restart)
      : faults_(faults), to_(to), restart_(std::move(restart)) {}

  Outcome<PrepareAnswer> prepare(const Proposal& p) override {
    return carry<PrepareAnswer>([&] { return to_->on_prepare(p); });
  }
  Outcome<void> commit(const RevisionId& id) override {
    return carry<void>([&] { return to_->on_commit(id); });
  }
  Outcome<void> discard(const RevisionId& id) override {
    return carry<void>([&]() -> Outcome<void> {
      to_->on_discard(id);
      return {};
    });
  }
  Outcome<void> bring_up_to_date(const CurrentRevision& mine) override {
    return carry<void>([&] { return to_->on_bring_up_to_date(mine); });
  }
  Outcome<CurrentRevision> ask() override {
    return carry<CurrentRevision>([&] {
      CurrentRevision said = to_->current();
      said.reads = reads;
      return said;
    });
  }
  int reads = kNewestDocument;  ///< by the program at the other end

 private:
  template <class T>
  Outcome<T> carry(const std::function<Outcome<T>()>& deliver) {
    ++faults_.steps;
    const auto lost = refuse(RefusalKind::not_current, "cannot be reached");
    if (faults_.strikes(Faults::Kind::lost)) return lost;
    const bool answer_lost = faults_.strikes(Faults::Kind::answer_lost);
    try {
      auto answer = deliver();
      if (answer_lost) return lost;
      return answer;
    } catch (const Crash&) {
      restart_();
      return lost;
    }
  }
  Faults& faults_;
  std::unique_ptr<Revisions>& to_;
  std::function<void()> restart_;
};

struct World {
  Faults faults;
  RevisionId beginning{random_uuid(), 0, random_uuid()};
  MemoryStore store_a{faults, beginning};
  MemoryStore store_b{faults, beginning};
  std::unique_ptr<Revisions> a;
  std::unique_ptr<Revisions> b;
  Wire to_b{faults, b, [this] { start_b(); }};
  Wire to_a{faults, a, [this] { start_a(); }};
  std::set<std::string> promised;  ///< answered with success
  std::set<std::string> refused;   ///< answered with "nothing was changed"

  World() {
    start_a();
    start_b();
  }
  void start_a() {
    a = std::make_unique<Revisions>(store_a, [] {});
  }
  void start_b() {
    b = std::make_unique<Revisions>(store_b, [] {});
  }

  void add_token(const std::string& name) {
    try {
      const auto done = a->change(
          "add " + name,
          [&](Configuration& c) -> Outcome<void> {
            c.tokens.push_back({random_uuid(), name, sha256_hex(name), Role::admin, 1, 0});
            return {};
          },
          &to_b);
      (done ? promised : refused).insert(name);
    } catch (const Crash&) {
      start_a();  // nobody was answered
    }
  }

  // Both look at each other, as they do about once a second.
  void compare_notes() {
    try {
      (void)b->compare_notes(to_a);
    } catch (const Crash&) {
      start_b();
    }
    try {
      (void)a->compare_notes(to_b);
    } catch (const Crash&) {
      start_a();
    }
  }

  static std::set<std::string> tokens(const Revisions& node) {
    std::set<std::string> names;
    for (const auto& t : node.configuration()->tokens) names.insert(t.name);
    return names;
  }

  void expect_settled(const std::string& where) {
    faults.at = -1;
    for (int i = 0; i < 3; ++i) compare_notes();
    ASSERT_EQ(a->state().head, b->state().head) << where;
    ASSERT_EQ(*a->configuration(), *b->configuration()) << where;
    ASSERT_EQ(store_a.configuration(), store_b.configuration()) << where;
    ASSERT_FALSE(a->state().tentative || b->state().tentative) << where;
    const auto there = tokens(*a);
    for (const auto& name : promised) ASSERT_TRUE(there.contains(name)) << where << ": lost " << name;
    for (const auto& name : refused) ASSERT_FALSE(there.contains(name)) << where << ": refused and yet done " << name;
  }
};

}  // namespace lockstep::mgmt::revisions_test
