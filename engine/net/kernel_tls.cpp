#include "engine/net/kernel_tls.hpp"

#include <array>
#include <cerrno>
#include <cstring>
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

}  // namespace

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
