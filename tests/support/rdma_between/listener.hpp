#pragma once
// Listeners and calls. A listener's socket is on the fabric's own thread, which reads what a caller has to say first;
// then the call is its home's.
#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/rdma_between/host.hpp"
#include "tests/support/rdma_between/packet_socket.hpp"

namespace lockstep::test::between {

/// The thread that listens. Everything but the constructor and ask() is on it.
struct Control {
  explicit Control(const Folder& folder);
  ~Control();
  /// Any thread: carries `work` out on this one, and waits until it is done.
  void ask(engine::Callback<> work);

  engine::Reactor reactor{{.name = "rdma-between", .cpu = -1, .busy_poll = {}}};
  CableWatch cable;
};

class ListenerCore final : public std::enable_shared_from_this<ListenerCore>, private Plugged {
 public:
  ListenerCore(Control& control, engine::Reactor& home, std::string address,
               engine::Callback<std::unique_ptr<rdma::Call>> called);

  void open(Descriptor socket);
  void close();
  [[nodiscard]] const std::string& address() const { return address_; }

  std::atomic<bool> is_closed{false};

 private:
  using Caller = std::unique_ptr<PacketSocket>;

  void cable_changed(Cable now) override;
  void wait();
  void accept_some();
  void take_call(std::list<Caller>::iterator caller);
  void hand_out(std::unique_ptr<rdma::Call> call);

  Control& control_;
  engine::Reactor& home_;
  const std::string address_;
  engine::Callback<std::unique_ptr<rdma::Call>> called_;
  std::unique_ptr<PacketSocket> socket_;
  bool is_waiting_ = false;
  std::list<Caller> callers_;  ///< that have not said who they are
};

class BetweenListener final : public rdma::Listener {
 public:
  BetweenListener(Control& control, std::shared_ptr<ListenerCore> core) : control_(control), core_(std::move(core)) {}
  ~BetweenListener() override;
  [[nodiscard]] const std::string& address() const override { return core_->address(); }

 private:
  Control& control_;
  std::shared_ptr<ListenerCore> core_;
};

class BetweenCall final : public rdma::Call {
 public:
  BetweenCall(Descriptor socket, std::string local, std::string peer, std::uint32_t reads_served,
              std::vector<std::byte> private_data);
  ~BetweenCall() override;
  [[nodiscard]] const std::string& local_address() const override { return local_; }
  [[nodiscard]] const std::string& peer_address() const override { return peer_; }
  [[nodiscard]] std::span<const std::byte> private_data() const override { return private_data_; }
  [[nodiscard]] bool can_invalidate() const override { return true; }
  [[nodiscard]] std::unique_ptr<rdma::QueuePair> accept(rdma::Completions& completions, rdma::Domain domain,
                                                        const rdma::Wanted& wanted,
                                                        std::span<const std::byte> private_data,
                                                        rdma::QueuePairUser& user) override;

 private:
  Descriptor socket_;
  std::string local_, peer_;
  std::uint32_t reads_served_;
  std::vector<std::byte> private_data_;
};

}  // namespace lockstep::test::between
