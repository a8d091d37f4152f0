#pragma once
// Both ends of a stream of numbered requests and the paths between them, one step at a time: each step is one of those
// that are possible now, so that a test can take every one of them, or any. It keeps its own account of what must come
// out: each request once and in order, each answer once, and the right one.
#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "replication/link/channel/channel_receiver.hpp"
#include "replication/link/channel/channel_sender.hpp"

namespace lockstep::replication::test {

struct ChannelWorld {
  struct Settings {
    std::size_t paths = 2;
    std::size_t window = 3;
    std::uint64_t requests = 3;
    unsigned deaths = 2;
    Copies copies = Copies::one;
  };
  enum class Step : std::uint8_t { send, send_again, arrive, arrive_late, answer, answer_arrives, die };
  struct Action {
    Step step{};
    std::uint8_t path = 0;      ///< of arrive_late: which dead one
    std::uint64_t request = 0;  ///< of answer, send_again
  };
  struct Request {
    std::uint64_t number;
    std::uint64_t acknowledged;
  };
  struct Answer {
    std::uint64_t request;
    std::uint64_t number;  ///< 0: stale
  };
  struct Path {
    std::deque<Request> requests;  ///< on their way
    std::deque<Answer> answers;
  };

  explicit ChannelWorld(Settings s)
      : settings(s), sender(s.window, s.copies), receiver(s.window), paths(s.paths), deaths_left(s.deaths) {}

  [[nodiscard]] std::vector<Action> actions() const {
    std::vector<Action> all;
    for (std::uint8_t p = 0; p < paths.size(); ++p) {
      if (sender.has_room() && sender.last_number().value < settings.requests) all.push_back({Step::send, p, 0});
      if (const auto number = sender.in_hand()) all.push_back({Step::send_again, p, number->value});
      if (!paths[p].requests.empty()) all.push_back({Step::arrive, p, 0});
      if (!paths[p].answers.empty()) all.push_back({Step::answer_arrives, p, 0});
      if (deaths_left != 0 && has_copies(p)) all.push_back({Step::die, p, 0});
    }
    for (std::uint8_t d = 0; d < dead.size(); ++d) {
      if (!dead[d].empty()) all.push_back({Step::arrive_late, d, 0});
    }
    for (const auto& [number, by] : waiting) all.push_back({Step::answer, 0, number});
    return all;
  }

  void take(Action a) {
    const auto slot = static_cast<PathSlot>(a.path);
    switch (a.step) {
      case Step::send: {
        const RequestNumber number = sender.take_number();
        give(number, slot);
        if (settings.copies == Copies::every_path) {
          for (std::size_t p = 0; p < paths.size(); ++p) {
            if (p != a.path) give(number, static_cast<PathSlot>(p));
          }
        }
        break;
      }
      case Step::send_again:
        give({a.request}, slot);
        break;
      case Step::arrive:
        arrive(pop(paths[a.path].requests), &paths[a.path]);
        break;
      case Step::arrive_late:
        arrive(pop(dead[a.path]), nullptr);
        break;
      case Step::answer:
        answer(a.request);
        break;
      case Step::answer_arrives:
        answer_arrives(pop(paths[a.path].answers), slot);
        break;
      case Step::die:
        die(a.path);
        break;
    }
  }

  /// Everything was sent, delivered and answered. No step but deaths and late arrivals is left then.
  [[nodiscard]] bool complete() const {
    return problem.empty() && done.size() == settings.requests && delivered == settings.requests;
  }

  /// Worlds with the same text go on alike.
  [[nodiscard]] std::string text() const {
    std::string t;
    const auto put = [&t](std::uint64_t v) { t += static_cast<char>(v + 1); };
    put(sender.last_number().value), put(sender.acknowledged().value), put(delivered), put(told), put(deaths_left);
    for (const auto& [n, where] : copies) {
      put(n);
      for (std::size_t p = 0; p < paths.size(); ++p) put(where.contains(static_cast<PathSlot>(p)));
    }
    t += '|';
    for (const auto& [n, answer] : given) put(n), put(answer), put(done.contains(n));
    t += '|';
    for (const auto& p : paths) {
      for (const auto& r : p.requests) put(r.number), put(r.acknowledged);
      t += '/';
      for (const auto& r : p.answers) put(r.request), put(r.number);
      t += '/';
    }
    for (const auto& d : dead) {
      for (const auto& r : d) put(r.number), put(r.acknowledged);
      t += '/';
    }
    for (const auto& [n, path_copies] : waiting) {
      put(n);
      for (const Path* p : path_copies) put(p == nullptr ? 9 : static_cast<std::uint64_t>(p - paths.data()));
    }
    return t;
  }

  ChannelWorld(const ChannelWorld& o) { *this = o; }
  ChannelWorld& operator=(const ChannelWorld& o) {
    if (this == &o) return *this;
    settings = o.settings, sender = o.sender, receiver = o.receiver, paths = o.paths, dead = o.dead;
    copies = o.copies, given = o.given, done = o.done, arrived_copies = o.arrived_copies, waiting = o.waiting;
    delivered = o.delivered, told = o.told, deaths_left = o.deaths_left, problem = o.problem;
    for (auto* all : {&waiting, &arrived_copies}) {
      for (auto& [n, list] : *all) {
        for (Path*& p : list) p = p == nullptr ? nullptr : paths.data() + (p - o.paths.data());
      }
    }
    return *this;
  }

  Settings settings;
  ChannelSender sender{1, Copies::one};
  ChannelReceiver receiver{1};
  std::vector<Path> paths;
  std::vector<std::deque<Request>> dead;    ///< what dead paths may still bring
  std::map<std::uint64_t, PathSet> copies;  ///< of unanswered ones, as the test knows it
  std::map<std::uint64_t, std::uint64_t> given;
  std::map<std::uint64_t, bool> done;
  /// Paths on which copies that were not answered came; null: a dead one.
  std::map<std::uint64_t, std::vector<Path*>> arrived_copies, waiting;  ///< … of those delivered
  std::uint64_t delivered = 0;
  std::uint64_t told = 0;  ///< the highest acknowledgement that came
  unsigned deaths_left = 0;
  std::string problem;

 private:
  template <class T>
  static T pop(std::deque<T>& from) {
    T first = from.front();
    from.pop_front();
    return first;
  }
  void expect(bool right, const char* what) {
    if (!right && problem.empty()) problem = what;
  }
  [[nodiscard]] bool has_copies(std::uint8_t p) const {
    return !paths[p].requests.empty() || !paths[p].answers.empty() ||
           std::ranges::any_of(copies, [&](const auto& c) { return c.second.contains(static_cast<PathSlot>(p)); });
  }

  void give(RequestNumber number, PathSlot slot) {
    sender.sent(number, slot);
    expect(settings.copies == Copies::every_path || copies[number.value].empty(), "two copies at once");
    copies[number.value].add(slot);
    paths[index_of(slot)].requests.push_back({number.value, sender.acknowledged().value});
  }

  void arrive(Request r, Path* by) {
    told = std::max(told, r.acknowledged);
    const auto arrival = receiver.arrived({r.number}, {r.acknowledged}, static_cast<RequestHandle>(r.number));
    if (!arrival) return expect(false, arrival.error().message.c_str());
    expect(receiver.size() <= settings.window, "the receiver keeps more than its window");
    if (std::holds_alternative<ChannelReceiver::Stale>(*arrival)) {
      expect(done.contains(r.number), "a request that its sender still waits for is stale");
      if (by != nullptr) by->answers.push_back({r.number, 0});
    } else if (const auto* answered = std::get_if<ChannelReceiver::Answered>(&*arrival)) {
      expect(given.at(r.number) == answered->answer.value, "another answer than at first");
      if (by != nullptr) by->answers.push_back({r.number, answered->answer.value});
    } else {
      (waiting.contains(r.number) ? waiting : arrived_copies)[r.number].push_back(by);
    }
    while (const auto handle = receiver.next_to_deliver()) {
      expect(static_cast<std::uint64_t>(*handle) == ++delivered, "out of order, or twice");
      waiting[delivered] = std::move(arrived_copies[delivered]);
      arrived_copies.erase(delivered);
    }
    while (const auto handle = receiver.next_released()) {
      expect(done.contains(static_cast<std::uint64_t>(*handle)), "an answer is forgotten that its sender has not got");
    }
  }

  void answer(std::uint64_t number) {
    const AnswerNumber answer = receiver.answered({number});
    expect(answer.value == given.size() + 1, "answers are not numbered in their order");
    given[number] = answer.value;
    for (Path* by : waiting.at(number)) {
      if (by != nullptr) by->answers.push_back({number, answer.value});
    }
    waiting.erase(number);
  }

  void answer_arrives(Answer a, PathSlot slot) {
    const auto result = sender.answered({a.request}, slot, {a.number});
    if (!result) return expect(false, result.error().message.c_str());
    copies[a.request].remove(slot);
    const bool first = *result == ChannelSender::Answer::first;
    expect(first == !done.contains(a.request), "an answer that is not the first counts as it, or the other way");
    if (first) done[a.request] = true;
    if (settings.copies == Copies::one || copies[a.request].empty()) copies.erase(a.request);
  }

  void die(std::uint8_t p) {
    --deaths_left;
    const auto slot = static_cast<PathSlot>(p);
    for (auto at = copies.begin(); at != copies.end();) {
      auto& [number, where] = *at;
      if (where.contains(slot)) {
        sender.copy_destroyed({number}, slot);
        where.remove(slot);
      }
      at = where.empty() && done.contains(number) ? copies.erase(at) : std::next(at);
    }
    dead.push_back(std::move(paths[p].requests));
    paths[p] = {};
    for (auto* all : {&waiting, &arrived_copies}) {
      for (auto& [n, list] : *all) std::ranges::replace(list, &paths[p], nullptr);
    }
  }
};

}  // namespace lockstep::replication::test
