#include "engine/net/kernel_tls.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace lockstep::engine {
namespace {

constexpr std::string_view kTlsLayer = "tls";
constexpr unsigned char kAlertRecord = 21;
constexpr std::array<unsigned char, 2> kCloseNotify{1, 0};  // a warning, close_notify

constexpr int kAcceleratedPriority = 300;  // those in plain C have 100, those of which a part is have less than 300

/// Of a line "name         : gcm(aes)", where it begins with that name.
std::string_view cipher_value(std::string_view line, std::string_view name) {
  if (!line.starts_with(name)) return {};
  const auto at = line.find_first_not_of(" \t:", name.size());
  return at == std::string_view::npos || at == name.size() ? std::string_view{} : line.substr(at);
}

}  // namespace

bool has_fast_aes_gcm(std::string_view ciphers) {
  bool is_aes_gcm = false;
  while (!ciphers.empty()) {
    const std::string_view line = ciphers.substr(0, ciphers.find('\n'));
    ciphers.remove_prefix(std::min(line.size() + 1, ciphers.size()));
    if (const auto name = cipher_value(line, "name"); !name.empty()) is_aes_gcm = name == "gcm(aes)";
    const std::string_view priority = cipher_value(line, "priority");
    int number = 0;
    std::from_chars(priority.data(), priority.data() + priority.size(), number);
    if (is_aes_gcm && number >= kAcceleratedPriority) return true;
  }
  return false;
}

bool kernel_has_fast_aes_gcm() {
  std::ifstream file("/proc/crypto");
  const std::string ciphers{std::istreambuf_iterator<char>(file), {}};
  return has_fast_aes_gcm(ciphers);
}

bool let_kernel_encrypt(int socket, const TlsRecordKey& key) {
  // Where the layer is there and takes no key, the socket goes on as any other.
  if (::setsockopt(socket, IPPROTO_TCP, TCP_ULP, kTlsLayer.data(), kTlsLayer.size()) != 0) return false;
  tls12_crypto_info_aes_gcm_256 given{};  // its numbers of records begin with 0
  given.info.version = TLS_1_3_VERSION;
  given.info.cipher_type = TLS_CIPHER_AES_GCM_256;
  static_assert(sizeof given.key == sizeof key.key && sizeof given.salt + sizeof given.iv == sizeof key.iv);
  std::memcpy(given.key, key.key.data(), sizeof given.key);
  std::memcpy(given.salt, key.iv.data(), sizeof given.salt);
  std::memcpy(given.iv, key.iv.data() + sizeof given.salt, sizeof given.iv);
  const bool taken = ::setsockopt(socket, SOL_TLS, TLS_TX, &given, sizeof given) == 0;
  OPENSSL_cleanse(&given, sizeof given);
  return taken;
}

int send_close_notify(int socket) {
  auto alert = kCloseNotify;
  iovec part{alert.data(), alert.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof kAlertRecord)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const type = CMSG_FIRSTHDR(&message);
  type->cmsg_level = SOL_TLS;
  type->cmsg_type = TLS_SET_RECORD_TYPE;
  type->cmsg_len = CMSG_LEN(sizeof kAlertRecord);
  *CMSG_DATA(type) = kAlertRecord;
  ssize_t gone = 0;
  do {
    gone = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (gone < 0 && errno == EINTR);
  return gone < 0 ? errno : 0;
}

}  // namespace lockstep::engine
