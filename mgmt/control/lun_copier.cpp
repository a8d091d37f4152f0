#include "mgmt/control/lun_copier.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <poll.h>

#include "mgmt/log/log.hpp"

namespace lockstep::mgmt {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint64_t kPiece = 512 << 10;  // bytes read at once
constexpr std::uint64_t kGrain = 64 << 10;   // bytes: zeros of this length and place are left out
constexpr std::size_t kPieces = 8;           // under way
constexpr auto kFlushEvery = std::chrono::seconds(2);
constexpr auto kRateOver = std::chrono::seconds(5);

bool is_zero(std::span<const std::byte> bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace

class LunCopier::Run {
 public:
  explicit Run(LunCopier& owner) : owner_(owner), plan_(owner.plan_), next_(plan_.position), durable_(plan_.position) {}

  /// Nothing when everything was copied.
  std::optional<LunFault> copy() {
    if (auto bad = open()) return bad;
    last_flush_ = rate_since_ = Clock::now();
    while (!fault_ && durable_ < plan_.size) {
      if (owner_.stop_) return LunFault{true, "This node's management is stopping."};
      if (!flushing_ && flush_is_due()) flush();
      fill();
      turn();
      tell();
    }
    return fault_;
  }

 private:
  struct Piece {
    bool busy = false;
    std::uint64_t offset = 0, length = 0;
    unsigned writes = 0;
    std::vector<std::byte> data;
  };

  std::optional<LunFault> open() {
    auto from = LunSession::open(plan_.from, owner_.stop_);
    // It was there when the import began. An array that starts listens before it has its targets, units and accounts.
    if (!from) return LunFault{true, from.error().sentence};
    from_ = std::move(*from);
    const LunShape& shape = from_->shape();
    if (shape.size != plan_.size || shape.block_size != plan_.block_size)
      return LunFault{false,
                      fmt::format("The source has {} bytes in blocks of {} now; it had {} in blocks of {} when the "
                                  "import began.",
                                  shape.size, shape.block_size, plan_.size, plan_.block_size)};
    if (!plan_.identity.empty() && shape.identity != plan_.identity)
      return LunFault{false, fmt::format("The source is another unit now ({}) than when the import began ({}).",
                                         shape.identity.empty() ? "without a name" : shape.identity, plan_.identity)};
    auto to = LunSession::open(plan_.to, owner_.stop_);
    if (!to) return LunFault{true, to.error().sentence};  // this pair's own: what is wrong there passes
    to_ = std::move(*to);
    piece_ = shape.max_transfer == 0 ? kPiece : std::min<std::uint64_t>(kPiece, shape.max_transfer);
    piece_ = std::max<std::uint64_t>(piece_ / kGrain * kGrain, std::min(piece_, kGrain));
    asks_holes_ = shape.tells_holes;
    for (Piece& piece : pieces_) piece.data.resize(piece_);
    return std::nullopt;
  }

  // ---- pieces ----

  // At most kAhead beyond what is durable, so that a later run knows how far this one may have come.
  void fill() {
    for (Piece& piece : pieces_) {
      if (fault_ || asking_ || next_ >= plan_.size || next_ - durable_ >= kAhead) return;
      if (piece.busy) continue;
      if (asks_holes_ && next_ >= holes_known_to_) return ask_hole();
      const std::uint64_t limit = std::min(plan_.size, plan_.position + kAhead);
      if (hole_ && !(plan_.resumed && next_ < limit)) {
        skip_hole();
        return;
      }
      begin(piece);
    }
  }

  // With nothing under way, nothing in between has to be made durable.
  void skip_hole() {
    const std::uint64_t end = std::min(holes_known_to_, plan_.size);
    const bool still = idle() && !flushing_ && done_ == durable_;
    next_ = still ? end : std::min(end, durable_ + kAhead);
    if (idle()) done_ = next_;
    if (still) durable_ = next_;
  }

  void begin(Piece& piece) {
    piece.busy = true;
    piece.offset = next_;
    piece.length = std::min(piece_, plan_.size - next_);
    if (asks_holes_) piece.length = std::min(piece.length, holes_known_to_ - next_);
    next_ += piece.length;
    const std::span<std::byte> bytes(piece.data.data(), piece.length);
    if (hole_) {  // a resumed run: what is empty now is made so
      std::ranges::fill(bytes, std::byte{0});
      return put(piece);
    }
    from_->read(piece.offset, bytes, [this, &piece](std::optional<LunFault> bad) {
      if (bad) return fail(std::move(*bad));
      put(piece);
    });
  }

  // Runs of grains that are all zero or all not.
  void put(Piece& piece) {
    const bool rewrite = plan_.resumed && piece.offset < plan_.position + kAhead;
    piece.writes = 1;
    for (std::uint64_t at = 0; at < piece.length;) {
      const auto grain = [&](std::uint64_t from) {
        const std::uint64_t to_edge = kGrain - (piece.offset + from) % kGrain;
        return std::span<const std::byte>(piece.data).subspan(from, std::min(to_edge, piece.length - from));
      };
      const bool zero = is_zero(grain(at));
      std::uint64_t end = at;
      while (end < piece.length && is_zero(grain(end)) == zero) end += grain(end).size();
      const std::uint64_t begin = std::exchange(at, end);
      if (zero && !rewrite) continue;
      ++piece.writes;
      auto done = [this, &piece](std::optional<LunFault> bad) {
        if (bad) return fail(std::move(*bad));
        wrote(piece);
      };
      if (zero) {
        to_->write_zeroes(piece.offset + begin, end - begin, done);
      } else {
        written_ += end - begin;
        to_->write(piece.offset + begin, std::span<const std::byte>(piece.data).subspan(begin, end - begin), done);
      }
    }
    wrote(piece);
  }

  void wrote(Piece& piece) {
    if (--piece.writes > 0) return;
    piece.busy = false;
    done_ = next_;
    for (const Piece& other : pieces_)
      if (other.busy) done_ = std::min(done_, other.offset);
  }

  void ask_hole() {
    asking_ = true;
    from_->find_hole(next_, [this](std::optional<LunSession::Hole> hole) {
      asking_ = false;
      if (!hole) return void(asks_holes_ = hole_ = false);  // it says so and can't: read everything
      hole_ = hole->empty;
      holes_known_to_ = hole->end;
    });
  }

  // ---- durability ----

  [[nodiscard]] bool idle() const {
    return std::ranges::none_of(pieces_, [](const Piece& piece) { return piece.busy; });
  }
  [[nodiscard]] bool flush_is_due() const {
    if (done_ <= durable_) return false;
    const bool full = done_ - durable_ >= kAhead / 2 || done_ >= plan_.size;
    return full || Clock::now() - last_flush_ > kFlushEvery;
  }
  void flush() {
    flushing_ = true;
    last_flush_ = Clock::now();
    to_->flush([this, upto = done_](std::optional<LunFault> bad) {
      flushing_ = false;
      if (bad) return fail(std::move(*bad));
      durable_ = upto;
    });
  }

  // ---- the loop ----

  void turn() {
    std::array<pollfd, 2> both{{{from_->descriptor(), from_->wanted(), 0}, {to_->descriptor(), to_->wanted(), 0}}};
    if (::poll(both.data(), both.size(), 100) < 0) return;
    if (auto over = from_->turn(both[0].revents)) fail(std::move(*over));
    if (auto over = to_->turn(both[1].revents)) fail(LunFault{true, over->sentence});
  }
  void fail(LunFault fault) {
    if (!fault_) fault_ = std::move(fault);
  }
  void tell() {
    const auto now = Clock::now();
    const std::lock_guard lock(owner_.mutex_);
    owner_.progress_.position = durable_;
    owner_.progress_.written = written_;
    if (now - rate_since_ < kRateOver) return;
    const double seconds = std::chrono::duration<double>(now - rate_since_).count();
    owner_.progress_.rate =
        static_cast<std::uint64_t>(static_cast<double>(done_ - std::min(done_, rate_from_)) / seconds);
    rate_from_ = done_;
    rate_since_ = now;
  }

  LunCopier& owner_;
  const CopyPlan& plan_;
  // The sessions go first when a run ends: they hold pointers into the pieces.
  std::array<Piece, kPieces> pieces_;
  std::uint64_t piece_ = kPiece;
  std::uint64_t next_, durable_, done_ = next_;  // begun, durable, and written everywhere before
  std::uint64_t written_ = 0;
  bool asks_holes_ = false, asking_ = false, hole_ = false, flushing_ = false;
  std::uint64_t holes_known_to_ = 0;
  std::optional<LunFault> fault_;
  Clock::time_point last_flush_, rate_since_;
  std::uint64_t rate_from_ = next_;
  std::unique_ptr<LunSession> from_, to_;
};

LunCopier::LunCopier(CopyPlan plan) : plan_(std::move(plan)) {
  progress_.position = plan_.position;
  thread_ = std::thread([this] { run(); });
}

LunCopier::~LunCopier() {
  stop_ = true;
  thread_.join();
}

CopyProgress LunCopier::progress() const {
  const std::lock_guard lock(mutex_);
  return progress_;
}

void LunCopier::run() {
  std::optional<LunFault> fault;
  try {
    fault = Run(*this).copy();
  } catch (const std::exception& e) {
    log_error(fmt::format("An import: {}", e.what()));
    fault = LunFault{true, fmt::format("This node's management ran into \"{}\".", e.what())};
  }
  const std::lock_guard lock(mutex_);
  progress_.ended = true;
  if (!fault) progress_.position = plan_.size;
  progress_.fault = std::move(fault);
}

}  // namespace lockstep::mgmt
