#pragma once
// The partner as one node sees it, over a link that keeps what was sent until the test answers it.
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "replication/core/marks.hpp"
#include "replication/core/messages.hpp"
#include "replication/core/partner.hpp"
#include "tests/unit/iscsi_session/fake_stream.hpp"

namespace lockstep::replication {

using namespace std::chrono_literals;

/// Requests wait in the order of their sending.
class HeldLink final : public Link {
 public:
  struct Sent {
    Message message;
    std::span<std::byte> payload_in;
    engine::Callback<engine::IoResult<LinkAnswer>> done;
  };
  [[nodiscard]] bool is_up() const override { return up; }
  [[nodiscard]] std::uint16_t version() const override { return kPartnerVersions.highest; }
  void send(std::span<const std::byte> header, std::span<const std::byte>, std::span<std::byte> payload_in,
            engine::Callback<engine::IoResult<LinkAnswer>> done) override {
    sent.push_back({*decode(header), payload_in, std::move(done)});
  }
  void reset() override { ++resets; }
  bool up = false;
  int resets = 0;
  std::deque<Sent> sent;
};

/// A request of the partner's; tells what it was answered.
class HeldRequest final : public InboundRequest {
 public:
  explicit HeldRequest(const Message& message) : bytes_(encode(message)) {}
  [[nodiscard]] std::span<const std::byte> header() const override { return bytes_; }
  [[nodiscard]] std::span<std::byte> payload() const override { return {}; }
  [[nodiscard]] std::size_t max_answer_payload() const override { return kMaxLinkPayload; }
  void answer(std::span<const std::byte> header, std::span<const std::byte>, engine::Callback<> sent) override {
    said = *decode(header);
    sent();
  }
  void answer_early(std::span<const std::byte> header) override { said = *decode(header); }
  std::optional<Message> said;

 private:
  MessageBytes bytes_;
};

class PartnerFixture : public testing::Test, public PartnerUser {
 protected:
  static constexpr auto kLease = 1000ms;

  void connect() {
    link.up = true;
    partner.on_link_up();
  }
  void disconnect() {
    while (!link.sent.empty()) fail(0);
    link.up = false;
    partner.on_link_down();
  }
  /// Answers the request at `index` of those that wait, with the partner's clock at `stamp`.
  void answer(std::size_t index, std::uint64_t stamp) {
    HeldLink::Sent sent = take(index);
    Message header = answer_to(sent.message);
    header.stamp = stamp;
    header.payload = static_cast<std::uint32_t>(sent.payload_in.size());
    const MessageBytes bytes = encode(header);
    sent.done(LinkAnswer{bytes, sent.payload_in.size()});
  }
  void fail(std::size_t index) { take(index).done(std::unexpected(make_error_code(engine::Errc::unknown_outcome))); }
  /// What the partner answers beside its stamp.
  Message answer_to(const Message& question) {
    Message header;
    header.type = question.type;
    header.answer = true;
    header.process = theirs;
    if (question.type != MessageType::hello) return header;
    header.number = static_cast<std::uint64_t>(their_lease.count());
    header.tag = their_drift_percent;
    return header;
  }
  [[nodiscard]] std::size_t beats() const {
    std::size_t count = 0;
    for (const auto& s : link.sent) count += s.message.type == MessageType::heartbeat;
    return count;
  }
  /// The partner's clock runs as this node's does, a day ahead.
  [[nodiscard]] std::uint64_t their_clock() const {
    return static_cast<std::uint64_t>((clock.now().since_origin + std::chrono::hours(24)).count());
  }
  /// What the node itself takes, or refuses, of a request that comes by `session`; nothing: it is passed on.
  std::optional<Message> said_to(std::uint64_t session, MessageType type, const engine::Uuid& process,
                                 engine::Duration lease = {}) {
    Message message;
    message.type = type;
    message.process = process;
    message.number = static_cast<std::uint64_t>(lease.count());
    if (type == MessageType::hello) message.flags = kFlagSideB;
    HeldRequest request(message);
    const bool taken = partner.take(session, request, message);
    EXPECT_EQ(taken, request.said.has_value());
    return request.said;
  }
  HeldLink::Sent take(std::size_t index) {
    HeldLink::Sent sent = std::move(link.sent.at(index));
    link.sent.erase(link.sent.begin() + static_cast<std::ptrdiff_t>(index));
    return sent;
  }

  void on_connected() override { events.push_back("connected"); }
  void on_disconnected() override { events.push_back("disconnected"); }
  void on_partner_restarted() override { events.push_back("restarted"); }
  void on_contact_made() override { events.push_back("contact made"); }
  void on_contact_lost() override { events.push_back("contact lost"); }
  void on_set_back(const std::string&) override { events.push_back("set back"); }
  void on_lease_agreed(engine::Duration lease, engine::Duration granted, unsigned drift_percent) override {
    settings.lease = lease;
    settings.granted_lease = granted;
    settings.drift_percent = drift_percent;
  }
  void list_leases(std::vector<std::byte>&) override {}
  void on_leases(std::span<const std::byte>, std::span<const std::byte>, const Lease&) override {}
  bool grant_lease(const engine::Uuid&, const engine::Uuid&) override { return false; }

  static NodeSettings node_settings() {
    NodeSettings s;
    s.lease = s.granted_lease = kLease;
    s.process.bytes[0] = 1;
    return s;
  }

  test::FakeClock clock;
  test::SeededRandom random{1};
  engine::BufferPool buffers{std::size_t{1} << 20};
  HeldLink link;
  NodeSettings settings = node_settings();
  NodeSeams seams{clock, random, buffers, link};
  engine::Uuid theirs{{2}};
  engine::Duration their_lease{0};  ///< as an earlier version, which tells none
  unsigned their_drift_percent = 0;
  std::vector<std::string> events;
  Partner partner{settings, seams, *this};
};

}  // namespace lockstep::replication
