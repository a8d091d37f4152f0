#include "engine/scsi/lu_holder.hpp"

#include <algorithm>

namespace lockstep::scsi {
namespace {

std::error_code give(engine::DiskRequest& request, std::span<const std::byte> bytes) {
  if (bytes.size() > request.data.size()) return engine::Errc::resource_exhausted;
  std::ranges::copy(bytes, request.data.begin());
  request.transferred = bytes.size();
  return {};
}

}  // namespace

void LuStateHolder::listen(std::shared_ptr<LuStateListener> listener) {
  listener_ = std::move(listener);
  if (listener_) listener_->on_state(state_, {});
}

engine::Result<LuOutcome> LuStateHolder::step(const engine::DiskRequest& request) const {
  const auto decoded = LuRequest::decode(request.data);
  if (!decoded) return std::unexpected(decoded.error());
  return apply(state_, *decoded);
}

void LuStateHolder::install(LuOutcome outcome) {
  state_ = std::move(outcome.next);
  restricted_ = state_.restricted();
  if (listener_) listener_->on_state(state_, outcome.events);
}

std::error_code LuStateHolder::answer(engine::DiskRequest& request, const LuAnswer& answer) {
  return give(request, answer.encode());
}

std::error_code LuStateHolder::read(engine::DiskRequest& request) const { return give(request, state_.encode()); }

}  // namespace lockstep::scsi
