// Which kernels are left to encrypt.
#include "engine/net/kernel_tls.hpp"

#include <string>

#include <gtest/gtest.h>

namespace lockstep::engine {
namespace {

constexpr const char* kOthers = R"(name         : ghash
driver       : ghash-clmulni
module       : ghash_clmulni_intel
priority     : 400
refcnt       : 1

name         : rfc4106(gcm(aes))
driver       : rfc4106-gcm-aesni
priority     : 400

)";

TEST(KernelCiphers, AreFastWhereTheProcessorDoesAesGcm) {
  EXPECT_TRUE(has_fast_aes_gcm(std::string(kOthers) + "name         : gcm(aes)\ndriver       : generic-gcm-aesni\n"
                                                      "module       : aesni_intel\npriority     : 400\nrefcnt : 1\n"));
  EXPECT_TRUE(has_fast_aes_gcm("name : gcm(aes)\npriority : 100\n\nname : gcm(aes)\npriority : 300"));
}

TEST(KernelCiphers, AreSlowInPlainCAndWhereAPartOfThemIs) {
  EXPECT_FALSE(has_fast_aes_gcm(""));
  EXPECT_FALSE(has_fast_aes_gcm(kOthers));
  EXPECT_FALSE(has_fast_aes_gcm("name         : gcm(aes)\npriority     : 100\n\n" + std::string(kOthers)));
  EXPECT_FALSE(has_fast_aes_gcm(
      "name         : gcm(aes)\ndriver : gcm_base(ctr-aes-aesni,ghash-generic)\npriority     : 250\n"));
  EXPECT_FALSE(has_fast_aes_gcm("name\npriority\npriority :\nname : gcm(aes)\npriority : x"));
}

}  // namespace
}  // namespace lockstep::engine
