// Commands that wait for memory, and those that hold some without moving its data while others wait.
#include <cassert>
#include <utility>

#include "iscsi_target/session/session.hpp"

namespace lockstep::iscsi_target {

namespace {

// What must move between two looks: half a megabit a second.
constexpr std::uint64_t kLeastBetweenLooks = std::uint64_t{32} << 10;
constexpr std::uint32_t kLooksForData = kTransferPatience / DataBuffers::kLook;
constexpr std::uint32_t kLooksForTaking = kTakingPatience / DataBuffers::kLook;

}  // namespace

// It waits for memory, or asks for more than there may ever be and is answered as the device server would.
void Session::put_off(SessionCommand& command) {
  if (command.claim.state == FairShare::Claim::State::waiting) {
    command.is_waiting = command.has_waited = true;
    ++waiting_;
    return link_.want_send();  // what has left may have memory for it, and is awaited now
  }
  drop_stash(command);
  command.status = scsi::Status::busy;
  command.is_completed = true;
  if (!command.expects_data() && !command.is_arriving) make_ready(command);
}

void Session::buffer_ready(FairShare::Claim& claim, engine::Buffer buffer) {
  SessionCommand& command = SessionCommand::of(claim);
  assert(command.is_waiting);
  // Nothing begins on a connection that is over; what waits for its end is ended with it.
  if (link_.is_over()) {
    buffer.reset();
    return stop_waiting(command);
  }
  command.is_waiting = false;
  --waiting_;
  command.data_buffer = std::move(buffer);
  execute(command);
}

void Session::give_back_memory(SessionCommand& command) {
  if (command.claim.state != FairShare::Claim::State::idle) resources_.data_buffers->give_back(command.claim);
}

void Session::stop_waiting(SessionCommand& command) {
  command.is_waiting = false;
  --waiting_;
  give_back_memory(command);
}

// It waited for memory: the device server never saw it.
void Session::fail_unexecuted(SessionCommand& command, scsi::Status status) {
  stop_waiting(command);
  drop_stash(command);
  command.is_broken = true;
  command.broken_status = status;
  command.unsolicited_open = false;
  command.is_completed = true;
  if (!command.is_arriving) make_ready(command);
}

void Session::look(bool is_in_the_way) {
  if (link_.is_over()) return;
  end_stalled_transfers(is_in_the_way);
  if (waiting_ != 0) ask_whether_it_is_there();
  const std::uint64_t taken = link_.taken() - std::exchange(taken_before_, link_.taken());
  const bool takes_all = std::exchange(all_before_, link_.taken_all()) != link_.taken_all();
  const bool takes_little = is_in_the_way && link_.has_unsent() && taken < kLeastBetweenLooks && !takes_all;
  untaken_looks_ = takes_little ? untaken_looks_ + 1 : 0;
  if (untaken_looks_ < kLooksForTaking) return;
  link_.drop("The initiator takes no answers while others wait for the memory that they are in.");
}

// The data of one command may have to wait for that of the commands before it: nothing is stalled while any comes.
void Session::end_stalled_transfers(bool is_in_the_way) {
  const std::uint64_t came = data_out_ - std::exchange(data_out_before_, data_out_);
  const bool is_stalled = is_in_the_way && came < kLeastBetweenLooks;
  for (std::size_t i = 0; i < slots_.capacity() && !ended_; ++i) {
    SessionCommand* const command = slots_.at(i);
    if (command == nullptr) continue;
    const bool is_read = command->reads_under_way != 0;
    const bool holds_and_waits =
        command->pull_wanted && !command->is_deferred && (command->expects_data() || is_read || command->awaits_host);
    command->stalled_looks = is_stalled && holds_and_waits ? command->stalled_looks + 1 : 0;
    if (command->stalled_looks < kLooksForData) continue;
    // What is read can't be called back.
    if (is_read) return link_.drop("The initiator's memory can't be read while others wait for what it is read to.");
    // Nothing was done of what lacks data, and what goes in steps may begin anew. QEMU's initiator, which may have
    // stood still, repeats what finds the unit busy, and takes an aborted command for the last word.
    break_command(*command, scsi::Status::busy);
  }
}

}  // namespace lockstep::iscsi_target
