#pragma once
// The partner's forwards that this node knows of, one entry a tag: what is carried out, and results, kept until the
// partner says that the tag is acknowledged, or is another process.
//
// Callers: ForwardServer takes and forgets; Completions tells when an entry's operation is over.
#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "replication/core/messages.hpp"
#include "replication/core/operations.hpp"
#include "replication/core/partner.hpp"

namespace lockstep::replication {

struct ForwardEntry {
  std::uint64_t tag = 0;
  std::uint64_t stamp = 0;  ///< of this node's clock: it is begun only while that is fresh
  Message message;
  InboundRequest* carrier = nullptr;  ///< holds the data while the operation runs
  InboundRequest* again = nullptr;    ///< the same forward, come a second time meanwhile
  Op* op = nullptr;                   ///< null when done
  bool half_done = false;             ///< durable here, and ordered; the partner was told
  bool acknowledged = false;          ///< the partner has its answer: nothing is kept when it is done
  engine::Errc status = engine::Errc::ok;
  std::uint64_t miscompare_offset = 0;
  engine::Buffer buffer;  ///< data read
  std::size_t bytes = 0;  ///< … of it
  std::array<std::byte, scsi::kLuAnswerSize> lu_answer{};
};

/// Answered with bytes that are read anew when the forward comes again.
[[nodiscard]] bool fetches(engine::DiskOpcode opcode);

class ForwardEntries {
 public:
  /// More open tags than this are refused: the partner never has so many.
  static constexpr std::size_t kMaxEntries = 2048;

  explicit ForwardEntries(Operations& operations) : operations_(operations) {}
  ~ForwardEntries();

  /// Null: no such tag.
  [[nodiscard]] ForwardEntry* find(std::uint64_t tag);
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  /// Of those below nothing is remembered any more.
  [[nodiscard]] std::uint64_t lowest() const { return lowest_; }
  void add(std::unique_ptr<ForwardEntry> entry);
  void erase(std::uint64_t tag) { entries_.erase(tag); }
  /// The partner had the answer to it.
  void forget(std::uint64_t tag);
  void forget_below(std::uint64_t tag);
  /// The operation is durable in this node's store, and ordered in `epoch`: the partner may count on that.
  static void half_done(ForwardEntry& entry, const engine::Uuid& epoch);
  static void respond_half_done(InboundRequest& request, const Message& question, const engine::Uuid& epoch);
  /// The operation of an entry ended; `op` is gone afterwards.
  void finished(Op& op);
  static void respond(InboundRequest& request, const Message& question, ForwardEntry& entry);
  void on_partner_restarted();

 private:
  Operations& operations_;
  std::unordered_map<std::uint64_t, std::unique_ptr<ForwardEntry>> entries_;
  std::vector<std::unique_ptr<ForwardEntry>> orphans_;  // running, of a partner's process that is gone
  std::uint64_t lowest_ = 0;
};

}  // namespace lockstep::replication
