#pragma once
// The partner's forwards at the node that orders. One entry a tag: a forward that comes again is answered from it and
// not carried out again. Results are kept until the partner says that the tag is acknowledged, or is another process.
#include <array>
#include <memory>
#include <unordered_map>

#include "replication/core/core_state.hpp"
#include "replication/core/messages.hpp"

namespace lockstep::replication {

struct ForwardEntry {
  std::uint64_t tag = 0;
  std::uint64_t stamp = 0;  ///< of this node's clock: it is begun only while that is fresh
  Message message;
  InboundRequest* carrier = nullptr;  ///< holds the data while the operation runs
  InboundRequest* again = nullptr;    ///< the same forward, come a second time meanwhile
  Op* op = nullptr;                   ///< null when done
  engine::Errc status = engine::Errc::ok;
  std::uint64_t miscompare_offset = 0;
  engine::Buffer buffer;  ///< data read
  std::size_t bytes = 0;  ///< … of it
  std::array<std::byte, scsi::kLuAnswerSize> lu_answer{};
};

class ForwardServer : Shared {
 public:
  /// More open tags than this are refused: the partner never has so many.
  static constexpr std::size_t kMaxEntries = 2048;

  explicit ForwardServer(Core& core) : Shared(core), core_(core) {}
  ~ForwardServer();

  void take(InboundRequest& request, const Message& message);
  /// The partner gave this forward up. Answered unknown_outcome when it is under way none the less.
  void take_cancel(InboundRequest& request, const Message& message);
  /// The operation of an entry ended; `op` is gone afterwards.
  void finished(Op& op);
  void on_partner_restarted();
  [[nodiscard]] static std::uint64_t stamp_of(const ForwardEntry& entry) { return entry.stamp; }
  [[nodiscard]] static std::uint64_t tag_of(const ForwardEntry& entry) { return entry.tag; }

 private:
  void begin(InboundRequest& request, const Message& message);
  void forget(std::uint64_t tag);
  void forget_below(std::uint64_t tag);
  [[nodiscard]] bool is_well_formed(const InboundRequest& request, const Message& message) const;
  void respond(InboundRequest& request, const Message& question, const ForwardEntry& entry);

  Core& core_;
  std::unordered_map<std::uint64_t, std::unique_ptr<ForwardEntry>> entries_;
  std::vector<std::unique_ptr<ForwardEntry>> orphans_;  // running, of a partner's process that is gone
  std::uint64_t lowest_ = 0;
};

}  // namespace lockstep::replication
