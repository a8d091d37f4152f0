// A raw iSCSI initiator for measuring targets: one connection, one thread, a fixed queue depth, reads that are checked.
// It shares no code with the product, so that what it measures is never measured by itself. Blocks in poll() or spins.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <arpa/inet.h>
#include <endian.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;
using Bytes = std::vector<std::uint8_t>;

struct Options {
  std::string address = "127.0.0.1";
  std::uint16_t port = 3260;
  std::string target;
  unsigned lun = 0;
  std::uint64_t span_mib = 256;  // how much of the disk is used
  unsigned block = 4096;         // bytes a command moves
  unsigned depth = 1;
  double seconds = 3;
  bool write = false;
  bool sequential = false;
  bool spin = false;
  bool fill = false;
  std::vector<int> pids;  // whose CPU time is charged to the I/O
};

[[noreturn]] void die(const std::string& what) {
  fmt::print(stderr, "bench_initiator: {}\n", what);
  std::exit(1);
}

void put16(std::uint8_t* p, std::uint16_t v) {
  v = htobe16(v);
  std::memcpy(p, &v, 2);
}
void put32(std::uint8_t* p, std::uint32_t v) {
  v = htobe32(v);
  std::memcpy(p, &v, 4);
}
void put64(std::uint8_t* p, std::uint64_t v) {
  v = htobe64(v);
  std::memcpy(p, &v, 8);
}
std::uint32_t get32(const std::uint8_t* p) {
  std::uint32_t v;
  std::memcpy(&v, p, 4);
  return be32toh(v);
}
std::uint32_t get24(const std::uint8_t* p) { return std::uint32_t{p[0]} << 16 | std::uint32_t{p[1]} << 8 | p[2]; }
void put24(std::uint8_t* p, std::uint32_t v) {
  p[0] = v >> 16;
  p[1] = v >> 8;
  p[2] = v;
}

/// User and system time of the given processes, in clock ticks as the kernel counts them.
double cpu_seconds(const std::vector<int>& pids) {
  double total = 0;
  for (int pid : pids) {
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    std::string line;
    std::getline(file, line);
    const auto close = line.rfind(')');
    if (close == std::string::npos) die(fmt::format("no process {}", pid));
    std::istringstream fields(line.substr(close + 2));
    std::string skip;
    for (int i = 0; i < 11; ++i) fields >> skip;
    double user = 0, system = 0;
    fields >> user >> system;
    total += (user + system) / double(sysconf(_SC_CLK_TCK));
  }
  return total;
}

class Wire {
 public:
  Wire(const Options& o) : spin_(o.spin) {
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(o.port);
    if (::inet_pton(AF_INET, o.address.c_str(), &to.sin_addr) != 1) die("not an IPv4 address: " + o.address);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0)
      die(fmt::format("cannot connect to {}:{}: {}", o.address, o.port, std::strerror(errno)));
    int one = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    in_.resize(4 << 20);
  }
  ~Wire() { ::close(fd_); }

  Bytes& out() { return out_; }

  void flush() {
    std::size_t sent = 0;
    while (sent < out_.size()) {
      const auto n = ::send(fd_, out_.data() + sent, out_.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) die(fmt::format("send: {}", std::strerror(errno)));
      sent += std::size_t(n);
    }
    out_.clear();
  }

  /// Waits for at least one byte more than there is.
  void receive() {
    if (begin_ > 0) {
      std::memmove(in_.data(), in_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    for (;;) {
      const auto n = ::recv(fd_, in_.data() + end_, in_.size() - end_, spin_ ? MSG_DONTWAIT : 0);
      if (n > 0) {
        end_ += std::size_t(n);
        return;
      }
      if (n == 0) die("the target closed the connection");
      if (errno != EAGAIN && errno != EINTR) die(fmt::format("recv: {}", std::strerror(errno)));
    }
  }

  /// The next whole PDU (header, then data), or nullptr when there is none yet. Valid until receive().
  const std::uint8_t* next(std::uint32_t& data_length) {
    if (end_ - begin_ < 48) return nullptr;
    const std::uint8_t* p = in_.data() + begin_;
    data_length = get24(p + 5);
    const std::size_t whole = 48 + p[4] * 4u + ((data_length + 3) & ~3u);
    if (whole > in_.size()) die("a PDU larger than any that was asked for");
    if (end_ - begin_ < whole) return nullptr;
    begin_ += whole;
    return p;
  }

 private:
  int fd_;
  bool spin_;
  Bytes in_, out_;
  std::size_t begin_ = 0, end_ = 0;
};

struct Slot {
  std::uint64_t lba = 0;
  Clock::time_point began;
  std::uint32_t received = 0;
  Bytes data;
};

class Bench {
 public:
  explicit Bench(const Options& o) : o_(o), wire_(o), slots_(o.depth) {
    for (auto& slot : slots_) slot.data.resize(o.block);
    blocks_ = (o.span_mib << 20) / o.block;
    login();
    read_capacity();
  }

  void fill() {  // every block gets the stamp that reads will look for
    run(blocks_, 1e9, true, true);
  }

  void measure() {
    const double cpu_before = cpu_seconds(o_.pids);
    const auto began = Clock::now();
    run(~0ull, o_.seconds, o_.write, o_.sequential);
    const double elapsed = std::chrono::duration<double>(Clock::now() - began).count();
    const double cpu = cpu_seconds(o_.pids) - cpu_before;
    std::sort(latencies_.begin(), latencies_.end());
    const auto at = [&](double q) {
      return latencies_.empty() ? 0.0 : latencies_[std::size_t(q * double(latencies_.size() - 1))] / 1e3;
    };
    const double n = double(latencies_.size());
    fmt::print(
        "{{\"ios\": {}, \"iops\": {:.0f}, \"mib_s\": {:.1f}, \"p50_us\": {:.1f}, \"p99_us\": {:.1f}, "
        "\"max_us\": {:.1f}, \"cpu_us_per_io\": {:.2f}}}\n",
        latencies_.size(), n / elapsed, n * o_.block / elapsed / 1048576, at(0.5), at(0.99), at(1), cpu * 1e6 / n);
  }

 private:
  void login() {
    std::string text = std::string("InitiatorName=iqn.2026-11.io.lockstep:bench") + '\0' + "TargetName=" + o_.target +
                       '\0' + "SessionType=Normal" + '\0' + "HeaderDigest=None" + '\0' + "DataDigest=None" + '\0' +
                       "MaxRecvDataSegmentLength=1048576" + '\0' + "InitialR2T=No" + '\0' + "ImmediateData=Yes" + '\0' +
                       "FirstBurstLength=262144" + '\0' + "MaxBurstLength=1048576" + '\0' + "MaxOutstandingR2T=1" +
                       '\0' + "MaxConnections=1" + '\0' + "ErrorRecoveryLevel=0" + '\0';
    std::array<std::uint8_t, 48> h{};
    h[0] = 0x43;
    h[1] = 0x87;  // transit, operational negotiation to full feature phase
    put24(&h[5], std::uint32_t(text.size()));
    h[8] = 0x80;  // a random ISID
    put32(&h[9], std::uint32_t(getpid()) << 8);
    emit(h.data(), reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
    wire_.flush();
    std::uint32_t length = 0;
    const auto* p = wait(length);
    if ((p[0] & 0x3f) != 0x23 || p[36] != 0) die(fmt::format("login refused: status {:02x}{:02x}", p[36], p[37]));
    if ((p[1] & 0x83) != 0x83) die("the target wants more login steps than this client knows");
    exp_stat_sn_ = get32(p + 24) + 1;
    max_cmd_sn_ = get32(p + 32);
    parse_keys(std::string(reinterpret_cast<const char*>(p + 48), length));
    cmd_sn_ = 0;
  }

  void parse_keys(const std::string& text) {
    for (std::size_t at = 0; at < text.size();) {
      const std::string pair = text.c_str() + at;
      at += pair.size() + 1;
      const auto eq = pair.find('=');
      if (eq == std::string::npos) continue;
      const auto key = pair.substr(0, eq), value = pair.substr(eq + 1);
      if (key == "MaxRecvDataSegmentLength") max_send_ = std::uint32_t(std::stoul(value));
      if (key == "FirstBurstLength") first_burst_ = std::uint32_t(std::stoul(value));
      if (key == "ImmediateData") immediate_ = value == "Yes";
    }
  }

  const std::uint8_t* wait(std::uint32_t& length) {
    const std::uint8_t* p;
    while ((p = wire_.next(length)) == nullptr) wire_.receive();
    return p;
  }

  void emit(const std::uint8_t* header, const std::uint8_t* data, std::size_t size) {
    auto& out = wire_.out();
    out.insert(out.end(), header, header + 48);
    out.insert(out.end(), data, data + size);
    while (out.size() % 4) out.push_back(0);
  }

  void read_capacity() {
    for (int attempt = 0;; ++attempt) {  // the first command of a nexus may meet a unit attention
      std::array<std::uint8_t, 48> h{};
      h[0] = 0x01;
      h[1] = 0xc1;
      put16(&h[8], std::uint16_t(o_.lun));
      put32(&h[20], 32);
      put32(&h[24], cmd_sn_++);
      put32(&h[28], exp_stat_sn_);
      h[32] = 0x9e;
      h[33] = 0x10;
      put32(&h[42], 32);
      emit(h.data(), nullptr, 0);
      wire_.flush();
      bool got = false, done = false, good = false;
      while (!done) {
        std::uint32_t length = 0;
        const auto* p = wait(length);
        note(p);
        if ((p[0] & 0x3f) == 0x25) {
          sector_ = get32(p + 48 + 8);
          got = true;
          done = p[1] & 1;
          good = done && p[3] == 0;
        }
        if ((p[0] & 0x3f) == 0x21) {
          done = true;
          good = p[3] == 0;
        }
      }
      if (got && good) return;
      if (attempt == 8) die("READ CAPACITY(16) fails");
    }
  }

  void note(const std::uint8_t* p) {
    const auto op = p[0] & 0x3f;
    if (op == 0x21 || (op == 0x25 && (p[1] & 1))) exp_stat_sn_ = get32(p + 24) + 1;
    max_cmd_sn_ = get32(p + 32);
  }

  /// What stands at byte `offset` of the disk, whatever the size of the writes that put it there.
  static std::uint64_t stamp_at(std::uint64_t offset) { return offset * 1000003 + 1; }

  void stamp(std::uint8_t* data, std::uint64_t block) const {
    for (unsigned i = 0; i < o_.block; i += 512) put64(data + i, stamp_at(block * o_.block + i));
  }
  void check(const std::uint8_t* data, std::uint64_t block, std::uint32_t offset, std::uint32_t length) const {
    for (std::uint32_t i = (offset + 511) / 512 * 512; i + 8 <= offset + length; i += 512) {
      std::uint8_t want[8];
      put64(want, stamp_at(block * o_.block + i));
      if (std::memcmp(want, data + (i - offset), 8) != 0) die(fmt::format("block {}: wrong data at byte {}", block, i));
    }
  }

  void start(unsigned tag, std::uint64_t block, bool write) {
    auto& slot = slots_[tag];
    slot.lba = block;
    slot.received = 0;
    slot.began = Clock::now();
    std::array<std::uint8_t, 48> h{};
    h[0] = 0x01;
    put16(&h[8], std::uint16_t(o_.lun));
    put32(&h[16], tag);
    put32(&h[20], o_.block);
    put32(&h[24], cmd_sn_++);
    put32(&h[28], exp_stat_sn_);
    h[32] = write ? 0x8a : 0x88;
    put64(&h[34], block * (o_.block / sector_));
    put32(&h[42], o_.block / sector_);
    if (!write) {
      h[1] = 0xc1;
      emit(h.data(), nullptr, 0);
      return;
    }
    stamp(slot.data.data(), block);
    const auto immediate = immediate_ ? std::min({o_.block, max_send_, first_burst_}) : 0;
    h[1] = 0xa1;
    put24(&h[5], immediate);
    emit(h.data(), slot.data.data(), immediate);
  }

  void data_out(const std::uint8_t* r2t) {
    const auto tag = get32(r2t + 16);
    auto offset = get32(r2t + 40), left = get32(r2t + 44);
    for (std::uint32_t sn = 0; left > 0; ++sn) {
      const auto size = std::min(left, max_send_);
      std::array<std::uint8_t, 48> h{};
      h[0] = 0x05;
      h[1] = size == left ? 0x80 : 0;
      put24(&h[5], size);
      std::memcpy(&h[8], r2t + 8, 8);
      put32(&h[16], tag);
      std::memcpy(&h[20], r2t + 20, 4);
      put32(&h[28], exp_stat_sn_);
      put32(&h[36], sn);
      put32(&h[40], offset);
      emit(h.data(), slots_.at(tag).data.data() + offset, size);
      offset += size;
      left -= size;
    }
  }

  /// Handles one PDU; true and `tag` when it ends a command.
  bool handle(const std::uint8_t* p, std::uint32_t length, bool check_data, std::uint32_t& tag) {
    note(p);
    tag = get32(p + 16);
    switch (p[0] & 0x3f) {
      case 0x25: {
        auto& slot = slots_.at(tag);
        if (check_data) check(p + 48, slot.lba, get32(p + 40), length);
        slot.received += length;
        if (!(p[1] & 1)) return false;
        if (p[3] != 0 || slot.received != o_.block) die("a read ended short or in error");
        return true;
      }
      case 0x21:
        if (p[2] == 0 && (p[3] == 0x08 || is_unit_attention(p, length))) {  // BUSY a node says that has just started
          const auto began = slots_.at(tag).began;
          start(tag, slots_.at(tag).lba, !check_data);
          slots_[tag].began = began;
          return false;
        }
        if (p[2] != 0 || p[3] != 0)
          die(fmt::format("response {:02x} status {:02x} sense {:02x}", p[2], p[3], length > 4 ? p[52] : 0));
        return true;
      case 0x31:
        data_out(p);
        return false;
      case 0x20:  // NOP-In: answered if the target asks
        if (get32(p + 20) != 0xffffffff) pong(p);
        return false;
      default:
        die(fmt::format("an unexpected PDU, opcode {:02x}", p[0]));
    }
  }

  static bool is_unit_attention(const std::uint8_t* response, std::uint32_t length) {
    return response[3] == 0x02 && length > 4 && (response[52] & 0x0f) == 0x06;
  }

  void pong(const std::uint8_t* p) {
    std::array<std::uint8_t, 48> h{};
    h[0] = 0x40;
    h[1] = 0x80;
    std::memcpy(&h[8], p + 8, 8);
    put32(&h[16], 0xffffffff);
    std::memcpy(&h[20], p + 20, 4);
    put32(&h[24], cmd_sn_);
    put32(&h[28], exp_stat_sn_);
    emit(h.data(), nullptr, 0);
  }

  void run(std::uint64_t count, double seconds, bool write, bool sequential) {
    latencies_.clear();
    std::uint64_t issued = 0, inflight = 0, state = 0x9e3779b97f4a7c15ull;
    const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
    const auto choose = [&] {
      if (sequential) return issued % blocks_;
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      return state % blocks_;
    };
    bool over = false;
    std::vector<std::uint32_t> idle;
    for (unsigned tag = 0; tag < o_.depth; ++tag) idle.push_back(tag);
    for (;;) {
      while (!over && !idle.empty() && issued < count && std::int32_t(max_cmd_sn_ - cmd_sn_) >= 0) {
        start(idle.back(), choose(), write);
        idle.pop_back();
        ++issued;
        ++inflight;
      }
      if (inflight == 0) return;
      wire_.flush();
      wire_.receive();
      std::uint32_t length = 0, tag = 0;
      while (const auto* p = wire_.next(length)) {
        if (!handle(p, length, !write, tag)) continue;
        latencies_.push_back(std::uint32_t(std::chrono::nanoseconds(Clock::now() - slots_[tag].began).count()));
        idle.push_back(tag);
        --inflight;
      }
      over = over || Clock::now() >= deadline || issued >= count;
    }
  }

  Options o_;
  Wire wire_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> latencies_;
  std::uint64_t blocks_ = 0;
  std::uint32_t sector_ = 512, cmd_sn_ = 0, exp_stat_sn_ = 0, max_cmd_sn_ = 0;
  std::uint32_t max_send_ = 8192, first_burst_ = 65536;
  bool immediate_ = true;
};

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app{"A raw iSCSI initiator that measures one target"};
  app.add_option("--address", o.address);
  app.add_option("--port", o.port);
  app.add_option("--target", o.target)->required();
  app.add_option("--lun", o.lun);
  app.add_option("--span-mib", o.span_mib, "how much of the disk is used");
  app.add_option("--block", o.block, "bytes a command moves");
  app.add_option("--depth", o.depth);
  app.add_option("--seconds", o.seconds);
  app.add_flag("--write", o.write);
  app.add_flag("--sequential", o.sequential);
  app.add_flag("--spin", o.spin, "spin on the socket instead of sleeping");
  app.add_flag("--fill", o.fill, "write every block once, so that reads can be checked; measures nothing");
  app.add_option("--pid", o.pids, "processes whose CPU time is charged to the I/O");
  CLI11_PARSE(app, argc, argv);
  Bench bench(o);
  if (o.fill)
    bench.fill();
  else
    bench.measure();
}
