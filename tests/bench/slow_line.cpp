// A line to the witness that is long and loses packets, for thousands of connections: a TCP relay on the loopback, as
// tests/e2e/slow_line.py is for one pair, and by the same rules. What is sent arrives later; a lost packet holds up
// what follows until it is sent again, as TCP does; connections break now and then, and some are refused.
//
// It prints its port, and when standard input ends what came to pass, as JSON.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <deque>
#include <memory>
#include <random>
#include <string>

#include <CLI/CLI.hpp>
#include <boost/asio.hpp>
#include <fmt/format.h>

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::size_t kSegment = 1400;  ///< bytes of a packet

Clock::duration ticks(double seconds) { return std::chrono::duration_cast<Clock::duration>(Seconds(seconds)); }

struct Line {
  unsigned short to = 0;
  double delay = 1.5;     ///< of one direction
  double loss = 0.2;      ///< of a packet, and of a handshake's
  double breaks = 0.01;   ///< of a connection, with a packet
  double refuses = 0.05;  ///< of a connection
  std::size_t connections = 0, refused = 0, broken = 0, lost = 0;
  std::mt19937_64 random{1};

  bool happens(double chance) { return std::uniform_real_distribution<>(0, 1)(random) < chance; }
  /// Until a packet got through that is sent again after `wait` seconds, then after twice that, ...
  Clock::duration held_up(double wait) {
    double total = 0;
    for (; happens(loss); wait *= 2) {
      ++lost;
      total += wait;
    }
    return ticks(total);
  }
};

/// As a broken connection looks.
void reset(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(asio::socket_base::linger(true, 0), ignored);
  socket.close(ignored);
}

struct Packet {
  Clock::time_point at;
  std::string data;  ///< empty: nothing more comes
};

/// Lives as long as something of it is under way.
class Connection : public std::enable_shared_from_this<Connection> {
  /// `then(self, …)` runs if there was no error, and else the connection is broken.
  template <class Then>
  auto unless_broken(Then then) {
    return [self = shared_from_this(), then](error_code error, auto... rest) {
      if (self->over_) return;
      if (error) return self->end();
      then(*self, rest...);
    };
  }

 public:
  Connection(Line& line, tcp::socket client)
      : line_(line), client_(std::move(client)), server_(client_.get_executor()), timer_(client_.get_executor()) {}

  void begin() {
    ++line_.connections;
    if (line_.happens(line_.refuses)) {
      ++line_.refused;
      return reset(client_);
    }
    // The client's kernel takes the connection for made at once: what it sends waits for the handshake here.
    begins_ = Clock::now() + 2 * ticks(line_.delay) + line_.held_up(1.0);
    timer_.expires_at(begins_ - ticks(line_.delay));
    timer_.async_wait(unless_broken([](Connection& self) { self.connect(); }));
  }

 private:
  /// In order: what is held up holds up what follows.
  struct Direction {
    tcp::socket &from, &onto;
    asio::steady_timer due{from.get_executor()};
    std::deque<Packet> on_the_way{};
    Clock::time_point last{};
    std::array<char, kSegment> memory{};
  };

  void end() {
    over_ = true;
    timer_.cancel();
    for (auto* way : {&there_, &back_}) way->due.cancel();
    reset(client_);
    reset(server_);
  }

  void connect() {
    server_.async_connect({asio::ip::address_v4::loopback(), line_.to}, unless_broken([](Connection& self) {
                            for (auto* way : {&self.there_, &self.back_}) self.receive(*way);
                          }));
  }
  void receive(Direction& way) {
    way.from.async_read_some(asio::buffer(way.memory),
                             [self = shared_from_this(), &way](error_code error, std::size_t count) {
                               if (self->over_) return;
                               if (error && error != asio::error::eof) return self->end();
                               self->on_packet(way, count);
                             });
  }
  void on_packet(Direction& way, std::size_t count) {
    if (count > 0 && line_.happens(line_.breaks)) {
      ++line_.broken;
      timer_.expires_after(ticks(line_.delay));
      return timer_.async_wait(unless_broken([](Connection& self) { self.end(); }));
    }
    const auto sent = std::max(Clock::now(), begins_);
    way.last = std::max(way.last, sent + ticks(line_.delay) + line_.held_up(2.2 * line_.delay));
    way.on_the_way.push_back({way.last, std::string(way.memory.data(), count)});
    if (way.on_the_way.size() == 1) deliver(way);
    if (count > 0) receive(way);
  }
  void deliver(Direction& way) {
    way.due.expires_at(way.on_the_way.front().at);
    way.due.async_wait(unless_broken([&way](Connection& self) { self.write(way); }));
  }
  void write(Direction& way) {
    const std::string& data = way.on_the_way.front().data;
    if (data.empty()) {
      error_code ignored;
      way.onto.shutdown(tcp::socket::shutdown_send, ignored);
      return ++ended_ == 2 ? end() : void();
    }
    asio::async_write(way.onto, asio::buffer(data), unless_broken([&way](Connection& self, std::size_t) {
                        way.on_the_way.pop_front();
                        if (!way.on_the_way.empty()) self.deliver(way);
                      }));
  }

  Line& line_;
  tcp::socket client_, server_;
  Direction there_{client_, server_}, back_{server_, client_};
  asio::steady_timer timer_;  ///< until it begins, and until it breaks
  Clock::time_point begins_{};
  unsigned ended_ = 0;  ///< directions
  bool over_ = false;
};

void serve(Line& line, tcp::acceptor& acceptor) {
  acceptor.async_accept([&](error_code error, tcp::socket client) {
    if (!error) std::make_shared<Connection>(line, std::move(client))->begin();
    serve(line, acceptor);
  });
}

}  // namespace

int main(int argc, char** argv) {
  Line line;
  unsigned seed = 1;
  unsigned short port = 0;
  CLI::App app{"A long line that loses packets"};
  app.add_option("--to", line.to, "A port of 127.0.0.1")->required();
  app.add_option("--port", port, "Its own, that several may share; 0: any that is free");
  app.add_option("--delay", line.delay, "Seconds, of one direction");
  app.add_option("--loss", line.loss, "A chance, of a packet");
  app.add_option("--breaks", line.breaks, "A chance, of a connection with each packet");
  app.add_option("--refuses", line.refuses, "A chance, of a connection");
  app.add_option("--seed", seed);
  CLI11_PARSE(app, argc, argv);
  line.random.seed(seed);
  asio::io_context context(1);
  tcp::acceptor acceptor(context, tcp::v4());
  acceptor.set_option(asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>(true));
  acceptor.bind({asio::ip::address_v4::loopback(), port});
  acceptor.listen(4096);
  serve(line, acceptor);
  asio::posix::stream_descriptor input(context, STDIN_FILENO);
  std::array<char, 1> memory;
  asio::async_read(input, asio::buffer(memory), [&](error_code, std::size_t) { context.stop(); });
  fmt::print("{}\n", acceptor.local_endpoint().port());
  std::fflush(stdout);
  context.run();
  fmt::print(R"({{"connections": {}, "refused": {}, "broken": {}, "lost": {}}})"
             "\n",
             line.connections, line.refused, line.broken, line.lost);
  std::fflush(stdout);
  std::_Exit(0);  // thousands of connections are not worth their ends
}
