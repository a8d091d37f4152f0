#include "engine/stores/file_store.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "engine/stores/descriptor.hpp"
#include "engine/stores/descriptor_store.hpp"
#include "engine/stores/file_space.hpp"
#include "engine/stores/system_reason.hpp"

namespace lockstep::engine {
namespace {

Result<Descriptor> open_file(const std::string& path) {
  Descriptor opened(::open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  if (opened.valid()) return opened;
  const int error = errno;
  if (error == ENOENT) return fail(Errc::io_error, "The file " + path + " does not exist.");
  if (error == EINVAL) {
    return fail(Errc::refused, "The file system of " + path + " cannot do direct I/O. Use ext4 or XFS on a disk.");
  }
  if (error == EISDIR) return fail(Errc::refused, path + " is a folder, not a file.");
  return fail(Errc::io_error, "Cannot open " + path + ": " + system_reason(error) + ".");
}

Result<void> check_file(int descriptor, const std::string& path, std::uint64_t size) {
  struct stat found {};
  if (::fstat(descriptor, &found) != 0) return fail(Errc::io_error, "Cannot look at " + path + ".");
  if (!S_ISREG(found.st_mode)) return fail(Errc::refused, path + " is not a regular file.");
  if (static_cast<std::uint64_t>(found.st_size) != size) {
    return fail(Errc::corrupt, path + " has " + std::to_string(found.st_size) + " bytes; the volume needs exactly " +
                                   std::to_string(size) + ". It may belong to another volume or be cut short.");
  }
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    return fail(Errc::refused, path + " is in use: another process or volume has it open.");
  }
  return {};
}

struct Alignment {
  std::uint32_t memory = 512;
  std::uint32_t offset = 512;
};

/// What direct I/O on this file requires, as far as the kernel tells (Linux 6.1).
Alignment alignment_of(int descriptor) {
  struct statx found {};
  if (::statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &found) == 0 && (found.stx_mask & STATX_DIOALIGN) != 0 &&
      found.stx_dio_offset_align != 0) {
    return {found.stx_dio_mem_align, found.stx_dio_offset_align};
  }
  return {};
}

}  // namespace

struct FileStore::Impl {
  Descriptor descriptor;
  std::unique_ptr<DescriptorStore> io;
};

FileStore::FileStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

FileStore::~FileStore() {
  impl_->io.reset();
  // Until Linux 6.2 a ring lets go of a registered file only a while after it was told to, and closing leaves the lock
  // to whoever still refers to the file.
  ::flock(impl_->descriptor.get(), LOCK_UN);
}

Result<std::unique_ptr<FileStore>> FileStore::open(IoUring& ring, const std::string& path, std::uint64_t size,
                                                   std::uint32_t block_size) {
  auto opened = open_file(path);
  if (!opened) return std::unexpected(opened.error());
  if (const auto good = check_file(opened->get(), path, size); !good) return std::unexpected(good.error());
  const Alignment alignment = alignment_of(opened->get());
  if (alignment.offset > block_size) {
    return fail(Errc::misaligned, path + " lies on a device with blocks of " + std::to_string(alignment.offset) +
                                      " bytes; a volume with blocks of " + std::to_string(block_size) +
                                      " bytes cannot be kept there. Use 4096-byte blocks or another device.");
  }
  struct stat found {};
  ::fstat(opened->get(), &found);
  const auto granule = static_cast<std::uint64_t>(std::max<long>(found.st_blksize, 4096));
  StoreInfo info{size, block_size, granule, true, path, true, true};
  DescriptorStoreOptions options;
  options.descriptor = opened->get();
  options.memory_alignment = alignment.memory;
  options.granule = granule;
  options.zeroing_needs_room = zeroing_needs_room(options.descriptor);
  auto io = DescriptorStore::create(ring, std::move(info), options);
  if (!io) return std::unexpected(io.error());
  return std::unique_ptr<FileStore>(new FileStore(std::make_unique<Impl>(std::move(*opened), std::move(*io))));
}

void FileStore::take_length() {
  struct stat found {};
  if (::fstat(impl_->descriptor.get(), &found) != 0) return;
  const auto size = static_cast<std::uint64_t>(found.st_size);
  const std::uint32_t block = impl_->io->info().block_size;
  if (size > impl_->io->info().size) impl_->io->set_size(size / block * block);
}

std::uint64_t FileStore::allocated_bytes() const {
  struct stat found {};
  if (::fstat(impl_->descriptor.get(), &found) != 0) return 0;
  return static_cast<std::uint64_t>(found.st_blocks) * 512;
}

const StoreInfo& FileStore::info() const { return impl_->io->info(); }
void FileStore::read(std::uint64_t offset, std::span<std::byte> into, IoCallback done) {
  impl_->io->read(offset, into, std::move(done));
}
void FileStore::write(std::uint64_t offset, std::span<const std::byte> from, Durability durability, IoCallback done) {
  impl_->io->write(offset, from, durability, std::move(done));
}
void FileStore::write_zeroes(Extent extent, Durability durability, IoCallback done) {
  impl_->io->write_zeroes(extent, durability, std::move(done));
}
void FileStore::discard(Extent extent, Durability durability, IoCallback done) {
  impl_->io->discard(extent, durability, std::move(done));
}
void FileStore::flush(IoCallback done) { impl_->io->flush(std::move(done)); }
bool FileStore::refuses_writes() const { return impl_->io->refuses_writes(); }
void FileStore::take_writes_again() { impl_->io->take_writes_again(); }
void FileStore::reserve(Extent extent, IoCallback done) { impl_->io->reserve(extent, std::move(done)); }
void FileStore::next_run(std::uint64_t offset, RunCallback done) { impl_->io->next_run(offset, std::move(done)); }

}  // namespace lockstep::engine
