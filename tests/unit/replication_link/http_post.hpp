#pragma once
// One POST on a connection of its own, with a deadline over all of it.
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "replication/arbiter/http_connection.hpp"
#include "replication/arbiter/tls_client.hpp"

namespace lockstep::tests {

inline void http_post(engine::Reactor& reactor, const replication::HttpEndpoint& endpoint, std::string_view path,
                      std::string body, std::string token, std::shared_ptr<replication::TlsClient> tls,
                      engine::Duration deadline, replication::HttpCallback done) {
  struct Post {
    std::shared_ptr<replication::HttpConnection> connection;
    replication::HttpCallback done;
  };
  const auto post = std::make_shared<Post>(Post{nullptr, std::move(done)});
  post->connection = replication::HttpConnection::open(
      reactor, endpoint, std::move(tls), deadline,
      [post, path, body = std::move(body), token = std::move(token)](const replication::HttpFailure* failure) {
        if (failure) return post->done(std::unexpected(*failure));
        post->connection->post(path, body, token,
                               [post](std::expected<replication::HttpReply, replication::HttpFailure> outcome) {
                                 const auto connection = std::exchange(post->connection, nullptr);
                                 connection->close();
                                 post->done(std::move(outcome));
                               });
      });
}

}  // namespace lockstep::tests
