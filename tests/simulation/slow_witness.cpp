#include "tests/simulation/slow_witness.hpp"

#include <utility>

namespace lockstep::simulation {

using engine::Callback;
using engine::Errc;
using engine::IoResult;
using engine::Uuid;
using replication::SwapOutcome;
using replication::WitnessRecord;
using replication::WitnessView;

namespace {
constexpr Nanos kTimeout = kSecond;  // as the client's
}

void SlowWitness::let_go(std::size_t which) {
  auto one = std::move(held_.at(which));
  held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(which));
  one();
}

template <class Result>
Callback<Result> SlowWitness::held_back(Callback<Result> done) {
  return [this, done = std::move(done)](const Result& result) mutable {
    held_.push_back([done = std::move(done), result]() mutable { done(result); });
  };
}

void SlowWitness::read(const Uuid& volume, Callback<IoResult<WitnessView>> done) {
  if (holds_) {
    return held_.push_back(
        [this, volume, done = std::move(done)]() mutable { witness_.read(volume, held_back(std::move(done))); });
  }
  if (most_ == 0) return witness_.read(volume, std::move(done));
  auto call = std::make_unique<Call>();
  call->volume = volume;
  call->read_done = std::move(done);
  launch(std::move(call));
}

void SlowWitness::swap(const Uuid& volume, const WitnessView& seen, const WitnessRecord& record,
                       Callback<IoResult<SwapOutcome>> done) {
  if (holds_) {
    return held_.push_back([this, volume, seen, record, done = std::move(done)]() mutable {
      witness_.swap(volume, seen, record, held_back(std::move(done)));
    });
  }
  if (most_ == 0) return witness_.swap(volume, seen, record, std::move(done));
  auto call = std::make_unique<Call>();
  call->swaps = true;
  call->volume = volume;
  call->seen = seen;
  call->record = record;
  call->swap_done = std::move(done);
  launch(std::move(call));
}

void SlowWitness::launch(std::unique_ptr<Call> call) {
  const std::uint64_t number = calls_.size();
  calls_.push_back(std::move(call));
  scheduler_.after(random_.below(most_), Owner::world, &SlowWitness::on_arrive, this, number);
  scheduler_.after(kTimeout, owner_, &SlowWitness::on_timeout, this, number);
}

void SlowWitness::on_arrive(void* self, std::uint64_t number) {
  auto& slow = *static_cast<SlowWitness*>(self);
  Call* call = slow.calls_[number].get();
  // Of a process that has ended: what it asked for is done, and nobody sees the answer.
  if (call->swaps && !call->swap_done) return slow.witness_.swap(call->volume, call->seen, call->record, nullptr);
  if (call->swaps) {
    return slow.witness_.swap(call->volume, call->seen, call->record, [call](const auto& result) {
      if (call->swap_done) std::exchange(call->swap_done, nullptr)(result);
    });
  }
  if (!call->read_done) return;
  slow.witness_.read(call->volume, [call](const auto& result) {
    if (call->read_done) std::exchange(call->read_done, nullptr)(result);
  });
}

void SlowWitness::on_timeout(void* self, std::uint64_t number) {
  Call& call = *static_cast<SlowWitness*>(self)->calls_[number];
  if (call.read_done) std::exchange(call.read_done, nullptr)(std::unexpected(make_error_code(Errc::timed_out)));
  if (call.swap_done) std::exchange(call.swap_done, nullptr)(std::unexpected(make_error_code(Errc::unknown_outcome)));
}

void SlowWitness::clear() {
  const auto dropped = std::exchange(held_, {});
  for (const auto& call : calls_) {
    const auto read_dropped = std::move(call->read_done);
    const auto swap_dropped = std::move(call->swap_done);
    call->read_done = nullptr;
    call->swap_done = nullptr;
  }
}

}  // namespace lockstep::simulation
