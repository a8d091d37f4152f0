#include "mgmt/control/found_replicas.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <expected>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/metadata/aligned_block.hpp"
#include "engine/metadata/slots.hpp"
#include "mgmt/control/desired_state.hpp"
#include "mgmt/control/validation.hpp"

namespace lockstep::mgmt {
namespace {

namespace layout = engine::layout;
using engine::NodeSide;
using engine::Uuid;

constexpr std::size_t kUuid = 36;          // characters
constexpr std::size_t kHead = 4;           // blocks: both slots of the superblock and of the epoch record
constexpr std::int64_t kMostCopies = 1e9;  // more were never made of one volume

/// "UUID" is a first copy, "UUID.2" a second one.
std::optional<FoundReplica> named(std::string_view stem) {
  FoundReplica found;
  const auto volume = Uuid::parse(stem.substr(0, kUuid));
  if (!volume || !stem.starts_with(volume->to_string())) return std::nullopt;
  found.volume = *volume;
  if (stem.size() == kUuid) return found;
  const std::string_view number = stem.substr(kUuid + 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), found.copy);
  const bool whole = error == std::errc() && end == number.data() + number.size() && number.front() != '0';
  if (stem[kUuid] != '.' || !whole || found.copy < 2 || found.copy > kMostCopies) return std::nullopt;
  return found;
}

/// The length of a regular file; nothing where there is none.
std::optional<std::int64_t> length_of(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(path, error))) return std::nullopt;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) return std::nullopt;
  return static_cast<std::int64_t>(bytes);
}

ReplicaFiles files_of(const std::filesystem::path& folder, const FoundReplica& found) {
  return replica_files(folder, found.volume, Copy{found.copy, "", false});
}

struct Closed {
  int file = -1;
  explicit Closed(int f) : file(f) {}
  Closed(const Closed&) = delete;
  Closed& operator=(const Closed&) = delete;
  ~Closed() {
    if (file >= 0) ::close(file);
  }
};

/// Fills `head` from the file's beginning; otherwise a sentence that says why it could not.
std::expected<void, std::string> read_head(const std::string& path, layout::Blocks& head) {
  const Closed opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (opened.file < 0) return std::unexpected(fmt::format("{} can't be opened: {}.", path, std::strerror(errno)));
  struct stat info {};
  if (::fstat(opened.file, &info) != 0 || !S_ISREG(info.st_mode))
    return std::unexpected(fmt::format("{} is not a file that Lockstep made.", path));
  std::size_t done = 0;
  while (done < head.all().size()) {
    const auto bytes = head.all().subspan(done);
    const auto got = ::pread(opened.file, bytes.data(), bytes.size(), static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::unexpected(fmt::format("{} can't be read: {}.", path, std::strerror(errno)));
    if (got == 0) return std::unexpected(fmt::format("{} is cut short.", path));
    done += static_cast<std::size_t>(got);
  }
  return {};
}

/// Whose replica the superblock says that it is. What both slots say is compared when one is chosen.
NodeSide owner_of(const layout::Blocks& head) {
  for (std::size_t slot = 0; slot < 2; ++slot)
    if (const auto sealed = layout::unseal(head[slot], layout::Kind::superblock, slot)) return sealed->key.owner;
  return NodeSide::a;
}

/// A sentence: why a volume can't be what its metadata says, although that is whole.
std::string complaint_of(const FoundReplica& found) {
  const engine::VolumeIdentity& v = *found.identity;
  const auto graphic = [](char c) { return c > ' ' && c < 0x7f; };
  if (v.pair.is_nil()) return "Its pair has no id.";
  if (v.serial.empty() || !std::ranges::all_of(v.serial, graphic)) return "Its serial is not one that a volume has.";
  if (check_volume_size(static_cast<std::int64_t>(found.epoch.size)) || found.epoch.size % v.block_size != 0)
    return "Its size is not one that a volume has.";
  if (found.bytes == 0) return "Its data is missing.";
  if (found.bytes < static_cast<std::int64_t>(v.size))
    return fmt::format("Its data is cut short: it has {} bytes of {}.", found.bytes, v.size);
  return {};
}

void read_metadata(const std::string& path, FoundReplica& found) {
  layout::Blocks head(kHead);
  if (const auto read = read_head(path, head); !read) {
    found.left_alone = read.error();
    return;
  }
  const NodeSide owner = owner_of(head);
  const std::string where = "Metadata in " + path;
  const auto superblock =
      layout::choose(layout::SlotPair<engine::VolumeIdentity>{layout::read_superblock(head[0], 0, found.volume, owner),
                                                              layout::read_superblock(head[1], 1, found.volume, owner)},
                     where);
  if (!superblock) {
    found.left_alone = superblock.error().message;
    return;
  }
  const layout::Key& key = superblock->slot.key;
  const auto record = layout::choose(layout::SlotPair<engine::ReplicaRecord>{layout::read_record(head[2], 0, key),
                                                                             layout::read_record(head[3], 1, key)},
                                     where);
  if (!record) {
    found.left_alone = record.error().message;
    return;
  }
  found.identity = superblock->slot.value;
  found.epoch = record->slot.value.epoch;
  found.left_alone = complaint_of(found);
}

}  // namespace

std::vector<FoundReplica> replicas_named(const std::filesystem::path& folder) {
  std::vector<FoundReplica> all;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() != ".meta") continue;
    auto found = named(entry->path().stem().string());
    if (!found) continue;
    found->bytes = length_of(files_of(folder, *found).data).value_or(0);
    all.push_back(std::move(*found));
  }
  std::ranges::sort(all, [](const FoundReplica& a, const FoundReplica& b) {
    return a.volume != b.volume ? a.volume < b.volume : a.copy < b.copy;
  });
  return all;
}

std::vector<FoundReplica> replicas_read(const std::filesystem::path& folder) {
  auto all = replicas_named(folder);
  for (auto& found : all) read_metadata(files_of(folder, found).metadata, found);
  return all;
}

}  // namespace lockstep::mgmt
