#include "mgmt/data_plane/control_client.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

namespace lockstep::data_plane {

namespace asio = boost::asio;
using nlohmann::json;

ControlClient::ControlClient(asio::local::stream_protocol::socket socket, ControlClientOwner& owner)
    : socket_(std::move(socket)), owner_(owner) {}

void ControlClient::start() { read(); }

void ControlClient::refuse(const std::string& why) {
  closing_ = true;
  answer(nullptr, std::unexpected(RpcError{RpcCode::failed, why, engine::Errc::resource_exhausted, {}}));
}

void ControlClient::publish(const std::string& line) {
  if (subscribed_) send(line);
}

void ControlClient::close() {
  closed_ = true;
  boost::system::error_code ignored;
  socket_.close(ignored);
}

void ControlClient::drop() {
  if (closed_) return;
  const auto self = shared_from_this();
  close();
  owner_.on_closed(self);
}

void ControlClient::read() {
  if (reading_ || closing_ || closed_ || pending_ >= ControlServer::kMaxPending) return;
  reading_ = true;
  socket_.async_read_some(asio::buffer(chunk_),
                          [self = shared_from_this()](boost::system::error_code e, std::size_t bytes) {
                            if (self->closed_) return;
                            if (e) return self->drop();
                            self->take(bytes);
                            self->reading_ = false;  // only now: reading may fill the chunk at once
                            self->read();
                          });
}

void ControlClient::take(std::size_t bytes) {
  std::string_view rest(chunk_.data(), bytes);
  while (!rest.empty() && !closed_ && !closing_) {
    const auto newline = rest.find('\n');
    line_.append(rest.substr(0, newline));
    if (line_.size() > ControlServer::kMaxLine) {
      return refuse("A line is at most " + std::to_string(ControlServer::kMaxLine) + " bytes long.");
    }
    if (newline == std::string_view::npos) return;
    rest.remove_prefix(newline + 1);
    const std::string line = std::exchange(line_, {});
    if (line.find_first_not_of(" \t\r") != std::string::npos) on_line(line);
  }
}

void ControlClient::on_line(std::string_view line) {
  auto request = parse_request(line);
  if (!request) return answer(request.error().id, std::unexpected(request.error().error));
  if (request->method == "events.subscribe") {
    answer(request->id, json::object());
    subscribed_ = true;
    return;
  }
  ++pending_;
  owner_.on_request(*request, [self = shared_from_this(), id = request->id](RpcResult result) {
    --self->pending_;
    self->answer(id, result);
    self->read();
  });
}

void ControlClient::answer(const json& id, const RpcResult& result) { send(answer_line(id, result)); }

void ControlClient::send(std::string line) {
  if (closed_) return;
  unsent_ += line.size();
  if (unsent_ > ControlServer::kMaxUnsent) return drop();
  queue_.push_back(std::move(line));
  write();
}

void ControlClient::write() {
  if (writing_ || closed_) return;
  if (queue_.empty()) {
    if (closing_) drop();
    return;
  }
  writing_ = true;
  asio::async_write(socket_, asio::buffer(queue_.front()),
                    [self = shared_from_this()](boost::system::error_code e, std::size_t) {
                      self->writing_ = false;
                      if (self->closed_) return;
                      if (e) return self->drop();
                      self->unsent_ -= self->queue_.front().size();
                      self->queue_.pop_front();
                      self->write();
                    });
}

}  // namespace lockstep::data_plane
