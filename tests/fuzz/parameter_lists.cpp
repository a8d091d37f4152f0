// Parameter lists of commands that are right in all else: PERSISTENT RESERVE OUT, EXTENDED COPY, UNMAP, MODE SELECT.
// Two initiators send them in turn, so that state builds up; each command ends once, and what is refused changes
// nothing.
#include <cstring>

#include "tests/fuzz/input.hpp"
#include "tests/fuzz/scsi_world.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::fuzz;

void put_be(std::uint8_t* at, unsigned width, std::size_t value) {
  for (unsigned i = 0; i < width; ++i) at[i] = static_cast<std::uint8_t>(value >> (8 * (width - 1 - i)));
}

// Where each command has the length of its list.
struct Kind {
  std::uint8_t opcode;
  std::uint8_t length_at, length_width;
};
constexpr Kind kKinds[] = {
    {0x5F, 5, 4},   // PERSISTENT RESERVE OUT
    {0x83, 10, 4},  // EXTENDED COPY
    {0x42, 7, 2},   // UNMAP
    {0x15, 4, 1},   // MODE SELECT(6)
    {0x55, 7, 2},   // MODE SELECT(10)
    {0x93, 10, 4},  // WRITE SAME(16): one block
};

// `detail`: service action and type, PF, UNMAP or NDOB, as the command has them.
void make_cdb(CheckedCommand& command, const Kind& kind, std::uint16_t detail, std::size_t length) {
  auto* const cdb = command.cdb.data();
  cdb[0] = kind.opcode;
  switch (kind.opcode) {
    case 0x5F:
      cdb[1] = detail & 0x1F, cdb[2] = static_cast<std::uint8_t>(detail >> 8);
      break;
    case 0x15:
    case 0x55:
      cdb[1] = 0x10;
      break;
    case 0x93:
      cdb[1] = detail & 0x0B, cdb[9] = static_cast<std::uint8_t>(detail >> 8), length = 1;
      break;
    default:
      break;
  }
  put_be(cdb + kind.length_at, kind.length_width, length);
}

// What the lists have done is read back: it is to be consistent enough for that.
void look(Initiators& initiators, unsigned who, std::uint8_t what) {
  auto command = std::make_unique<CheckedCommand>();
  auto* const cdb = command->cdb.data();
  if (what % 3 == 0) {
    cdb[0] = 0x5E, cdb[1] = (what >> 2) % 4;  // PERSISTENT RESERVE IN
    put_be(cdb + 7, 2, 4096);
  } else if (what % 3 == 1) {
    cdb[0] = 0x84, cdb[1] = (what >> 2) % 5;  // RECEIVE COPY RESULTS
    put_be(cdb + 10, 4, 4096);
  } else {
    cdb[0] = 0x5A, cdb[2] = 0x3F;  // MODE SENSE(10)
    put_be(cdb + 7, 2, 4096);
  }
  command->expected_in = 4096;
  command->nexus = &initiators.nexus(who);
  initiators.start(std::move(command));
  initiators.finish_all();
}

}  // namespace

// Input: {kind and initiator, detail (2), length (2), list} and so on.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  ScsiWorld world({});
  Initiators initiators(world);
  for (int n = 0; n < 32 && !input.empty(); ++n) {
    const std::uint8_t what = input.u8();
    const unsigned who = what >> 7;
    if ((what & 0x7F) == 0x7F) {
      initiators.log_in_anew(who);
      continue;
    }
    if ((what & 0x7F) >= 0x70) {
      look(initiators, who, input.u8());
      continue;
    }
    const Kind& kind = kKinds[(what & 0x7F) % std::size(kKinds)];
    const std::uint16_t detail = input.u16();
    const auto list = input.bytes(input.u16());
    auto command = std::make_unique<CheckedCommand>();
    command->data_out.assign(list.begin(), list.end());
    if (kind.opcode == 0x93) command->data_out.resize(detail & 1 ? 0 : 512);
    command->expected_out = static_cast<std::uint32_t>(command->data_out.size());
    make_cdb(*command, kind, detail, command->data_out.size());
    command->nexus = &initiators.nexus(who);
    const int before = world.changes();
    CheckedCommand& started = initiators.start(std::move(command));
    started.answer_pull();
    world.run_stores();
    assert(!started.was_refused() || world.changes() == before);
    initiators.finish_all();
  }
  return 0;
}
