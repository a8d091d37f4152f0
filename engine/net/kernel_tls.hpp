#pragma once
// A socket whose kernel makes the TLS records of what is sent on it (Linux: Documentation/networking/tls.rst).
#include <string_view>

#include "engine/net/tls_record_key.hpp"

namespace lockstep::engine {

/// Whether a kernel that lists these ciphers (/proc/crypto) has AES-GCM that the processor does. In plain C it takes
/// many times what OpenSSL takes.
[[nodiscard]] bool has_fast_aes_gcm(std::string_view ciphers);
/// … this one.
[[nodiscard]] bool kernel_has_fast_aes_gcm();

/// What is sent from now on leaves in records under this key. False: the kernel can't, and the socket is as it was.
[[nodiscard]] bool let_kernel_encrypt(int socket, const TlsRecordKey& key);

/// Sends the record that ends this direction in an orderly way (RFC 8446 6.1), behind all that was sent. Only on a
/// socket whose kernel encrypts. 0, or errno.
[[nodiscard]] int send_close_notify(int socket);

}  // namespace lockstep::engine
