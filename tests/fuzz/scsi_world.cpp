#include "tests/fuzz/scsi_world.hpp"

#include <cstring>
#include <utility>

namespace lockstep::fuzz {
namespace {

const std::string kInitiatorNames[] = {"iqn.2026-11.io.lockstep:one", "iqn.2026-11.io.lockstep:two"};

engine::Uuid volume_id(std::uint8_t number) {
  engine::Uuid id;
  for (std::size_t i = 0; i < 16; ++i) id.bytes[i] = static_cast<std::uint8_t>(i * 7);
  id.bytes[15] = number;
  return id;
}

engine::DiskInfo info_of(std::uint8_t number, WorldShape shape) {
  engine::DiskInfo info;
  info.id = volume_id(number);
  info.name = "vm" + std::to_string(number);
  info.serial = "SERIAL" + std::to_string(number);
  info.size = ScsiWorld::kSize;
  info.block_size = shape.blocks_of_4k ? 4096 : 512;
  info.thin = shape.thin;
  info.read_only = shape.read_only;
  info.removable = shape.removable;
  info.encrypted = shape.encrypted;
  info.persistent_state = true;
  return info;
}

/// The same in every run, until an input has it replaced.
engine::VolumeKey first_key() {
  engine::VolumeKey key;
  for (std::size_t i = 0; i < 64; ++i) key.bytes.span()[i] = static_cast<std::byte>(i);
  return key;
}

/// The third volume is the first initiator's alone.
class Access final : public iscsi_target::AccessView {
 public:
  [[nodiscard]] bool may_access(const engine::Uuid& volume, std::string_view initiator) const override {
    return volume != volume_id(2) || initiator == kInitiatorNames[0];
  }
};

}  // namespace

engine::BufferPool& buffers() {
  static engine::BufferPool pool(std::size_t{24} << 20);
  return pool;
}

ScsiWorld::Volume::Volume(ScsiWorld& world, std::uint8_t number, WorldShape shape)
    : store(kSize),
      cipher(store, buffers(), first_key(), {}),
      disk(shape.encrypted ? static_cast<engine::Store&>(cipher) : store, buffers(), info_of(number, shape)),
      unit(std::make_shared<iscsi_target::LogicalUnit>(
          disk, iscsi_target::UnitSettings{.target_name = "iqn.2026-11.io.lockstep:fuzz"})) {
  store.fail = [&world](char, engine::Extent) { return std::exchange(world.fail_next_, false); };
}

ScsiWorld::ScsiWorld(WorldShape shape) : device(buffers(), clock_) {
  const WorldShape shapes[] = {shape, {}, {}};
  std::vector<iscsi_target::LunEntry> entries;
  for (std::uint8_t i = 0; i < 3; ++i) {
    volumes_.push_back(std::make_unique<Volume>(*this, i, shapes[i]));
    entries.push_back({i, volumes_.back()->unit});
  }
  auto map = iscsi_target::LunMap::make(std::move(entries), std::make_shared<Access>());
  assert(map);
  device.adopt(*std::move(map), {});
}

ScsiWorld::~ScsiWorld() {
  run_stores();
  assert(buffers().in_use() == 0);
}

void ScsiWorld::run_stores() {
  clock_.run_for(std::chrono::seconds(1));
  bool moved = true;
  while (std::exchange(moved, false)) {
    for (const auto& volume : volumes_) {
      if (volume->store.waiting() == 0) continue;
      volume->store.run();
      moved = true;
    }
  }
}

void ScsiWorld::step_store() {
  for (const auto& volume : volumes_) {
    if (volume->store.waiting() != 0) return volume->store.step();
  }
}

int ScsiWorld::changes() const {
  int sum = 0;
  for (const auto& volume : volumes_) sum += volume->store.counts.writes;
  return sum;
}

void CheckedCommand::pull(std::span<std::byte> into, engine::IoCallback done) {
  assert(!was_pulled_ && completions == 0 && into.size() <= expected_out);
  was_pulled_ = true;
  into_ = into;
  pulled_ = std::move(done);
}

bool CheckedCommand::answer_pull() {
  if (!pulled_) return false;
  if (!pull_error) {
    const std::size_t there = std::min(into_.size(), data_out.size());
    if (there != 0) std::memcpy(into_.data(), data_out.data(), there);
    std::memset(into_.data() + there, 0, into_.size() - there);
  }
  std::exchange(pulled_, nullptr)(pull_error);
  return true;
}

void CheckedCommand::complete(std::span<const std::byte> data_in, engine::Buffer buffer) {
  assert(completions == 0 && !pulled_);
  ++completions;
  assert(sense_length <= scsi::kMaxSense);
  assert((status == scsi::Status::check_condition) == (sense_length != 0));
  assert(data_in.size() + data_prefix.size() <= expected_in);
  assert(data_prefix.size() <= scsi::kMaxDataPrefix);
  if (!buffer && !data_released) assert(data_in.size() <= 4096);
  // Every byte is there to be sent: ASan looks at them.
  volatile unsigned sum = 0;
  for (const std::byte b : data_in) sum = sum + static_cast<unsigned>(b);
  if (sense_length != 0) assert(scsi::parse_sense(std::span(sense).first(sense_length)));
  if (data_released) std::exchange(data_released, nullptr)();
}

bool CheckedCommand::was_refused() const {
  if (status != scsi::Status::check_condition) return false;
  const auto parsed = scsi::parse_sense(std::span(sense).first(sense_length));
  return parsed && parsed->key == scsi::SenseKey::illegal_request;
}

Initiators::Initiators(ScsiWorld& world) : world_(world) {
  for (std::size_t i = 0; i < nexuses_.size(); ++i) {
    nexuses_[i].id = i + 1;
    nexuses_[i].initiator_name = kInitiatorNames[i];
    nexuses_[i].isid = {0x80, 0, 0, 0, 0, static_cast<std::uint8_t>(i)};
    nexuses_[i].target_name = "iqn.2026-11.io.lockstep:fuzz";
    nexuses_[i].target_portal_group = 1;
    world_.device.on_nexus_opened(nexuses_[i]);
  }
}

Initiators::~Initiators() {
  finish_all();
  for (auto& open : nexuses_) world_.device.on_nexus_closed(open);
}

void Initiators::log_in_anew(unsigned which) {
  finish_all();
  world_.device.on_nexus_closed(nexus(which));
  nexus(which).id += nexuses_.size();
  nexus(which).device_state = nullptr;
  world_.device.on_nexus_opened(nexus(which));
}

CheckedCommand& Initiators::start(std::unique_ptr<CheckedCommand> command) {
  CheckedCommand& started = *command;
  running_.push_back(std::move(command));
  world_.device.execute(started);
  return started;
}

void Initiators::finish_all() {
  for (bool moved = true; std::exchange(moved, false);) {
    for (const auto& command : running_) moved |= command->answer_pull();
    world_.run_stores();
  }
  for (const auto& command : running_) assert(command->completions == 1);
  running_.clear();
}

}  // namespace lockstep::fuzz
