#pragma once
// One connection to the control socket: lines in, answers and events out. Included by the server's .cpp only.
#include <array>
#include <deque>
#include <memory>
#include <string>

#include <boost/asio/local/stream_protocol.hpp>

#include "mgmt/data_plane/control_server.hpp"

namespace lockstep::data_plane {

class ControlClient;

class ControlClientOwner {
 public:
  virtual void on_request(const RpcRequest& request, RpcReply reply) = 0;
  virtual void on_closed(const std::shared_ptr<ControlClient>& client) = 0;

 protected:
  ~ControlClientOwner() = default;
};

class ControlClient : public std::enable_shared_from_this<ControlClient> {
 public:
  ControlClient(boost::asio::local::stream_protocol::socket socket, ControlClientOwner& owner);

  void start();
  /// Says why and closes.
  void refuse(const std::string& why);
  /// Sends the line if this client subscribed; closes the connection if it does not keep up.
  void publish(const std::string& line);
  void close();  ///< the owner is not told
  [[nodiscard]] bool all_sent() const { return pending_ == 0 && queue_.empty(); }

 private:
  void read();
  void take(std::size_t bytes);
  void on_line(std::string_view line);
  void answer(const nlohmann::json& id, const RpcResult& result);
  void send(std::string line);
  void write();
  void drop();  ///< closes and tells the owner

  boost::asio::local::stream_protocol::socket socket_;
  ControlClientOwner& owner_;
  std::array<char, 16384> chunk_;
  std::string line_;
  std::deque<std::string> queue_;
  std::size_t unsent_ = 0;
  std::size_t pending_ = 0;
  bool reading_ = false;
  bool writing_ = false;
  bool subscribed_ = false;
  bool closing_ = false;  ///< nothing more is read; closes when all is sent
  bool closed_ = false;
};

}  // namespace lockstep::data_plane
