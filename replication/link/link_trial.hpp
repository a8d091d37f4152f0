#pragma once
// Whether the partner can be reached by a way that is not in use: one connection and one login, both nodes' secrets
// proven, beside the session that stands and without a word to it.
#include <string>

#include "replication/link/iscsi_link.hpp"

namespace lockstep::replication {

/// On the reactor's thread. Destroying it gives the trial up; `done` does not run then.
class LinkTrial final : private LinkEvents {
 public:
  /// `done` runs once, never from in here: empty, or a sentence that says what failed. Only the first way of `settings`
  /// is tried. Takes at most their two timeouts.
  LinkTrial(engine::Reactor& reactor, engine::Random& random, IscsiLinkSettings settings,
            engine::Callback<const std::string&> done);
  ~LinkTrial() override;

 private:
  void on_link_up() override;
  void on_link_down() override;
  void on_inbound_up(std::uint64_t session) override;
  void on_inbound_down(std::uint64_t session) override;
  void on_request(std::uint64_t session, InboundRequest& request) override;
  void end(std::string outcome);

  engine::Reactor& reactor_;
  engine::Callback<const std::string&> done_;
  engine::TimerId end_ = engine::TimerId::none;
  IscsiLink link_;
};

}  // namespace lockstep::replication
