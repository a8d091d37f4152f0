// Making, lengthening and removing a store's file so that no crash leaves half of it under its name.
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "engine/stores/descriptor.hpp"
#include "engine/stores/file_draft.hpp"
#include "engine/stores/system_reason.hpp"

namespace lockstep::engine {
namespace {

Errc code_of(int error) {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) return Errc::no_space;
  return error == EEXIST ? Errc::refused : Errc::io_error;
}

std::unexpected<Error> cannot(const std::string& what, const std::string& path, int error) {
  return fail(code_of(error), "Cannot " + what + " " + path + ": " + system_reason(error) + ".");
}

std::string folder_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

Result<void> sync_folder(const std::string& folder) {
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.valid() || ::fsync(opened.get()) != 0) return cannot("make durable the folder", folder, errno);
  return {};
}

/// What is being made, removed when that fails on the way.
class Draft {
 public:
  explicit Draft(const std::string& path) : name_(draft_name(path)) {}
  ~Draft() {
    if (opened_.valid() && !stays_) ::unlink(name_.c_str());
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  Result<void> open() {
    Descriptor opened(::open(name_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!opened.valid()) return cannot("create", name_, errno);
    if (::flock(opened.get(), LOCK_EX | LOCK_NB) != 0) {
      return fail(Errc::refused, "Another process is creating " + name_ + ".");
    }
    if (::ftruncate(opened.get(), 0) != 0) return cannot("empty", name_, errno);  // left over by a crash
    opened_ = std::move(opened);
    return {};
  }
  Result<void> fill(std::uint64_t size, Allocation allocation) const {
    if (::ftruncate(opened_.get(), static_cast<off_t>(size)) != 0) return cannot("give its size to", name_, errno);
    if (allocation == Allocation::allocated && ::fallocate(opened_.get(), 0, 0, static_cast<off_t>(size)) != 0) {
      return cannot("allocate the space of", name_, errno);
    }
    if (::fsync(opened_.get()) != 0) return cannot("make durable", name_, errno);
    return {};
  }
  void stay() { stays_ = true; }

 private:
  std::string name_;
  Descriptor opened_;
  bool stays_ = false;
};

bool is_draft_name(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  return name.starts_with('.') && name.ends_with(".new");
}

Result<void> check_room(const std::string& path, std::uint64_t size, Allocation allocation) {
  const std::string folder = folder_of(path);
  struct stat found {};
  if (is_draft_name(path)) {
    return fail(Errc::refused, path + " is a name of files that are being made. Choose another one.");
  }
  if (::lstat(path.c_str(), &found) == 0) {
    return fail(Errc::refused, path + " exists already. Remove it or choose another name.");
  }
  if (::stat(folder.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) {
    return fail(Errc::io_error, "The folder " + folder + " does not exist. Create it first.");
  }
  struct statvfs space {};
  if (::statvfs(folder.c_str(), &space) != 0) return cannot("look at the space of", folder, errno);
  const std::uint64_t free_bytes = std::uint64_t{space.f_bavail} * space.f_frsize;
  if (allocation == Allocation::allocated && free_bytes < size) {
    return fail(Errc::no_space, path + " needs " + std::to_string(size) + " bytes, but only " +
                                    std::to_string(free_bytes) + " are free in " + folder + ".");
  }
  return {};
}

Result<void> check_room_for_more(const std::string& path, std::uint64_t more) {
  const std::string folder = folder_of(path);
  struct statvfs space {};
  if (::statvfs(folder.c_str(), &space) != 0) return cannot("look at the space of", folder, errno);
  const std::uint64_t free_bytes = std::uint64_t{space.f_bavail} * space.f_frsize;
  if (free_bytes >= more) return {};
  return fail(Errc::no_space, path + " needs " + std::to_string(more) + " more bytes, but only " +
                                  std::to_string(free_bytes) + " are free in " + folder + ".");
}

Result<void> fill(Draft& draft, const std::string& path, std::uint64_t size, Allocation allocation) {
  if (size > static_cast<std::uint64_t>(INT64_MAX)) return fail(Errc::no_space, "No file can be that large.");
  if (auto room = check_room(path, size, allocation); !room) return room;
  if (auto done = draft.open(); !done) return done;
  return draft.fill(size, allocation);
}

}  // namespace

std::string draft_name(const std::string& path) {
  return folder_of(path) + "/." + std::filesystem::path(path).filename().string() + ".new";
}

Result<void> make_draft(const std::string& path, std::uint64_t size, Allocation allocation) {
  Draft draft(path);
  if (auto done = fill(draft, path, size, allocation); !done) return done;
  if (auto done = sync_folder(folder_of(path)); !done) return done;
  draft.stay();
  return {};
}

Result<void> keep_draft(const std::string& path) {
  const std::string draft = draft_name(path);
  if (::renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) != 0) {
    return cannot("create", path, errno);
  }
  auto durable = sync_folder(folder_of(path));
  if (!durable) (void)::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, draft.c_str(), RENAME_NOREPLACE);
  return durable;
}

Result<void> take_back(const std::string& path) {
  if (::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, draft_name(path).c_str(), RENAME_NOREPLACE) != 0) {
    return cannot("remove", path, errno);
  }
  return sync_folder(folder_of(path));
}

Result<void> remove_draft(const std::string& path) {
  const std::string name = draft_name(path);
  const Descriptor opened(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!opened.valid() && errno == ENOENT) return {};
  if (!opened.valid() && errno != ELOOP) return cannot("open", name, errno);  // a link is removed, not what it names
  if (opened.valid() && ::flock(opened.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(Errc::refused, "Another process is creating " + name + ".");
  }
  if (::unlink(name.c_str()) != 0 && errno != ENOENT) return cannot("remove", name, errno);
  return sync_folder(folder_of(path));
}

Result<void> FileStore::create(const std::string& path, std::uint64_t size, Allocation allocation) {
  Draft draft(path);
  if (auto done = fill(draft, path, size, allocation); !done) return done;
  auto kept = keep_draft(path);
  if (kept) draft.stay();
  return kept;
}

Result<void> FileStore::extend(const std::string& path, std::uint64_t size, Allocation allocation) {
  if (size > static_cast<std::uint64_t>(INT64_MAX)) return fail(Errc::no_space, "No file can be that large.");
  const Descriptor opened(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat found {};
  if (!opened.valid() || ::fstat(opened.get(), &found) != 0) return cannot("open", path, errno);
  if (!S_ISREG(found.st_mode)) return fail(Errc::refused, path + " is not a file, and only files can be made longer.");
  const auto old = static_cast<std::uint64_t>(found.st_size);
  if (old >= size) {  // perhaps by somebody who was killed before it was durable
    if (::fsync(opened.get()) != 0) return cannot("make durable", path, errno);
    return {};
  }
  const std::uint64_t more = size - old;
  if (allocation == Allocation::allocated) {
    if (auto room = check_room_for_more(path, more); !room) return room;
  }
  const int made = allocation == Allocation::allocated
                       ? ::fallocate(opened.get(), 0, static_cast<off_t>(old), static_cast<off_t>(more))
                       : ::ftruncate(opened.get(), static_cast<off_t>(size));
  if (made == 0 && ::fsync(opened.get()) == 0) return {};
  const int error = errno;
  (void)!::ftruncate(opened.get(), found.st_size);
  return cannot("make longer", path, error);
}

Result<void> FileStore::remove(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return cannot("remove", path, errno);
  if (!std::filesystem::exists(folder_of(path))) return {};
  return sync_folder(folder_of(path));
}

}  // namespace lockstep::engine
