#pragma once
// The connecting node's ends, of tests with several paths.
#include "replication/link/paths_link.hpp"
#include "tests/unit/replication_link/link_fixture.hpp"

namespace lockstep::replication {

inline Hello newer(NodeSide side) {
  Hello hello = hello_of(side);
  hello.versions.highest = kSeveralPaths;
  return hello;
}

/// A path's end at the connecting node.
class PathOfNode final : public LinkEvents {
 public:
  PathOfNode(PathsLink& link, std::size_t number) : link_(link), slot_(static_cast<PathSlot>(number)) {}
  void on_link_up() override {
    ++ups;
    link_.on_path_up(slot_);
  }
  void on_link_down() override {
    ++downs;
    link_.on_path_down(slot_);
  }
  void on_link_failing() override { link_.on_path_failing(slot_); }
  void on_inbound_up(std::uint64_t) override {}
  void on_inbound_down(std::uint64_t) override {}
  void on_request(std::uint64_t, InboundRequest&) override {}
  unsigned ups = 0, downs = 0;

 private:
  PathsLink& link_;
  PathSlot slot_;
};

/// What the mirror of the other one hears: requests by their numbers, which are answered at once or when the test says.
class Hearing : public LinkEvents {
 public:
  bool answering = true;
  std::vector<int> seen;
  std::vector<InboundRequest*> held;
  unsigned ups = 0, downs = 0;
  void on_link_up() override {}
  void on_link_down() override {}
  void on_inbound_up(std::uint64_t) override { ++ups; }
  void on_inbound_down(std::uint64_t) override { ++downs; }
  void on_request(std::uint64_t, InboundRequest& request) override {
    if (!moves_blocks(request.header())) seen.push_back(std::stoi(text_of(request.header())));
    held.push_back(&request);
    if (answering) answer_held();
  }
  void answer_held() {
    for (auto* request : std::exchange(held, {})) {
      const std::size_t bytes = std::min(request->payload().size(), request->max_answer_payload());
      answer(*request, text_of(request->header()), request->payload().first(bytes));
    }
  }

 protected:
  virtual void answer(InboundRequest& request, const std::string& header, std::span<const std::byte> payload) = 0;
};

/// What the mirror of the connecting node hears.
struct Calling final : LinkEvents {
  unsigned ups = 0, downs = 0;
  void on_link_up() override { ++ups; }
  void on_link_down() override { ++downs; }
  void on_inbound_up(std::uint64_t) override {}
  void on_inbound_down(std::uint64_t) override {}
  void on_request(std::uint64_t, InboundRequest&) override {}
};

}  // namespace lockstep::replication
