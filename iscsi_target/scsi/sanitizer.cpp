#include "iscsi_target/scsi/sanitizer.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "iscsi_target/scsi/task.hpp"

namespace lockstep::iscsi_target {

using engine::DiskOpcode;
using engine::Errc;
using Method = scsi::SanitizeState::Method;

namespace {

/// Of what the state does not ask this node for any more: the other node may be at it, or be done with it.
void tell_how_it_stands(Task& task) {
  const scsi::Sense sense = medium_sense(task.unit());
  sense == scsi::Sense{} ? finish(task) : fail(task, sense);
}

bool is_asked_of(const LogicalUnit& unit) {
  const auto state = unit.state();
  return state->sanitize.phase == scsi::SanitizeState::Phase::running &&
         state->sanitize.port == unit.settings().port_group;
}

}  // namespace

void Sanitizer::start(TargetDevice& device, UnitUse& use, SanitizeClaim claim, Task* waiter) {
  if (!is_asked_of(*use.unit)) {
    claim.reset();
    if (waiter) tell_how_it_stands(*waiter);
    return;
  }
  auto* sanitizer = new Sanitizer(device, use, std::move(claim), waiter);
  sanitizer->what_ = use.unit->state()->sanitize;
  sanitizer->run();
}

void Sanitizer::resume(TargetDevice& device, UnitUse& use) {
  if (auto claim = use.unit->claim_sanitizing()) start(device, use, std::move(claim));
}

Sanitizer::Sanitizer(TargetDevice& device, UnitUse& use, SanitizeClaim claim, Task* waiter)
    : device_(device), use_(use), claim_(std::move(claim)), waiter_(waiter) {
  ++use_.in_flight;
  use_.sanitizer = this;
  request_.owner = this;
  request_.done = [](engine::DiskRequest& request) {
    auto& self = *static_cast<Sanitizer*>(request.owner);
    self.is_with_disk_ = false;
    if (self.inside_) {
      self.is_done_ = true;
    } else if (self.take_result()) {
      self.run();
    }
  };
}

/// With INVERT every other pass writes the pattern's inversion, so that the last one writes the pattern
/// (SBC-4 5.30.2.2).
void Sanitizer::fill_pattern(std::uint8_t pass) {
  const bool inverted = what_.invert && (what_.passes - pass) % 2 == 0;
  const auto block = block_.span();
  for (std::size_t i = 0; i < block.size(); ++i) {
    const std::byte b = what_.pattern[i % what_.pattern.size()];
    block[i] = inverted ? ~b : b;
  }
}

/// One request after the other; those that a disk finishes at once don't pile up on the stack.
void Sanitizer::run() {
  while (prepare()) {
    inside_ = is_with_disk_ = true;
    is_done_ = is_stopping_ = false;
    use_.unit->disk().submit(request_);
    inside_ = false;
    if (!is_done_ || !take_result()) return;
  }
}

/// False: it is over, and so is this object.
bool Sanitizer::prepare() {
  const std::uint64_t size = use_.unit->blocks() << use_.unit->block_shift();
  const bool overwrites = what_.method == Method::overwrite;
  if (use_.retired != 0 || !is_asked_of(*use_.unit)) return pause(), false;  // whoever has it next takes it up
  if (waiter_ && is_given_up(*waiter_)) finish(*std::exchange(waiter_, nullptr), scsi::Status::task_aborted);
  if (!has_looked_) {
    request_.opcode = DiskOpcode::check_access;
    return true;
  }
  if (what_.method == Method::cryptographic_erase && !has_new_key_) {
    request_.opcode = DiskOpcode::renew_key;
    request_.extent = {0, size};
    return true;
  }
  if (at_ >= size) {
    at_ = 0;
    if (!overwrites || ++pass_ >= what_.passes) return end(false), false;
    block_.reset();
  }
  const std::uint64_t length = std::min(overwrites ? kOverwritePiece : kErasePiece, size - at_);
  request_.extent = {at_, length};
  request_.may_unmap = use_.unit->info().thin;  // a full volume keeps its space
  request_.fua = at_ + length == size;
  request_.opcode = use_.unit->info().thin ? DiskOpcode::unmap : DiskOpcode::write_zeroes;
  if (overwrites) {
    if (!block_) {
      block_ = device_.buffers().allocate(use_.unit->block_size());
      if (!block_) return rest(), false;
      fill_pattern(pass_);
    }
    request_.opcode = DiskOpcode::write_same;
    request_.data = block_.span().first(use_.unit->block_size());
  }
  const std::uint64_t passes = overwrites ? what_.passes : 1;
  use_.unit->set_sanitize_progress((pass_ * size + at_) / std::max<std::uint64_t>(passes * size >> 16, 1));
  return true;
}

/// Not by a disk's fault: a node that is left, or does not serve for a moment.
bool Sanitizer::is_interrupted() const {
  return std::ranges::any_of(std::array{Errc::not_serving, Errc::aborted, Errc::stale, Errc::unknown_outcome},
                             [this](Errc e) { return request_.status == e; });
}

bool Sanitizer::take_result() {
  if (request_.status == Errc::resource_exhausted) return rest(), false;
  if (is_interrupted()) return pause(), false;
  if (request_.status) return end(true), false;
  if (request_.opcode == DiskOpcode::check_access) return has_looked_ = true;
  if (request_.opcode == DiskOpcode::renew_key) return has_new_key_ = true;
  at_ += request_.extent.length;
  return true;
}

/// Another one may begin.
void Sanitizer::leave_unit() {
  use_.sanitizer = nullptr;
  claim_.reset();
}

/// The state says that it is under way still: the next command takes it up again.
void Sanitizer::pause() {
  const std::unique_ptr<Sanitizer> over(this);
  leave_unit();
  if (waiter_) tell_how_it_stands(*waiter_);
  --use_.in_flight;
  device_.finished(&use_);
}

/// Memory is short, or the piece has waited too long for its turn: it is tried again. Meanwhile this node may be left,
/// and take part again before it has heard what became of the unit: so it looks again, too.
void Sanitizer::rest() {
  has_looked_ = false;
  rest_ = device_.clock().call_after(kRest, [this] {
    rest_ = engine::TimerId::none;
    run();
  });
}

/// Until the state says that it is over, the next command would take it up again, and erase what is written then.
void Sanitizer::end(bool failed) {
  if (use_.retired != 0) return pause();
  const auto kind = failed ? scsi::LuRequestKind::sanitize_failed : scsi::LuRequestKind::sanitize_finished;
  device_.send(use_, use_.unit->request(kind, {}), [this, failed] { tell_end(failed); });
}

void Sanitizer::tell_end(bool failed) {
  const std::unique_ptr<Sanitizer> over(this);
  leave_unit();
  if (waiter_ && failed) {
    fail(*waiter_, {.key = scsi::SenseKey::medium_error, .additional = scsi::asc::kSanitizeCommandFailed});
  } else if (waiter_) {
    finish(*waiter_);
  }
  --use_.in_flight;
  device_.finished(&use_);
}

void Sanitizer::give_up(Task& task) {
  if (waiter_ == &task) finish(*std::exchange(waiter_, nullptr), scsi::Status::task_aborted);
}

void Sanitizer::stop() {
  is_stopping_ = true;
  if (rest_ != engine::TimerId::none) {
    device_.clock().cancel(rest_);
    pause();
  } else if (is_with_disk_) {
    use_.unit->disk().cancel(request_);
  }
}

}  // namespace lockstep::iscsi_target
