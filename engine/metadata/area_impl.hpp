#pragma once
// What a MetadataArea holds once it is open.
#include "engine/metadata/aligned_block.hpp"
#include "engine/metadata/dirty_map.hpp"
#include "engine/metadata/dirty_map_writer.hpp"
#include "engine/metadata/metadata_area.hpp"

namespace lockstep::engine {

constexpr std::size_t kMapChunk = 256;  ///< map blocks read or written at a time: 1 MiB

/// What was read back or laid out.
struct AreaState {
  VolumeIdentity identity;
  layout::Key key;
  ReplicaRecord record;
  std::uint64_t superblock_generation = 0;
  std::uint64_t record_generation = 0;
  std::uint64_t map_generation = 0;
  std::vector<std::byte> lu_state;  ///< empty: none was ever written
  std::uint64_t lu_state_generation = 0;
};

/// Where the state's slots begin; nothing when the store has no room for them.
[[nodiscard]] std::optional<std::uint64_t> state_at(const Store& store, const VolumeIdentity& identity);

/// One write of the epoch record's two slots.
struct RecordWrite {
  ReplicaRecord record;
  bool epoch = false;  ///< somebody asked for its epoch
  std::vector<IoCallback> done;
};

struct MetadataArea::Impl {
  Impl(Store& s, AreaState state_in, DirtyMap map_in)
      : store(s),
        state(std::move(state_in)),
        map(std::move(map_in)),
        writer(store, map, state.key, state.map_generation) {}

  [[nodiscard]] const ReplicaRecord& newest_record() const;
  [[nodiscard]] bool may_follow(const ReplicaRecord& next) const;
  void write_record(ReplicaRecord record, bool epoch, IoCallback done);
  void rewrite_record(IoCallback done);
  void start_record_write();
  void write_record_slot(std::uint64_t slot);
  void end_record_write(std::error_code error);
  void write_state_slot(std::uint64_t slot);
  void start_state_write();
  void state_written();  ///< a grow may have waited for it

  Store& store;
  AreaState state;
  DirtyMap map;
  DirtyMapWriter writer;

  layout::Blocks record_block{1};
  std::optional<RecordWrite> record_writing, record_waiting;
  bool record_lost = false;

  std::unique_ptr<layout::Blocks> state_slot;  // made with the first write
  std::vector<std::byte> next_state;
  IoCallback state_done;  // set while a state is being written
  bool state_lost = false;

  struct Grower;                   // area_grow.cpp
  std::shared_ptr<Grower> grower;  // set while the area grows
  bool state_moving = false;       // the state stands in two places: writing it waits
  void go_on_growing(std::error_code key_written);
  bool grow_lost = false;  // which superblock counts is not known: neither growing nor another key is possible

  void start_key_write();  // area_key.cpp
  void write_key_slot(std::uint64_t slot);
  void end_key_write(std::error_code error);
  SealedKey next_key;
  IoCallback key_done;       // set while a key is to be written
  bool key_writing = false;  // … and is: a grow waits
  layout::Blocks key_block{1};
};

/// Makes a MetadataArea for those who read or lay one out.
struct AreaMaker {
  static std::unique_ptr<MetadataArea> make(Store& store, AreaState state, DirtyMap map);
};

}  // namespace lockstep::engine
