#pragma once
// One way of the partner link: the sender's Link and the receiver's sessions, over wires that may be cut. Keeps every
// rule of replication/core/link.hpp, and uses every freedom that it leaves: a break may lose requests, deliver them
// after the sender was told of the break, or lose only their answers.
//
// A way over RDMA (SimRdma) moves what is long through windows on the sender's memory: in pieces, as late as may be, by
// devices that go on where processes stand still. Its end takes a moment, until which the partner's device still reads
// and writes; what was sent is called back afterwards.
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "replication/core/link.hpp"
#include "replication/link/channel/path_manager.hpp"
#include "tests/simulation/network.hpp"
#include "tests/simulation/scheduler.hpp"
#include "tests/simulation/sim_rdma.hpp"
#include "tests/simulation/violation.hpp"

namespace lockstep::simulation {

struct LinkTimes {
  Nanos slowest = 2 * kMillisecond;  ///< of one message
  Nanos notice = 4 * kSecond;        ///< within which a transport notices by itself that the other end is gone
  std::uint32_t late = 0;            ///< chance in a million that an answer is overtaken by later ones,
  Nanos latest = 0;                  ///< … and by how much it is late at most
  /// Requests that the receiver takes before it answers; 0: any number. Heartbeats are taken beside these, and go ahead
  /// of all that waits.
  std::size_t window = 0;
  std::uint64_t bytes_a_second = 0;  ///< of payload, to the receiver; 0: any
};

/// Says what a header on the link says.
using MessageReader = std::function<std::string(std::span<const std::byte>)>;
/// Picks requests by their headers.
using MessageFilter = std::function<bool(std::span<const std::byte>)>;

class SimLink final : public replication::Link, private replication::RdmaPayloads::User {
 public:
  struct World {
    Scheduler& scheduler;
    Trace& trace;
    Verdict& verdict;
    const Network& network;
    const MessageReader* read_message = nullptr;
    const MessageFilter* is_heartbeat = nullptr;
    unsigned shard = 0;  ///< whose link it is: its threads have both ends
    replication::PathTransport transport = replication::PathTransport::tcp;
    replication::PayloadSizes payloads{};  ///< over RDMA
  };
  SimLink(World world, SimRandom random, engine::NodeSide sender, LinkTimes times);
  ~SimLink() override;

  [[nodiscard]] bool is_up() const override { return up_; }
  [[nodiscard]] std::uint16_t version() const override { return version_; }
  void send(std::span<const std::byte> header, std::span<const std::byte> payload_out, std::span<std::byte> payload_in,
            engine::Callback<engine::IoResult<replication::LinkAnswer>> done) override;
  void reset() override;

  // For the world. A process that starts gives its events, one that ends takes them away.
  // `speaks` is the highest version of what is said that its program knows.
  void sender_started(replication::LinkEvents& events, std::uint16_t speaks);
  void receiver_started(replication::LinkEvents& events, std::uint16_t speaks);
  /// `silent`: the machine lost power and told nobody.
  void sender_died(bool silent);
  void receiver_died(bool silent);
  /// The session breaks, each end notices in its own time.
  void break_session();
  void network_changed();
  /// Larger or smaller messages than before are lost.
  void passes_more_or_less();
  /// One direction of this way stands still, or goes on and delivers what it held, in order.
  enum class Flow : std::uint8_t { requests, answers };
  void hold(Flow flow, bool held);
  [[nodiscard]] bool connected() const { return up_; }
  [[nodiscard]] bool is_rdma() const { return rdma_ != nullptr; }
  /// Requests that were given to it to carry.
  [[nodiscard]] std::uint64_t carried() const { return carried_; }
  /// The network card of either end is gone, or back: connections are lost at once, and none is made.
  void take_device(bool away);
  /// The sender's queue has no room for these: they end with resource_exhausted, and were not sent.
  void refuse(MessageFilter which) { refused_ = std::move(which); }
  /// The receiver can't read the headers of these, like a program that knows less.
  void garble(MessageFilter which) { garbled_ = std::move(which); }
  /// These answers (by their own headers) are stuck on the way until the session breaks.
  void hold_answers(MessageFilter which) { stuck_ = std::move(which); }

 private:
  class Inbound;
  static constexpr std::uint64_t kNobody = ~std::uint64_t{0};  ///< the session of an answer that nobody is to have
  struct Packet {                                              // a request under way
    std::uint32_t slot = 0;
    std::uint32_t generation = 0;
    std::uint64_t session = 0;
    Nanos sent = 0;
    Nanos ready = 0;
    std::size_t header_bytes = 0;
    std::array<std::byte, replication::kMaxLinkHeader> header{};
    std::span<const std::byte> source;  ///< the sender's buffer, until it was copied
    std::uint64_t hash = 0;
    bool copied = false;
    std::vector<std::byte> payload;
    std::size_t answer_room = 0;
    bool goes_ahead = false;
    // Over RDMA.
    iser::Tagged tagged;
    std::uint64_t send = 0;   ///< of SimRdma
    std::size_t pulled = 0;   ///< bytes of the payload that the receiver's device has read
    bool is_pulling = false;  ///< it is about to read more
  };
  struct Slot {  // a request that was not yet answered, at the sender
    bool live = false;
    std::uint32_t generation = 1;
    std::uint64_t session = 0;
    std::span<std::byte> payload_in;
    engine::Errc refusal{};  ///< why it was not sent
    engine::Callback<engine::IoResult<replication::LinkAnswer>> done;
    std::unique_ptr<replication::LinkTask> task;  ///< over RDMA; kept for the next
  };
  struct Reply {  // an answer under way
    bool live = false;
    std::uint32_t generation = 1;
    std::uint32_t slot = 0;
    std::uint32_t slot_generation = 0;
    std::uint64_t session = 0;
    std::size_t header_bytes = 0;
    std::array<std::byte, replication::kMaxLinkAnswerHeader> header{};
    std::span<const std::byte> source;
    std::uint64_t hash = 0;
    std::vector<std::byte> payload;
    bool copied = false;
    bool arrived_at_wire = false;
    engine::Callback<> sent;
    // Over RDMA.
    iser::Tagged tagged;      ///< the request's
    std::uint32_t crc = 0;    ///< of the answer
    std::size_t written = 0;  ///< bytes that are in the sender's memory
    bool is_written = false;  ///< the payload goes there, and not with the answer
    bool waits = false;       ///< to go on writing
  };

  void schedule_attempt(Nanos delay);
  static void on_attempt(void* self, std::uint64_t attempt);
  static void on_login(void* self, std::uint64_t attempt);
  static void on_logged_in(void* self, std::uint64_t session);
  static void on_pump(void* self, std::uint64_t session);
  static void on_sender_notices(void* self, std::uint64_t session);
  static void on_receiver_notices(void* self, std::uint64_t session);
  static void on_sent(void* self, std::uint64_t reply);
  static void on_reply(void* self, std::uint64_t reply);
  static void on_refuse(void* self, std::uint64_t slot);
  // Over RDMA.
  static void on_failing(void* self, std::uint64_t session);
  static void on_closed(void* self, std::uint64_t session);
  static void on_pull(void* self, std::uint64_t);
  static void on_write(void* self, std::uint64_t reply);
  static void on_complete(void* self, std::uint64_t send);

  void pump();
  void put_on_wire(Packet packet, Nanos travels);
  [[nodiscard]] std::deque<Packet>::iterator next_on_wire();
  [[nodiscard]] bool stands_still(const Packet& packet) const;
  [[nodiscard]] bool any_stands_still() const;
  [[nodiscard]] bool is_lost(const Reply& reply) const;
  void send_held_again();
  void deliver(Packet packet);
  void take_copy(Packet& packet);
  void answer(Inbound& request, std::span<const std::byte> header, std::span<const std::byte> payload,
              engine::Callback<> sent);
  void answer_early(Inbound& request, std::span<const std::byte> header);
  void reply(Inbound& request, std::uint64_t session, std::span<const std::byte> header,
             std::span<const std::byte> payload, engine::Callback<> sent);
  void end_receiver_session(bool tell);
  void fail_outstanding();
  void drop_inbounds();
  void both_notice(Nanos sender_within, Nanos receiver_within);
  void tell(Owner who, std::span<const std::byte> header);
  [[nodiscard]] bool lets_through() const;
  [[nodiscard]] bool goes_on(std::uint64_t session);
  [[nodiscard]] bool give(std::uint32_t slot, Packet& packet, std::span<const std::byte> payload_out);
  void pull(Packet& packet);
  [[nodiscard]] std::size_t some_of(std::size_t left);
  [[nodiscard]] Nanos device_delay() { return random_.skewed(kMicrosecond, times_.slowest / 4 + kMicrosecond); }
  void read_late(const Inbound& request);
  void begin_to_write(Reply& reply, const Inbound& request);
  void goes_on_writing();
  void take_answer(Reply& reply, std::uint32_t id);
  void on_shut(replication::LinkTask& task) override;
  void take_payload(replication::LinkTask& task);
  void finish_if_over(replication::LinkTask& task);
  void begin_to_close(std::uint64_t session);
  void end_session_at_sender(std::uint64_t session);
  void drop_unread();
  void lose_both();
  void release_slot(std::uint32_t slot);
  void release_reply(std::uint32_t reply);
  [[nodiscard]] Owner sender_owner() const { return owner_of(sender_, shard_); }
  [[nodiscard]] Owner receiver_owner() const { return owner_of(engine::other(sender_), shard_); }
  [[nodiscard]] Nanos delay() { return random_.skewed(10 * kMicrosecond, times_.slowest); }

  Scheduler& scheduler_;
  Trace& trace_;
  Verdict& verdict_;
  const Network& network_;
  const MessageReader* read_message_;
  const MessageFilter* is_heartbeat_;
  MessageFilter refused_, garbled_, stuck_;
  unsigned shard_;
  SimRandom random_;
  engine::NodeSide sender_;
  LinkTimes times_;
  replication::LinkEvents* sender_events_ = nullptr;
  replication::LinkEvents* receiver_events_ = nullptr;

  std::uint64_t carried_ = 0;
  std::unique_ptr<SimRdma> rdma_;  ///< none: it is TCP
  bool is_closing_ = false;        ///< the sender's session over RDMA
  bool device_is_there_ = true;
  std::uint16_t sender_speaks_ = 0, receiver_speaks_ = 0;
  std::uint16_t version_ = 0;  ///< of the sender's session

  std::uint64_t attempt_ = 0;  ///< the latest connection attempt
  std::uint64_t last_session_ = 0;
  std::uint64_t sender_session_ = 0;  ///< 0: none
  std::uint64_t receiver_session_ = 0;
  std::uint64_t broken_session_ = 0;  ///< the latest session that is known to be broken, by this world
  std::size_t may_deliver_ = 0;       ///< of a broken session: how many more requests get through
  bool up_ = false;
  bool pumping_ = false;
  std::uint64_t stuck_session_ = 0;          ///< whose answers stand behind one that is lost, each time
  std::array<bool, 2> held_{};               ///< each Flow
  std::vector<std::uint64_t> held_replies_;  ///< that would have arrived meanwhile
  std::deque<Packet> wire_;
  Nanos sent_at_ = 0;       ///< when the last byte of what was sent so far has left
  std::size_t window_ = 0;  ///< requests of the receiver's session that count and are not answered
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<Reply> replies_;
  std::vector<std::uint32_t> free_replies_;
  std::vector<std::vector<std::byte>> spare_;  ///< payload memory to be used again
  std::vector<std::unique_ptr<Inbound>> inbounds_;
  std::vector<Inbound*> free_inbounds_;
};

}  // namespace lockstep::simulation
