#pragma once
// One node's way to the witness, with a reactor of its own; calls wait for their answer.
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/runtime/reactor.hpp"
#include "replication/arbiter/etcd_witness.hpp"

namespace lockstep::tests {

inline const engine::Uuid kPair = *engine::Uuid::parse("00112233-4455-6677-8899-aabbccddeeff");
inline const engine::Uuid kVolume = *engine::Uuid::parse("0f8fad5b-d9cb-469f-a165-70867728950e");

inline replication::WitnessRecord record(std::uint64_t number, engine::MemberSet members) {
  engine::Uuid epoch;
  epoch.bytes[15] = static_cast<std::uint8_t>(number);
  return {number, epoch, members};
}
inline const auto kOnlyA = engine::MemberSet::only(engine::NodeSide::a);
inline const auto kOnlyB = engine::MemberSet::only(engine::NodeSide::b);

class EtcdClient {
  using EtcdProbe = replication::EtcdProbe;
  using EtcdWitness = replication::EtcdWitness;
  using SwapOutcome = replication::SwapOutcome;
  using WitnessRecord = replication::WitnessRecord;
  using WitnessView = replication::WitnessView;

 public:
  explicit EtcdClient(const std::vector<std::string>& urls, const replication::WitnessAccess& access = {}) {
    auto settings = replication::EtcdSettings::create(kPair, urls, access);
    if (!settings) throw std::runtime_error(settings.error().message);
    witness_ = std::make_unique<EtcdWitness>(reactor_, std::move(*settings));
    reactor_.start();
  }
  ~EtcdClient() {
    run<int>([this](auto set) { witness_.reset(), set(0); }).get();
  }

  engine::IoResult<WitnessView> read() {
    return run<engine::IoResult<WitnessView>>([this](auto set) { witness_->read(kVolume, std::move(set)); }).get();
  }
  /// Of several volumes, asked at once.
  std::vector<engine::IoResult<WitnessView>> read_all(const std::vector<engine::Uuid>& volumes) {
    std::vector<std::future<engine::IoResult<WitnessView>>> asked;
    std::vector<std::shared_ptr<std::promise<engine::IoResult<WitnessView>>>> promises;
    for (std::size_t i = 0; i < volumes.size(); ++i) {
      promises.push_back(std::make_shared<std::promise<engine::IoResult<WitnessView>>>());
      asked.push_back(promises.back()->get_future());
    }
    reactor_.post([this, promises, volumes] {
      for (std::size_t i = 0; i < volumes.size(); ++i)
        witness_->read(volumes[i], [promise = promises[i]](auto view) { promise->set_value(std::move(view)); });
    });
    std::vector<engine::IoResult<WitnessView>> views;
    for (auto& one : asked) views.push_back(one.get());
    return views;
  }
  /// Of several volumes, asked at once.
  std::vector<engine::IoResult<SwapOutcome>> swap_all(const std::vector<engine::Uuid>& volumes,
                                                      const std::vector<WitnessView>& seen, const WitnessRecord& to) {
    std::vector<std::future<engine::IoResult<SwapOutcome>>> asked;
    std::vector<std::shared_ptr<std::promise<engine::IoResult<SwapOutcome>>>> promises;
    for (std::size_t i = 0; i < volumes.size(); ++i) {
      promises.push_back(std::make_shared<std::promise<engine::IoResult<SwapOutcome>>>());
      asked.push_back(promises.back()->get_future());
    }
    reactor_.post([this, promises, volumes, seen, to] {
      for (std::size_t i = 0; i < volumes.size(); ++i)
        witness_->swap(volumes[i], seen[i], to,
                       [promise = promises[i]](auto outcome) { promise->set_value(std::move(outcome)); });
    });
    std::vector<engine::IoResult<SwapOutcome>> outcomes;
    for (auto& one : asked) outcomes.push_back(one.get());
    return outcomes;
  }
  std::future<engine::IoResult<SwapOutcome>> start_swap(const WitnessView& seen, const WitnessRecord& to) {
    return run<engine::IoResult<SwapOutcome>>(
        [this, seen, to](auto set) { witness_->swap(kVolume, seen, to, std::move(set)); });
  }
  engine::IoResult<SwapOutcome> swap(const WitnessView& seen, const WitnessRecord& to) {
    return start_swap(seen, to).get();
  }
  std::error_code remove() {
    return run<std::error_code>([this](auto set) { witness_->remove(kVolume, std::move(set)); }).get();
  }
  EtcdProbe probe(engine::Duration patience = {}) {
    return run<EtcdProbe>([this, patience](auto set) { witness_->probe(std::move(set), patience); }).get();
  }
  EtcdProbe try_write() {
    return run<EtcdProbe>([this](auto set) { witness_->try_write(std::move(set)); }).get();
  }
  std::optional<bool> ask_as_nobody() {
    return run<std::optional<bool>>([this](auto set) { witness_->ask_as_nobody(std::move(set)); }).get();
  }
  EtcdWitness& witness() { return *witness_; }

 private:
  template <class T, class Start>
  std::future<T> run(Start start) {
    auto promise = std::make_shared<std::promise<T>>();
    auto future = promise->get_future();
    reactor_.post([promise, start = std::move(start)]() mutable {
      start([promise](T value) { promise->set_value(std::move(value)); });
    });
    return future;
  }
  engine::Reactor reactor_;
  std::unique_ptr<EtcdWitness> witness_;
};

}  // namespace lockstep::tests
