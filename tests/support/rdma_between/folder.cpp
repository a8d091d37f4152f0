#include "tests/support/rdma_between/folder.hpp"

#include <algorithm>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lockstep::test::between {

engine::Result<Folder> Folder::open(std::string path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return engine::fail(engine::Errc::refused, "The test fabric needs a folder; there is none at \"" + path + "\".");
  }
  std::string mark = "lockstep-test-fabric/" + std::to_string(info.st_dev) + "-" + std::to_string(info.st_ino) + "/";
  return Folder(std::move(path), std::move(mark));
}

sockaddr_un Folder::name_of(std::string_view address) const {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string text = mark_ + std::string(address);
  // The first byte stays 0, the rest is padded with zeros: all of it is the name.
  std::copy_n(text.begin(), std::min(text.size(), sizeof name.sun_path - 1), name.sun_path + 1);
  return name;
}

Cable Folder::cable() const {
  if (::access((path_ + "/cut").c_str(), F_OK) == 0) return Cable::cut;
  return ::access((path_ + "/silent").c_str(), F_OK) == 0 ? Cable::silent : Cable::good;
}

void Folder::note_fault(std::string_view sentence) const {
  const int file = ::open((path_ + "/faults").c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return;
  const std::string line = "process " + std::to_string(::getpid()) + ": " + std::string(sentence) + "\n";
  (void)!::write(file, line.data(), line.size());
  ::close(file);
}

}  // namespace lockstep::test::between
