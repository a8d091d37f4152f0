#include "mgmt/data_plane/fence_slot.hpp"

#include <array>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>
#include <nlohmann/json.hpp>

#include "engine/runtime/reactor_asio.hpp"

namespace lockstep::data_plane {

namespace asio = boost::asio;
using boost::system::error_code;
using nlohmann::json;

namespace {
constexpr std::size_t kMaxAnswer = 16 << 10;
constexpr const char* kWrong =
    "The fence device says that the partner is off, while it is connected: it names another machine, or its options "
    "are "
    "wrong. It would power off something else, and both could go on. Where that was put right only after the partner "
    "was "
    "lost, nothing shows it any more: make sure that the partner is off, then `lockstep volume force-solo`.";
constexpr const char* kSilent = "The fence device of the partner does not answer: ";

FenceWord read_word(const std::string& line) {
  const json said = json::parse(line, nullptr, false);
  const auto done = said.is_object() ? said.find("done") : said.end();
  const auto power = said.is_object() ? said.find("power") : said.end();
  const auto problem = said.is_object() ? said.find("problem") : said.end();
  if (!said.is_object() || done == said.end() || !done->is_boolean() || power == said.end() || !power->is_string() ||
      problem == said.end() || !problem->is_string())
    return {false, false, "What lockstep-fence answered can't be read."};
  FenceWord word{*done, *power == "off", *problem};
  if (!word.done && word.problem.empty()) word.problem = "lockstep-fence does not say why it failed.";
  return word;
}
}  // namespace

/// One connection: an order, and its answer. To let go of it is to call the order off.
class FenceCall : public std::enable_shared_from_this<FenceCall> {
 public:
  FenceCall(engine::Reactor& reactor, std::string path, std::string order, engine::Callback<const FenceWord&> done)
      : reactor_(reactor),
        socket_(engine::io_context(reactor)),
        path_(std::move(path)),
        order_(std::move(order)),
        done_(std::move(done)) {}

  void start(engine::Duration limit) {
    timer_ = reactor_.call_after(limit, [self = shared_from_this()] {
      self->timer_ = engine::TimerId::none;
      self->fail("lockstep-fence does not answer.");
    });
    if (path_.size() >= sizeof(sockaddr_un::sun_path)) return fail("The path of its socket is too long: " + path_);
    socket_.async_connect(asio::local::stream_protocol::endpoint(path_), [self = shared_from_this()](error_code e) {
      if (e)
        return self->fail("lockstep-fence can't be reached at " + self->path_ + ": " + e.message() +
                          ". `systemctl enable --now lockstep-fence.socket` makes it so.");
      self->send();
    });
  }

  /// Nobody is told.
  void call_off() {
    done_ = nullptr;
    close();
  }

 private:
  void send() {
    asio::async_write(socket_, asio::buffer(order_), [self = shared_from_this()](error_code e, std::size_t) {
      if (e) return self->fail("lockstep-fence ended at once: " + e.message() + ".");
      self->read();
    });
  }
  void read() {
    socket_.async_read_some(asio::buffer(chunk_), [self = shared_from_this()](error_code e, std::size_t bytes) {
      if (!self->done_) return;
      self->answer_.append(self->chunk_.data(), bytes);
      const auto end = self->answer_.find('\n');
      if (end != std::string::npos) return self->finish(read_word(self->answer_.substr(0, end)));
      if (e || self->answer_.size() > kMaxAnswer)
        return self->fail(
            "lockstep-fence ended without an answer: `journalctl -u 'lockstep-fence@*'` has what it said. "
            "Is there an /etc/lockstep/fence.toml?");
      self->read();
    });
  }
  void fail(const std::string& why) { finish({false, false, why}); }
  /// Never from inside start().
  void finish(FenceWord word) {
    close();
    if (!done_) return;
    reactor_.post([self = shared_from_this(), word = std::move(word)] {
      if (auto done = std::exchange(self->done_, nullptr)) done(word);
    });
  }
  void close() {
    reactor_.cancel(std::exchange(timer_, engine::TimerId::none));
    error_code ignored;
    socket_.close(ignored);
  }

  engine::Reactor& reactor_;
  asio::local::stream_protocol::socket socket_;
  std::string path_, order_, answer_;
  std::array<char, 4096> chunk_{};
  engine::Callback<const FenceWord&> done_;
  engine::TimerId timer_ = engine::TimerId::none;
};

FenceSlot::FenceSlot(engine::Reactor& reactor, std::string socket, Tell tell, Connected connected,
                     engine::Duration look_again)
    : reactor_(reactor),
      socket_(std::move(socket)),
      tell_(std::move(tell)),
      connected_(std::move(connected)),
      look_again_(look_again) {}

FenceSlot::~FenceSlot() {
  reactor_.cancel(timer_);
  for (const auto& call : {order_, look_})
    if (call) call->call_off();
}

std::shared_ptr<FenceCall> FenceSlot::ask(const char* order, engine::Duration limit,
                                          engine::Callback<const FenceWord&> done) {
  auto call = std::make_shared<FenceCall>(reactor_, socket_, std::string(order) + "\n", std::move(done));
  call->start(limit);
  return call;
}

void FenceSlot::use(bool on) {
  if (in_use_.exchange(on) == on) return;
  reactor_.cancel(std::exchange(timer_, engine::TimerId::none));
  looked_ = ready_ = doubted_ = wrong_ = false;
  problem_.clear();
  if (look_) look_->call_off();
  look_ = nullptr;
  if (on) return watch();
  stop();
}

// ---- whether the device answers ----

void FenceSlot::look(engine::Callback<const FenceWord&> done) { ask("status", kLookLimit, std::move(done)); }

void FenceSlot::watch() {
  timer_ = engine::TimerId::none;
  if (order_) return look_later(look_again_);
  look_ = ask("status", kLookLimit, [this](const FenceWord& word) {
    look_ = nullptr;
    if (word.done && word.off) return compare_with_link(word);
    doubted_ = false;
    note(word, wrong_ && !word.done);  // one that says nothing is as wrong as before
  });
}

/// A machine that lost its power just now may count as connected for a moment: only the second such look in a row
/// counts.
void FenceSlot::compare_with_link(const FenceWord& word) {
  connected_([this, word](bool connected) {
    if (!in_use_ || look_) return;
    if (order_) return look_later(look_again_);
    const bool again = std::exchange(doubted_, connected);
    if (connected && !again) return look_later(look_again_);
    note(word, connected || wrong_);  // only a device that sees the partner run is right again
  });
}

void FenceSlot::note(const FenceWord& word, bool is_wrong) {
  const bool ready = word.done && !is_wrong;
  const bool news = !looked_ || ready != ready_ || is_wrong != wrong_ || word.problem != problem_;
  looked_ = true;
  ready_ = ready;
  wrong_ = is_wrong;
  problem_ = word.problem;
  look_later(ready ? kLookEvery : look_again_);
  if (!news) return;
  if (ready_) return tell_("fence.found", "The fence device of the partner answers.");
  tell_("fence.lost", problem_.empty() ? kWrong : kSilent + problem_);
}

std::string FenceSlot::finding() const {
  if (wrong_) return kWrong;
  if (problem_.empty()) return {};
  return "The partner could not be powered off, and so I/O stops if it fails: " + problem_;
}

void FenceSlot::look_later(engine::Duration delay) {
  reactor_.cancel(timer_);
  timer_ = reactor_.call_after(delay, [this] { watch(); });
}

// ---- the order ----

/// Each order begins a command: whatever `since` is, it is past.
void FenceSlot::power_off(engine::TimePoint, engine::Callback<const replication::FenceEnd&> done) {
  if (last_failure_.empty()) tell_("fence.begun", "The partner is lost: it is being powered off.");
  if (look_) {  // two agents at one device get into one another's way
    std::exchange(look_, nullptr)->call_off();
    look_later(kLookEvery);
  }
  order_ =
      ask("off", kOrderLimit, [this, began = reactor_.now(), done = std::move(done)](const FenceWord& word) mutable {
        order_ = nullptr;
        const bool off = word.done && word.off && !wrong_;  // one that is wrong speaks of another machine
        const std::string why = off                    ? ""
                                : wrong_               ? kWrong
                                : word.problem.empty() ? "It was not seen to be off."
                                                       : word.problem;
        if (off) tell_("fence.succeeded", "The partner was powered off.");
        if (!off && why != last_failure_)
          tell_("fence.failed", "The partner could not be powered off, and it is tried again: " + why);
        last_failure_ = why;
        done({why, began});
      });
}

void FenceSlot::stop() {
  last_failure_.clear();
  if (!order_) return;
  std::exchange(order_, nullptr)->call_off();
  tell_("fence.stopped", "The partner is not to be powered off any more: the command was called off.");
}

}  // namespace lockstep::data_plane
