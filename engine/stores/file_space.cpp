#include "engine/stores/file_space.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace lockstep::engine {

IoResult<StoreRun> seek_run(int descriptor, std::uint64_t at, std::uint64_t end, std::uint64_t block) {
  const auto seek = [&](int whence) { return ::lseek(descriptor, static_cast<off_t>(at), whence); };
  const off_t data = seek(SEEK_DATA);
  if (data < 0 && errno != ENXIO) {
    if (errno == EINVAL || errno == EOPNOTSUPP) return StoreRun{end - at, false};
    return std::unexpected(make_error_code(Errc::io_error));
  }
  const std::uint64_t first = data < 0 ? end : std::min(static_cast<std::uint64_t>(data), end);
  if (const std::uint64_t whole = (first - at) / block * block; whole != 0) return StoreRun{whole, true};
  const off_t hole = seek(SEEK_HOLE);
  std::uint64_t length = hole < 0 ? end - at : std::min(static_cast<std::uint64_t>(hole), end) - at;
  length = (length + block - 1) / block * block;
  return StoreRun{std::clamp(length, block, end - at), false};
}

namespace {

/// Bytes of the extent that have no blocks yet, whether written or only set aside; none when the file system can't
/// tell.
std::uint64_t missing_blocks(int descriptor, Extent extent) {
  constexpr unsigned kExtents = 64;
  alignas(fiemap) std::array<std::byte, sizeof(fiemap) + kExtents * sizeof(fiemap_extent)> memory;
  std::uint64_t missing = extent.length;
  for (std::uint64_t at = extent.offset; at < extent.end();) {
    memory.fill(std::byte{0});
    auto& map = *reinterpret_cast<fiemap*>(memory.data());
    map.fm_start = at;
    map.fm_length = extent.end() - at;
    map.fm_extent_count = kExtents;
    if (::ioctl(descriptor, FS_IOC_FIEMAP, &map) != 0) return 0;
    if (map.fm_mapped_extents == 0) break;
    for (unsigned i = 0; i < map.fm_mapped_extents; ++i) {
      const fiemap_extent& found = map.fm_extents[i];
      const std::uint64_t from = std::max<std::uint64_t>(found.fe_logical, at);
      const std::uint64_t to = std::min<std::uint64_t>(found.fe_logical + found.fe_length, extent.end());
      if (from < to) missing -= to - from;
      at = std::max(at, to);
      if (found.fe_flags & FIEMAP_EXTENT_LAST) return missing;
    }
  }
  return missing;
}

/// XFS counts below zero, which reads as no end of space, while somebody is refused what is not there.
std::optional<std::uint64_t> free_bytes_of(int descriptor) {
  struct statvfs space {};
  if (::fstatvfs(descriptor, &space) != 0) return {};
  if (space.f_bavail > space.f_blocks) return 0;
  return std::uint64_t{space.f_bavail} * space.f_frsize;
}

}  // namespace

bool has_room_for(int descriptor, Extent extent) {
  const auto free_bytes = free_bytes_of(descriptor);
  if (!free_bytes) return true;
  return *free_bytes >= extent.length || *free_bytes >= missing_blocks(descriptor, extent);
}

bool zeroing_needs_room(int descriptor) {
  struct statfs found {};
  return ::fstatfs(descriptor, &found) == 0 && found.f_type == XFS_SUPER_MAGIC;
}

/// As much again is for whoever writes meanwhile, and for the file system's own.
bool has_room_to_zero(int descriptor, std::uint64_t bytes) {
  constexpr std::uint64_t kAnyhow = std::uint64_t{64} << 20;
  const auto free_bytes = free_bytes_of(descriptor);
  return free_bytes && *free_bytes >= 2 * bytes + kAnyhow;
}

}  // namespace lockstep::engine
