#pragma once
// The partner's orders on this node's store: replicated writes, resync copies, flushes, cleared bits, fetched reads.
//
// An applied write keeps its range locked until the sequencer's watermark covers it, so that no read here sees a write
// that a crash could still undo there; or until this node knows otherwise that both have it. Data that an order refers
// to are copied: a store may hold them longer than their command may last. Orders are told apart by (epoch, sequence):
// one that comes again is answered again and not carried out twice.
//
// Requires: requests in the order in which their session brought them. Guarantees: each is answered once. Callers: the
// mirror, for orders; what makes a step to another epoch quiesces it and opens it again.
#include "replication/core/forwarder.hpp"
#include "replication/core/local_store.hpp"
#include "replication/core/messages.hpp"
#include "replication/core/space.hpp"
#include "replication/core/standing.hpp"

namespace lockstep::replication {

class Applier;

/// One order under way, or applied and not yet covered by the watermark.
struct Apply {
  explicit Apply(Applier& owner) : applier(owner) {}
  Applier& applier;
  Hook<Apply> hook;
  InboundRequest* request = nullptr;  ///< null once answered
  InboundRequest* again = nullptr;    ///< the same order, come a second time by a new session
  std::uint64_t session = 0;
  Message message;
  engine::RangeLock::Node lock;
  engine::Buffer buffer;  ///< data that it refers to, or that are read for it; else the request has them
  engine::TimePoint since;
  enum class Stage : std::uint8_t {
    waits,    ///< for its range
    lacks,    ///< its data, not to be had or gone with its session: it keeps its place until it comes again
    at_work,  ///< the store or the map has it
    applied,  ///< durable here, waits for the watermark
  };
  Stage stage = Stage::waits;
  // Of what is applied:
  bool held = false;    ///< not answered before this node's cancelled forwards are over
  bool failed = false;  ///< by the store: nobody reads there in this epoch
  [[nodiscard]] bool is_started() const { return stage == Stage::at_work || stage == Stage::applied; }
  [[nodiscard]] bool is_shown_later() const { return stage == Stage::applied && !failed; }
};

/// What the partner's orders tell upwards.
class ApplierUser {
 public:
  virtual ~ApplierUser() = default;
  virtual void on_stores_equal() = 0;  ///< the sequencer says that nothing differs any more
  /// That process of the partner's ordered something by a number that it had given to something else: its memory was
  /// set back.
  virtual void on_number_used_twice(const engine::Uuid& process) = 0;
};

class Applier {
 public:
  Applier(engine::Clock& clock, engine::BufferPool& buffers, const Standing& standing, LocalStore& store, Space& space,
          Forwarder& forwarder, ApplierUser& user)
      : buffers_(buffers),
        clock_(clock),
        standing_(standing),
        store_(store),
        space_(space),
        forwarder_(forwarder),
        user_(user) {}
  ~Applier();

  void take(std::uint64_t session, InboundRequest& request, const Message& message);
  /// Covers everything up to `watermark`: those ranges may be read.
  void on_watermark(std::uint64_t watermark);

  /// Refuses what comes from now on, drops what waits, and calls back when what the store has is done. A replica that
  /// leaves need not wait for what a failed store holds: nothing of it counts. One that goes on must.
  enum class Wait : std::uint8_t { for_all, unless_failed };
  void quiesce(Wait wait, engine::Callback<> done);
  /// With each tick: the store may have failed since.
  void tick() { over(); }
  /// A new epoch (or the same one again) begins: orders are taken. What an old one left uncommitted is let go.
  void open(bool new_epoch);
  /// The sequencer is another process, perhaps in the same epoch (a record {it} lets it start again): it counts anew.
  void forget_sequences();
  /// Drops what came by an old session and was not started. A member's orders keep their places.
  void drop_old(std::uint64_t current_session);
  /// The store or the map has something.
  [[nodiscard]] bool busy();
  [[nodiscard]] bool has_older_than(engine::TimePoint limit);
  /// An order of this epoch that the store failed: it is not carried out again.
  [[nodiscard]] bool has_failed();
  [[nodiscard]] bool closed() const { return closed_; }
  /// A target takes part in the resync only of somebody who was told all of its map. Another copy may have taken this
  /// one's place while the source went on by the map of the one before.
  [[nodiscard]] bool may_be_resynced() const;
  /// What was told of the map does not hold any more.
  void forget_map() { map_told_ = 0, map_is_told_ = false; }
  /// This node's cancelled forwards are over: orders that waited for that are answered.
  void release_answers();
  /// What this forward brought is on both: it may be read. It is known as a duplicate until the watermark covers it.
  void show(std::uint64_t tag);

 private:
  [[nodiscard]] bool accepts(const Message& message) const;
  [[nodiscard]] bool is_well_formed(const Message& message, std::size_t payload) const;
  template <class Pred>
  Apply* find_if(Pred pred);
  Apply* find(std::uint64_t sequence);
  void commit(engine::Extent extent);
  void unlock(Apply& apply);
  void replicate(std::uint64_t session, InboundRequest& request, const Message& message);
  void refuse_number(InboundRequest& request, const Message& message);
  void take_again(Apply& twin, std::uint64_t session, InboundRequest& request, const Message& message);
  void take_what_lacked(Apply& apply, std::uint64_t session, InboundRequest& request, const Message& message);
  void lose_data(Apply& apply);
  [[nodiscard]] bool keeps_places() const;
  [[nodiscard]] bool take_data(Apply& apply);
  [[nodiscard]] static std::span<const std::byte> data_of(const Apply& apply);
  static void on_granted(engine::RangeLock::Node& node);
  void start(Apply& apply);
  void run(Apply& apply);
  void mark_dirty(Apply& apply);
  void reserve(std::uint64_t session, InboundRequest& request, const Message& message);
  void store(Apply& apply);
  void on_stored(Apply& apply, std::error_code error);
  void copy(std::uint64_t session, InboundRequest& request, const Message& message);
  void flush(std::uint64_t session, InboundRequest& request, const Message& message);
  void clear(InboundRequest& request, const Message& message);
  void fetch(std::uint64_t session, InboundRequest& request, const Message& message);
  void map(InboundRequest& request, const Message& message);
  void end(Apply& apply, engine::Errc status);
  void answer_both(Apply& apply, engine::Errc status);
  void let_go(Apply& apply);
  void over();
  Apply& make(std::uint64_t session, InboundRequest& request, const Message& message);

  engine::BufferPool& buffers_;
  engine::Clock& clock_;
  const Standing& standing_;
  LocalStore& store_;
  Space& space_;
  Forwarder& forwarder_;
  ApplierUser& user_;
  bool closed_ = true;
  std::uint64_t watermark_ = 0;
  std::uint64_t map_told_ = 0;  ///< words from the map's first on, in this order
  bool map_is_told_ = false;
  Pool<Apply> pool_;
  List<Apply> applies_;        // under way, and applied but uncommitted
  std::uint64_t highest_ = 0;  ///< no order had a higher number
  std::size_t held_ = 0;       // of these, answers held back
  engine::Callback<> quiet_;
  Wait quiet_waits_ = Wait::for_all;
};

}  // namespace lockstep::replication
