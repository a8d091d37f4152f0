#include <array>
#include <memory>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include "engine/rdma/real/device.hpp"

namespace lockstep::rdma {
namespace {

constexpr auto kAgain = std::chrono::milliseconds(20);
constexpr int kTries = 500;
constexpr std::string_view kDeleted = " (deleted)";

std::string file_of(int descriptor) {
  std::array<char, 256> name{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = ::readlink(link.c_str(), name.data(), name.size());
  return length > 0 ? std::string(name.data(), static_cast<std::size_t>(length)) : std::string();
}

struct Search {
  engine::Reactor& control;
  int library, events;
  std::string file;
  int tries = 0;
};

void look(std::unique_ptr<Search> search) {
  const std::string now = file_of(search->library);
  if (now == search->file + std::string(kDeleted)) {
    // Where there is another device the library sees by this that one is missing, and closes its context.
    int count = 0;
    if (ibv_context** rest = rdma_get_devices(&count)) rdma_free_devices(rest);
    // With none it sees nothing: the context stays, on descriptors of something harmless.
    if (file_of(search->library) == now) {
      const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
      if (nothing >= 0) {
        ::dup3(nothing, search->library, O_CLOEXEC);
        ::dup3(nothing, search->events, O_CLOEXEC);
        ::close(nothing);
      }
    }
    return;
  }
  // Closed already, or the device is not being removed after all.
  if (now != search->file || ++search->tries == kTries) return;
  engine::Reactor& control = search->control;
  control.call_after(kAgain, [search = std::move(search)]() mutable { look(std::move(search)); });
}

}  // namespace

std::string file_of_context(int library) { return file_of(library); }

void forget_context(engine::Reactor& control, int library, int events, std::string file) {
  if (file.ends_with(kDeleted)) file.resize(file.size() - kDeleted.size());
  look(std::make_unique<Search>(Search{control, library, events, std::move(file)}));
}

}  // namespace lockstep::rdma
