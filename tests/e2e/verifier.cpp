// An initiator that writes stamped blocks through one of several portals, goes over to the next when a path fails, and
// checks every block that it reads against what it was told was written. With --all-paths it uses all portals at once,
// as a host's multipath does. It is to the mirror what a careful virtual machine would be, and it shares no code with
// it: libiscsi does the talking.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

extern "C" {
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
}

namespace {

constexpr std::size_t kBlock = 4096;
constexpr int kWrong = 1, kUnable = 2;  // exit codes: what was found, and that nothing could be
using Clock = std::chrono::steady_clock;
using BlockData = std::array<std::uint8_t, kBlock>;

volatile sig_atomic_t g_stop = 0;

struct Options {
  std::vector<std::string> portals;
  std::string target, chap, initiator = "iqn.2026-11.io.lockstep:verifier";
  int lun = 0;
  unsigned span_mib = 64, depth = 8, read_percent = 30;
  bool all_paths = false;
  bool may_fail = false;
  double rate = 0;     // operations a second; 0: as many as there is time for
  double seconds = 0;  // 0: until told to stop
  std::string log, resume, verify, check_file;
};

/// What one block is known to hold. A version is acknowledged once and for all; there is at most one operation on a
/// block at any time, so what a read must find is known exactly.
struct BlockState {
  std::uint32_t acked = 0;  ///< 0: never written
  bool busy = false;
};

void fill(BlockData& data, std::uint64_t block, std::uint32_t version) {
  if (version == 0) {
    data.fill(0);
    return;
  }
  std::uint64_t x = block * 0x9e3779b97f4a7c15ull + version;
  for (std::size_t i = 0; i < kBlock; i += 8) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    std::memcpy(&data[i], &x, 8);
  }
  std::memcpy(&data[0], &block, 8);
  std::memcpy(&data[8], &version, 4);
}

/// What multipath hands to whoever wrote or read, since another path could say nothing else. A logical unit that is not
/// there is not there over that path.
bool is_final(const scsi_sense& sense) {
  if (sense.key == SCSI_SENSE_ILLEGAL_REQUEST) return sense.ascq != SCSI_SENSE_ASCQ_LOGICAL_UNIT_NOT_SUPPORTED;
  return sense.key == SCSI_SENSE_MEDIUM_ERROR || sense.key == SCSI_SENSE_HARDWARE_ERROR;
}

std::string describe(const std::uint8_t* data) {
  if (std::all_of(data, data + kBlock, [](auto b) { return b == 0; })) return "zeros";
  std::uint64_t block;
  std::uint32_t version;
  std::memcpy(&block, data, 8);
  std::memcpy(&version, data + 8, 4);
  return fmt::format("a block that calls itself {} version {}", block, version);
}

class Path;

struct Operation {
  std::uint64_t block = 0;
  std::uint32_t version = 0;  ///< what is written, or what a read must find
  bool write = false;
  bool active = false;
  Path* path = nullptr;  ///< it was sent there and not answered yet
  Clock::time_point chosen_at, sent_at;
  BlockData data{};
  class Verifier* owner = nullptr;
};

/// One login to one portal at a time; the next portal's turn comes when it fails.
class Path {
 public:
  Path(const Options& options, std::vector<std::string> portals) : options_(options), portals_(std::move(portals)) {}
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;
  ~Path() { drop(); }

  bool is_up() const { return stage_ == Stage::up; }
  const std::string& portal() const { return portals_[index_]; }
  iscsi_context* context() { return context_; }

  /// Why it has to be dropped, nothing while it need not.
  const char* trouble = nullptr;

  void drop() {
    if (!context_) return;
    stage_ = Stage::down;
    auto* gone = std::exchange(context_, nullptr);
    iscsi_destroy_context(gone);  // calls back every task as cancelled
    index_ = (index_ + 1) % portals_.size();
    next_login_ = Clock::now() + std::chrono::milliseconds(50);  // nobody answers: a breath between attempts
    trouble = nullptr;
  }

  /// Begins to log in when it is time for that.
  void advance() {
    if (stage_ == Stage::logging_in && Clock::now() - login_began_ > std::chrono::seconds(3))
      trouble = "no login in 3 s";
    if (stage_ != Stage::down || Clock::now() < next_login_) return;
    auto* c = context_ = iscsi_create_context(options_.initiator.c_str());
    iscsi_set_targetname(c, options_.target.c_str());
    iscsi_set_session_type(c, ISCSI_SESSION_NORMAL);
    iscsi_set_header_digest(c, ISCSI_HEADER_DIGEST_NONE_CRC32C);
    iscsi_set_noautoreconnect(c, 1);
    iscsi_set_timeout(c, 3);
    if (const auto at = options_.chap.find('%'); at != std::string::npos)
      iscsi_set_initiator_username_pwd(c, options_.chap.substr(0, at).c_str(), options_.chap.substr(at + 1).c_str());
    stage_ = Stage::logging_in;
    login_began_ = Clock::now();
    if (iscsi_full_connect_async(c, portal().c_str(), options_.lun, &Path::logged_in, this) != 0)
      trouble = "no connection can be begun";
  }

 private:
  enum class Stage { down, logging_in, up };

  static void logged_in(iscsi_context*, int status, void*, void* private_data) {
    auto& self = *static_cast<Path*>(private_data);
    if (self.stage_ != Stage::logging_in) return;
    if (status == SCSI_STATUS_GOOD)
      self.stage_ = Stage::up;
    else
      self.trouble = "no login";
  }

  const Options& options_;
  std::vector<std::string> portals_;
  iscsi_context* context_ = nullptr;
  Stage stage_ = Stage::down;
  std::size_t index_ = 0;
  Clock::time_point login_began_, next_login_;
};

class Verifier {
 public:
  explicit Verifier(const Options& o)
      : options_(o), blocks_(std::size_t{o.span_mib} * 1024 * 1024 / kBlock), operations_(o.depth) {
    for (auto& op : operations_) op.owner = this;
    if (!o.all_paths) paths_.emplace_back(o, o.portals);
    for (const auto& portal : o.portals)
      if (o.all_paths) paths_.emplace_back(o, std::vector{portal});
  }

  int run() {
    if (!options_.resume.empty() && !read_log(options_.resume)) return kUnable;
    began_ = last_ack_ = last_status_ = next_due_ = Clock::now();
    while (!over()) {
      // Not before the first login: that it takes its time is no operation's.
      started_ |= std::ranges::any_of(paths_, &Path::is_up);
      if (started_ && !g_stop && !deadline_passed()) choose();
      submit();
      service();
      status();
      if (wrong_ > 0 || failed_ > 0) break;
    }
    status(true);
    const bool logged = options_.log.empty() || write_log();
    if (wrong_ > 0 || failed_ > 0) return kWrong;
    return logged ? 0 : kUnable;
  }

  /// Reads every block of a log back and compares.
  int verify(const std::string& log) {
    if (!read_log(log)) return kUnable;
    verifying_ = true;
    began_ = last_ack_ = last_status_ = Clock::now();
    while (next_to_verify_ < blocks_.size() || active_ > 0) {
      if (Clock::now() - last_ack_ > std::chrono::seconds(30)) {
        fmt::print(stderr, "verifier: no portal answers: {}\n", last_path_error_);
        return kUnable;
      }
      choose();
      submit();
      service();
      if (wrong_ > 0 || failed_ > 0) return kWrong;
    }
    fmt::print("{{\"verified\": {}, \"wrong\": {}}}\n", reads_, wrong_);
    return 0;
  }

  int check_file(const std::string& log, const std::string& file) {
    if (!read_log(log)) return kUnable;
    std::ifstream in(file, std::ios::binary);
    BlockData have, want;
    std::uint64_t checked = 0;
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
      if (blocks_[block].acked == 0) continue;
      in.seekg(std::streamoff(block * kBlock));
      if (!in.read(reinterpret_cast<char*>(have.data()), kBlock)) {
        fmt::print(stderr, "verifier: {} cannot be read at block {}\n", file, block);
        return 1;
      }
      fill(want, block, blocks_[block].acked);
      ++checked;
      if (have != want && ++wrong_ < 10)
        fmt::print(stderr, "verifier: {}: block {} should be version {}, holds {}\n", file, block, blocks_[block].acked,
                   describe(have.data()));
    }
    fmt::print("{{\"checked\": {}, \"wrong\": {}}}\n", checked, wrong_);
    return wrong_ > 0 ? 1 : 0;
  }

 private:
  bool deadline_passed() const {
    return options_.seconds > 0 && Clock::now() - began_ > std::chrono::duration<double>(options_.seconds);
  }
  bool over() const { return (g_stop || deadline_passed()) && active_ == 0; }

  /// Gives every idle operation a block that no other holds.
  void choose() {
    for (auto& op : operations_) {
      if (op.active) continue;
      if (!is_due()) return;
      if (verifying_) {
        while (next_to_verify_ < blocks_.size() && blocks_[next_to_verify_].acked == 0) ++next_to_verify_;
        if (next_to_verify_ == blocks_.size()) return;
        op.block = next_to_verify_++;
      } else {
        do op.block = random_() % blocks_.size();
        while (blocks_[op.block].busy);
      }
      auto& state = blocks_[op.block];
      op.write = !verifying_ && random_() % 100 >= options_.read_percent;
      op.version = op.write ? state.acked + 1 : state.acked;
      if (op.write) fill(op.data, op.block, op.version);
      op.active = state.busy = true;
      op.chosen_at = Clock::now();
      ++active_;
    }
  }

  /// What was missed is made up for as far as every operation can be under way, and no further.
  bool is_due() {
    if (options_.rate <= 0) return true;
    const auto now = Clock::now();
    const auto interval = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 / options_.rate));
    if (now < next_due_) return false;
    next_due_ = std::max(next_due_ + interval, now - interval * int(options_.depth));
    return true;
  }

  /// An operation's own path in turn, or any that is there.
  Path* path_for(const Operation& op) {
    const std::size_t own = std::size_t(&op - &operations_.front()) % paths_.size();
    for (std::size_t i = 0; i < paths_.size(); ++i)
      if (auto& path = paths_[(own + i) % paths_.size()]; path.is_up() && !path.trouble) return &path;
    return nullptr;
  }

  void submit() {
    for (auto& op : operations_) {
      if (!op.active || op.path) continue;
      Path* path = path_for(op);
      if (!path) return;
      const auto lba = op.block * (kBlock / 512);
      auto* task = op.write ? iscsi_write16_task(path->context(), options_.lun, lba, op.data.data(), kBlock, 512, 0, 0,
                                                 0, 0, 0, &Verifier::completed, &op)
                            : iscsi_read16_task(path->context(), options_.lun, lba, kBlock, 512, 0, 0, 0, 0, 0,
                                                &Verifier::completed, &op);
      if (!task) {
        path->trouble = "no task could be queued";
        continue;
      }
      op.path = path;
      op.sent_at = Clock::now();
    }
  }

  /// Waits for what any path has to say, and hears it.
  void service() {
    for (auto& path : paths_) path.advance();
    std::vector<pollfd> polled;
    for (auto& path : paths_)
      polled.push_back({path.context() ? iscsi_get_fd(path.context()) : -1,
                        short(path.context() ? iscsi_which_events(path.context()) : 0), 0});
    wait(polled);
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      auto& path = paths_[i];
      if (path.context() && !path.trouble && iscsi_service(path.context(), polled[i].revents) < 0)
        path.trouble = "the connection broke";
      for (const auto& op : operations_)
        if (op.path == &path && Clock::now() - op.sent_at > std::chrono::seconds(5)) path.trouble = "no answer in 5 s";
      if (path.trouble) fail(path);
    }
  }

  /// At most 20 ms, and not beyond the time when the next operation is due.
  void wait(std::vector<pollfd>& polled) const {
    auto longest = Clock::duration(std::chrono::milliseconds(20));
    if (options_.rate > 0 && active_ < operations_.size())
      longest = std::clamp(Clock::duration(next_due_ - Clock::now()), Clock::duration::zero(), longest);
    const timespec timeout{0, std::chrono::duration_cast<std::chrono::nanoseconds>(longest).count()};
    ::ppoll(polled.data(), polled.size(), &timeout, nullptr);
  }

  void fail(Path& path) {
    last_path_error_ = fmt::format("{}: {}", path.portal(), path.trouble);
    if (path.is_up()) ++path_failures_;
    path.drop();
    // libiscsi calls no task back once it has logged out, as it does by itself when a target asks it to.
    for (auto& op : operations_)
      if (op.path == &path) op.path = nullptr;
  }

  static void completed(iscsi_context*, int status, void* command, void* private_data) {
    auto& op = *static_cast<Operation*>(private_data);
    auto* task = static_cast<scsi_task*>(command);
    op.owner->complete(op, status, task);
    if (task) scsi_free_scsi_task(task);
  }

  void complete(Operation& op, int status, scsi_task* task) {
    Path* path = std::exchange(op.path, nullptr);
    if (status == SCSI_STATUS_BUSY || status == SCSI_STATUS_TASK_SET_FULL) {  // the same path, again
      ++busy_;
      return;
    }
    if (status != SCSI_STATUS_GOOD) {
      if (status == SCSI_STATUS_CHECK_CONDITION && task->sense.key == SCSI_SENSE_UNIT_ATTENTION) return;
      if (status != SCSI_STATUS_CANCELLED) {
        path->trouble = "a command failed";
        last_sense_ = status == SCSI_STATUS_CHECK_CONDITION
                          ? fmt::format("sense {}/{:04x}", int(task->sense.key), task->sense.ascq)
                          : fmt::format("status {:#x}", status);
      }
      if (status == SCSI_STATUS_CHECK_CONDITION && is_final(task->sense) && !options_.may_fail) {
        ++failed_;
        fmt::print(stderr, "verifier: block {} failed through {}: {}\n", op.block, path->portal(), last_sense_);
      }
      return;
    }
    const auto now = Clock::now();
    longest_gap_ = std::max(longest_gap_, now - last_ack_);
    last_ack_ = now;
    took_us_.push_back(
        std::uint32_t(std::chrono::duration_cast<std::chrono::microseconds>(now - op.chosen_at).count()));
    auto& state = blocks_[op.block];
    if (op.write) {
      state.acked = op.version;
      ++writes_;
    } else {
      ++reads_;
      BlockData want;
      fill(want, op.block, op.version);
      if (task->datain.size != int(kBlock) || std::memcmp(task->datain.data, want.data(), kBlock) != 0) {
        ++wrong_;
        fmt::print(stderr, "verifier: block {} read through {} should be version {}, holds {}\n", op.block,
                   path->portal(), op.version,
                   task->datain.size == int(kBlock) ? describe(task->datain.data) : "too few bytes");
      }
    }
    state.busy = op.active = false;
    --active_;
  }

  /// One line of JSON; gap_ms is the longest time without an answer since the line before, one that still lasts
  /// included.
  void status(bool last = false) {
    const auto now = Clock::now();
    if (!last && now - last_status_ < std::chrono::milliseconds(200)) return;
    last_status_ = now;
    const auto gap = active_ > 0 ? std::max(longest_gap_, now - last_ack_) : longest_gap_;
    worst_gap_ = std::max(worst_gap_, gap);
    longest_gap_ = {};
    const auto ms = [](auto d) { return std::chrono::duration_cast<std::chrono::milliseconds>(d).count(); };
    fmt::print(
        "{{\"ms\": {}, \"writes\": {}, \"reads\": {}, \"wrong\": {}, \"portal\": \"{}\", \"paths\": {}, "
        "\"path_failures\": {}, \"gap_ms\": {}, \"worst_gap_ms\": {}, "
        "\"last_sense\": \"{}\", \"busy\": {}, \"last_path_error\": \"{}\", \"last\": {}{}}}\n",
        ms(now - began_), writes_, reads_, wrong_, paths_.front().portal(), std::ranges::count_if(paths_, &Path::is_up),
        path_failures_, ms(gap), ms(worst_gap_), last_sense_, busy_, last_path_error_, last, last ? latencies() : "");
    std::fflush(stdout);
  }

  /// From when an operation was due to be sent to its answer, in microseconds.
  std::string latencies() {
    if (took_us_.empty()) return {};
    std::ranges::sort(took_us_);
    const auto at = [this](std::size_t percent) { return took_us_[(took_us_.size() - 1) * percent / 100]; };
    return fmt::format(", \"p50_us\": {}, \"p99_us\": {}, \"longest_us\": {}", at(50), at(99), at(100));
  }

  bool write_log() {
    std::ofstream out(options_.log);
    out << "span_mib " << options_.span_mib << '\n';
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      if (blocks_[i].acked) out << i << ' ' << blocks_[i].acked << '\n';
    out.flush();
    if (!out) fmt::print(stderr, "verifier: cannot write {}\n", options_.log);
    return bool(out);
  }

  bool read_log(const std::string& file) {
    std::ifstream in(file);
    std::string word;
    unsigned span = 0;
    if (!(in >> word >> span) || word != "span_mib") {
      fmt::print(stderr, "verifier: {} is not a log of this program's\n", file);
      return false;
    }
    blocks_.assign(std::size_t{span} * 1024 * 1024 / kBlock, {});
    for (std::uint64_t block, version; in >> block >> version;) blocks_.at(block).acked = std::uint32_t(version);
    return true;
  }

  const Options& options_;
  std::vector<BlockState> blocks_;
  std::vector<Operation> operations_;
  std::deque<Path> paths_;  // gone before what they call back
  std::mt19937_64 random_{std::random_device{}()};
  Clock::time_point began_, last_ack_, last_status_, next_due_;
  Clock::duration longest_gap_{}, worst_gap_{};
  std::uint64_t writes_ = 0, reads_ = 0, wrong_ = 0, failed_ = 0, path_failures_ = 0, busy_ = 0;
  std::vector<std::uint32_t> took_us_;
  std::size_t active_ = 0, next_to_verify_ = 0;
  bool verifying_ = false, started_ = false;
  std::string last_sense_, last_path_error_;
};

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app{"Writes stamped blocks through any of several portals and checks what it reads"};
  app.add_option("--portal", o.portals, "address:port, in order of preference");
  app.add_option("--target", o.target);
  app.add_option("--lun", o.lun);
  app.add_option("--initiator", o.initiator);
  app.add_option("--chap", o.chap, "user%secret");
  app.add_option("--span-mib", o.span_mib);
  app.add_flag("--all-paths", o.all_paths, "use every portal at once, not the next one when one fails");
  app.add_flag("--may-fail", o.may_fail,
               "an error of the medium, the hardware or the request is a lost path, not the end");
  app.add_option("--rate", o.rate, "operations a second at the most");
  app.add_option("--depth", o.depth)->check(CLI::Range(1, 256));
  app.add_option("--read-percent", o.read_percent)->check(CLI::Range(0, 100));
  app.add_option("--seconds", o.seconds, "0: until SIGTERM or SIGINT");
  app.add_option("--log", o.log, "where to write what was acknowledged");
  app.add_option("--resume", o.resume, "a log of what the volume holds already");
  app.add_option("--verify", o.verify, "read back everything in this log");
  app.add_option("--check-file", o.check_file, "with --verify: check this raw data file, not a portal");
  CLI11_PARSE(app, argc, argv);
  struct sigaction action {};
  action.sa_handler = [](int) { g_stop = 1; };
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  Verifier verifier(o);
  if (!o.check_file.empty()) return verifier.check_file(o.verify, o.check_file);
  if (o.portals.empty() || o.target.empty()) {
    fmt::print(stderr, "verifier: --portal and --target are needed\n");
    return 2;
  }
  return o.verify.empty() ? verifier.run() : verifier.verify(o.verify);
}
