// The word that a daemon is ready meets a socket as systemd's.
#include "mgmt/process/readiness.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::mgmt {
namespace {

// A socket of that name, a first '@' being the zero of an abstract one, and the variable that names it.
class Readiness : public testing::Test {
 protected:
  ~Readiness() override {
    ::unsetenv("NOTIFY_SOCKET");
    if (listener_ >= 0) ::close(listener_);
  }
  void listen(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(name, address.sun_path);
    if (name.front() == '@') address.sun_path[0] = '\0';
    listener_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&address),
                     static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())),
              0);
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  [[nodiscard]] std::optional<std::string> heard() const {
    std::array<char, 64> text{};
    const ssize_t n = ::recv(listener_, text.data(), text.size(), MSG_DONTWAIT);
    if (n < 0) return std::nullopt;
    return std::string(text.data(), static_cast<std::size_t>(n));
  }

  test::TemporaryFolder folder;

 private:
  int listener_ = -1;
};

TEST_F(Readiness, IsToldToTheSocketThatTheVariableNames) {
  listen(folder.path() / "notify");
  tell_ready();
  EXPECT_EQ(heard(), "READY=1");
}

TEST_F(Readiness, IsToldToAnAbstractSocket) {
  listen("@lockstep-readiness-" + std::to_string(::getpid()));
  tell_ready();
  EXPECT_EQ(heard(), "READY=1");
}

TEST_F(Readiness, IsToldToNobodyWithoutTheVariable) {
  listen(folder.path() / "notify");
  ::unsetenv("NOTIFY_SOCKET");
  tell_ready();
  EXPECT_EQ(heard(), std::nullopt);
}

TEST_F(Readiness, IsNotToldToANameThatNoSocketCanHave) {
  listen(folder.path() / "notify");
  ::setenv("NOTIFY_SOCKET", std::string(sizeof(sockaddr_un::sun_path), 'x').c_str(), 1);
  tell_ready();
  EXPECT_EQ(heard(), std::nullopt);
}

}  // namespace
}  // namespace lockstep::mgmt
