#include "engine/stores/block_store.hpp"

#include <cerrno>
#include <fstream>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "engine/stores/descriptor.hpp"
#include "engine/stores/descriptor_store.hpp"
#include "engine/stores/system_reason.hpp"

namespace lockstep::engine {
namespace {

constexpr std::uint64_t kPartAlignment = 4096;

Result<Descriptor> claim(const std::string& path) {
  Descriptor opened(::open(path.c_str(), O_RDWR | O_DIRECT | O_EXCL | O_CLOEXEC));
  if (opened.valid()) return opened;
  const int error = errno;
  if (error == ENOENT) return fail(Errc::io_error, "The device " + path + " does not exist.");
  if (error == EBUSY) {
    return fail(Errc::refused, "The device " + path +
                                   " is in use: mounted, part of a RAID or volume group, or opened by another volume.");
  }
  return fail(Errc::io_error, "Cannot open the device " + path + ": " + system_reason(error) + ".");
}

/// A number from the device's folder in sysfs; a partition's queue is its disk's.
std::uint64_t queue_number(dev_t device, const std::string& name) {
  const std::string folder =
      "/sys/dev/block/" + std::to_string(major(device)) + ":" + std::to_string(minor(device)) + "/";
  for (const auto* queue : {"queue/", "../queue/"}) {
    std::ifstream in(folder + queue + name);
    if (std::uint64_t value = 0; in >> value) return value;
  }
  return 0;
}

}  // namespace

Result<std::shared_ptr<BlockDevice>> BlockDevice::open(const std::string& path, std::uint32_t block_size) {
  struct stat found {};
  if (::stat(path.c_str(), &found) == 0 && !S_ISBLK(found.st_mode)) {
    return fail(Errc::refused, path + " is not a block device.");
  }
  auto opened = claim(path);
  if (!opened) return std::unexpected(opened.error());
  BlockDeviceInfo info;
  info.path = path;
  int logical = 0;
  unsigned physical = 0;
  if (::ioctl(opened->get(), BLKGETSIZE64, &info.size) != 0 || ::ioctl(opened->get(), BLKSSZGET, &logical) != 0 ||
      ::ioctl(opened->get(), BLKPBSZGET, &physical) != 0) {
    return fail(Errc::io_error, "The device " + path + " does not tell its size: " + system_reason(errno) + ".");
  }
  info.logical_block_size = static_cast<std::uint32_t>(logical);
  info.physical_block_size = physical;
  if (queue_number(found.st_rdev, "discard_max_bytes") > 0) {
    info.discard_granularity = queue_number(found.st_rdev, "discard_granularity");
  }
  if (info.logical_block_size > block_size) {
    return fail(Errc::misaligned, "The device " + path + " has blocks of " + std::to_string(info.logical_block_size) +
                                      " bytes; a volume with blocks of " + std::to_string(block_size) +
                                      " bytes cannot be kept there. Use 4096-byte blocks or another device.");
  }
  return std::shared_ptr<BlockDevice>(new BlockDevice(std::move(info), opened->release()));
}

BlockDevice::~BlockDevice() { ::close(descriptor_); }

struct BlockStore::Impl {
  std::shared_ptr<BlockDevice> device;
  std::unique_ptr<DescriptorStore> io;
};

BlockStore::BlockStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

BlockStore::~BlockStore() { impl_->io.reset(); }

Result<std::unique_ptr<BlockStore>> BlockStore::open(IoUring& ring, std::shared_ptr<BlockDevice> device, Extent part,
                                                     std::uint32_t block_size) {
  const BlockDeviceInfo& found = device->info();
  if (part.offset % kPartAlignment != 0 || part.length % block_size != 0) {
    return fail(Errc::misaligned, "A store on " + found.path +
                                      " must begin at a multiple of 4096 bytes and be a "
                                      "multiple of its block size.");
  }
  if (!part.fits(found.size)) {
    return fail(Errc::no_space, "The device " + found.path + " has " + std::to_string(found.size) +
                                    " bytes; a store of " + std::to_string(part.length) + " bytes at byte " +
                                    std::to_string(part.offset) + " does not fit.");
  }
  StoreInfo info{part.length, block_size, found.discard_granularity, false, found.path};
  DescriptorStoreOptions options;
  options.descriptor = device->descriptor();
  options.claims = options.is_device = true;
  options.base = part.offset;
  options.memory_alignment = found.logical_block_size;
  options.granule = std::max(found.logical_block_size, std::uint32_t{4096});
  auto io = DescriptorStore::create(ring, std::move(info), options);
  if (!io) return std::unexpected(io.error());
  return std::unique_ptr<BlockStore>(new BlockStore(std::make_unique<Impl>(std::move(device), std::move(*io))));
}

const StoreInfo& BlockStore::info() const { return impl_->io->info(); }
void BlockStore::read(std::uint64_t offset, std::span<std::byte> into, IoCallback done) {
  impl_->io->read(offset, into, std::move(done));
}
void BlockStore::write(std::uint64_t offset, std::span<const std::byte> from, Durability durability, IoCallback done) {
  impl_->io->write(offset, from, durability, std::move(done));
}
void BlockStore::write_zeroes(Extent extent, Durability durability, IoCallback done) {
  impl_->io->write_zeroes(extent, durability, std::move(done));
}
void BlockStore::discard(Extent extent, Durability durability, IoCallback done) {
  impl_->io->discard(extent, durability, std::move(done));
}
void BlockStore::flush(IoCallback done) { impl_->io->flush(std::move(done)); }
bool BlockStore::refuses_writes() const { return impl_->io->refuses_writes(); }
void BlockStore::take_writes_again() { impl_->io->take_writes_again(); }

}  // namespace lockstep::engine
