#pragma once
// The partner as the mirror sees it: requests with answers over something that delays, breaks and comes back.
// Real: an iSCSI session each way (replication/link). Simulated: tests/simulation.
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/result.hpp"
#include "engine/base/uuid.hpp"

namespace lockstep::replication {

constexpr std::size_t kMaxLinkHeader = 192;                    ///< bytes of a request's header
constexpr std::size_t kMaxLinkAnswerHeader = 192;              ///< bytes of an answer's header
constexpr std::size_t kMaxLinkPayload = std::size_t{1} << 20;  ///< bytes of payload, either way

/// Versions of what is said on the link, lowest to highest. Both nodes tell theirs when a session begins; the highest
/// that both speak is used (replication/link/format.md).
struct LinkVersions {
  std::uint16_t lowest = 0;
  std::uint16_t highest = 0;
  [[nodiscard]] bool contains(std::uint16_t version) const { return lowest <= version && version <= highest; }
  bool operator==(const LinkVersions&) const = default;
};
/// What this program speaks. 2 brought the units' state, 3 orders by reference and early answers to forwards, 4 several
/// paths.
constexpr LinkVersions kPartnerVersions{2, 4};
constexpr std::uint16_t kOrdersByReference = 3;  ///< the first version that has them
constexpr std::uint16_t kSeveralPaths = 4;       ///< the same; requests are numbered since, and none is read late

struct LinkAnswer {
  std::span<const std::byte> header;  ///< valid during the callback
  std::size_t payload_bytes = 0;      ///< how much of `payload_in` was filled
};

/// The way out: requests of this node's to its partner.
class Link {
 public:
  virtual ~Link() = default;
  /// True between LinkEvents::on_link_up() and on_link_down().
  [[nodiscard]] virtual bool is_up() const = 0;
  /// What may be said while it is up: the version that both nodes agreed on for this way out.
  [[nodiscard]] virtual std::uint16_t version() const = 0;
  /// Requests are delivered in order, answers come in any order; heartbeats may go ahead of everything. `header` is
  /// copied; `payload_out` and `payload_in` stay valid until `done`, which runs exactly once and never from inside
  /// send(). Errc::unknown_outcome: the link broke first; the partner may or may not have carried the request out. A
  /// buffer is not read or written after `done`.
  virtual void send(std::span<const std::byte> header, std::span<const std::byte> payload_out,
                    std::span<std::byte> payload_in, engine::Callback<engine::IoResult<LinkAnswer>> done) = 0;
  /// Breaks the way out: everything outstanding ends with unknown_outcome, on_link_down() follows, then a new attempt.
  virtual void reset() = 0;
  /// Nothing is wrong with it, and yet it ends before long unless it is made anew, by reset(), at a better moment.
  [[nodiscard]] virtual bool wants_renewal() const { return false; }
};

/// One request of the partner's, until it is answered or its session dies.
class InboundRequest {
 public:
  virtual ~InboundRequest() = default;
  [[nodiscard]] virtual std::span<const std::byte> header() const = 0;
  /// The partner's data in an aligned buffer of this node's, valid until answer().
  [[nodiscard]] virtual std::span<std::byte> payload() const = 0;
  [[nodiscard]] virtual std::size_t max_answer_payload() const = 0;
  /// At most once, before answer(), which then sends nothing: the sender has its answer now, and the request and its
  /// payload stay until answer().
  virtual void answer_early(std::span<const std::byte> header) = 0;
  /// Exactly once; the request is gone afterwards. `header` is copied; `payload` stays valid until `sent`, which may be
  /// none and runs also when the session died meanwhile.
  virtual void answer(std::span<const std::byte> header, std::span<const std::byte> payload,
                      engine::Callback<> sent) = 0;
};

/// What the transport tells the node. All calls come on the node's reactor.
class LinkEvents {
 public:
  virtual ~LinkEvents() = default;
  virtual void on_link_up() = 0;    ///< the way out is usable; a new one each time
  virtual void on_link_down() = 0;  ///< after every outstanding send() was called back
  /// The way out has failed, and on_link_down() follows when nothing of it touches a buffer any more: what is sent
  /// until then goes nowhere. Not every link says so.
  virtual void on_link_failing() {}
  /// A session of the partner's was let in / is gone. Numbers rise; only one is alive at a time: the transport destroys
  /// the old session before it lets in the next. Requests not yet answered then may still be answered: into the void.
  virtual void on_inbound_up(std::uint64_t session) = 0;
  virtual void on_inbound_down(std::uint64_t session) = 0;
  virtual void on_request(std::uint64_t session, InboundRequest& request) = 0;
  // Of links that find it. A machine may be set back to a snapshot with its memory.
  /// This node's was: the partner knows of this process what it has yet to do.
  virtual void on_set_back() {}
  /// The partner's was: its session contradicts what it has said, and is over. No other one of `process` is let in.
  virtual void on_partner_set_back(const engine::Uuid& process) { (void)process; }
};

}  // namespace lockstep::replication
