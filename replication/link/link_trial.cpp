#include "replication/link/link_trial.hpp"

#include <utility>

namespace lockstep::replication {
namespace {

IscsiLinkSettings of_a_trial(IscsiLinkSettings settings) {
  settings.identity.only_tries = true;
  settings.others.clear();
  settings.rdma = nullptr;
  return settings;
}

}  // namespace

LinkTrial::LinkTrial(engine::Reactor& reactor, engine::Random& random, IscsiLinkSettings settings,
                     engine::Callback<const std::string&> done)
    : reactor_(reactor), done_(std::move(done)), link_(reactor, random, of_a_trial(std::move(settings))) {
  link_.on_problem([this](const std::string& why) { end(why); });
  link_.start(*this);
}

LinkTrial::~LinkTrial() { reactor_.cancel(end_); }

// Whoever is told may destroy this: not from inside the link.
void LinkTrial::end(std::string outcome) {
  if (!done_ || end_ != engine::TimerId::none) return;
  end_ = reactor_.call_after(engine::Duration{0}, [this, outcome = std::move(outcome)] {
    end_ = engine::TimerId::none;
    link_.stop();
    auto done = std::exchange(done_, {});
    done(outcome);
  });
}

void LinkTrial::on_link_up() { end({}); }

void LinkTrial::on_link_down() {}
void LinkTrial::on_inbound_up(std::uint64_t) {}
void LinkTrial::on_inbound_down(std::uint64_t) {}
void LinkTrial::on_request(std::uint64_t, InboundRequest&) {}

}  // namespace lockstep::replication
