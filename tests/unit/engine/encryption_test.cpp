// Keys, sealed and kept; sectors; a store whose blocks are encrypted in another one.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include "engine/encryption/cipher_store.hpp"
#include "engine/encryption/keys.hpp"
#include "engine/encryption/sector_cipher.hpp"
#include "tests/unit/engine/fault_store.hpp"
#include "tests/unit/engine/metadata_fixture.hpp"

namespace lockstep::engine {
namespace {

using Bytes = std::vector<std::byte>;

Bytes from_hex(std::string_view hex) {
  Bytes out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return out;
}

Bytes counting(std::size_t count, int from = 0) {
  Bytes out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::byte>(i * 3 + i / 256 + std::size_t(from));
  return out;
}

VolumeKey volume_key(std::string_view hex) {
  VolumeKey key;
  std::ranges::copy(from_hex(hex), key.bytes.span().begin());
  return key;
}

VolumeKey new_key() { return *VolumeKey::make(); }

// ---- keys ----

TEST(Keys, AreRandomAndNeverTheSame) {
  const auto a = VolumeKey::make(), b = VolumeKey::make();
  ASSERT_TRUE(a && b);
  EXPECT_FALSE(std::ranges::equal(a->bytes.span(), b->bytes.span()));
  const auto one = NodeKey::make(), other = NodeKey::make();
  ASSERT_TRUE(one && other);
  EXPECT_NE(one->id, other->id);
  EXPECT_FALSE(std::ranges::equal(one->bytes.span(), other->bytes.span()));
}

TEST(Keys, WhatTheNodeSealedItUnseals) {
  const auto key = new_key();
  const auto node = *NodeKey::make();
  const SealedKey sealed = seal(key, node);
  EXPECT_EQ(sealed.node_key, node.id);
  const auto back = unseal(sealed, node);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_TRUE(std::ranges::equal(back->bytes.span(), key.bytes.span()));
  EXPECT_EQ(std::ranges::search(sealed.bytes, key.bytes.span().first(16)).begin(), sealed.bytes.end());
}

TEST(Keys, AnotherNodesKeyAndEveryChangedBitAreNoticed) {
  const auto node = *NodeKey::make();
  const SealedKey sealed = seal(new_key(), node);
  EXPECT_EQ(unseal(sealed, *NodeKey::make()).error().code, Errc::foreign);
  NodeKey namesake = *NodeKey::make();
  namesake.id = node.id;
  EXPECT_EQ(unseal(sealed, namesake).error().code, Errc::corrupt);
  for (std::size_t bit = 0; bit < sealed.bytes.size() * 8; ++bit) {
    SealedKey changed = sealed;
    changed.bytes[bit / 8] ^= std::byte(1 << (bit % 8));
    ASSERT_FALSE(unseal(changed, node)) << "bit " << bit;
  }
}

/// RFC 3394 2.2.1, step by step, of AES on single blocks.
Bytes wrapped_by_the_book(std::span<const std::byte> key, std::span<const std::byte> plain) {
  EVP_CIPHER_CTX* aes = EVP_CIPHER_CTX_new();
  EVP_EncryptInit_ex(aes, EVP_aes_256_ecb(), nullptr, reinterpret_cast<const unsigned char*>(key.data()), nullptr);
  const std::size_t n = plain.size() / 8;
  Bytes block(16, std::byte{0xA6}), r(plain.begin(), plain.end());
  for (std::size_t j = 0; j < 6; ++j) {
    for (std::size_t i = 0; i < n; ++i) {
      std::copy_n(&r[8 * i], 8, &block[8]);
      int length = 0;
      auto* bytes = reinterpret_cast<unsigned char*>(block.data());
      EVP_EncryptUpdate(aes, bytes, &length, bytes, 16);
      block[7] ^= static_cast<std::byte>(n * j + i + 1);
      std::copy_n(&block[8], 8, &r[8 * i]);
    }
  }
  EVP_CIPHER_CTX_free(aes);
  r.insert(r.begin(), block.begin(), block.begin() + 8);
  return r;
}

TEST(Keys, AreSealedAsTheStandardSays) {
  // RFC 3394 4.6, by which the book's steps are checked themselves.
  EXPECT_EQ(wrapped_by_the_book(from_hex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"),
                                from_hex("00112233445566778899aabbccddeeff000102030405060708090a0b0c0d0e0f")),
            from_hex("28c9f404c4b810f4cbccb35cfb87f8263f5786e2d80ed326cbc7f0e71a99f43bfb988b9b7a02dd21"));
  const auto key = new_key();
  const auto node = *NodeKey::make();
  EXPECT_TRUE(std::ranges::equal(seal(key, node).bytes, wrapped_by_the_book(node.bytes.span(), key.bytes.span())));
}

TEST(Keys, ANodeKeysFileIsReadAsItWasWrittenAndDamageIsNamed) {
  const auto key = *NodeKey::make();
  const auto file = encode(key);
  const auto back = decode_node_key(file.span());
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->id, key.id);
  EXPECT_TRUE(std::ranges::equal(back->bytes.span(), key.bytes.span()));
  for (std::size_t bit = 0; bit < kNodeKeyBytes * 8; ++bit) {
    auto changed = file;
    changed.span()[bit / 8] ^= std::byte(1 << (bit % 8));
    ASSERT_FALSE(decode_node_key(changed.span())) << "bit " << bit;
  }
  EXPECT_EQ(decode_node_key(file.span().first(63)).error().code, Errc::corrupt);
}

TEST(Keys, ANodeKeysFileHasTheseBytes) {
  NodeKey key{*Uuid::parse("10111213-1415-4617-9819-1a1b1c1d1e1f"), {}};
  for (std::size_t i = 0; i < 32; ++i) key.bytes.span()[i] = static_cast<std::byte>(0xA0 + i);
  const auto file = encode(key);
  Bytes expected = from_hex(
      "00000000"
      "4c535445504e4b59"
      "0001"
      "0040"
      "10111213141546179819"
      "1a1b1c1d1e1f");
  for (int i = 0; i < 32; ++i) expected.push_back(static_cast<std::byte>(0xA0 + i));
  EXPECT_TRUE(std::ranges::equal(file.span().subspan(4), std::span(expected).subspan(4)));
}

// ---- sectors ----

TEST(SectorCipher, IsThatOfTheStandard) {
  // IEEE 1619-2007 annex B, vector 10: 512 bytes 00 to FF twice, data unit number FFh.
  const auto key = volume_key(
      "2718281828459045235360287471352662497757247093699959574966967627"
      "3141592653589793238462643383279502884197169399375105820974944592");
  SectorCipher cipher(key, 512);
  Bytes plain(512), out(512);
  for (std::size_t i = 0; i < 512; ++i) plain[i] = static_cast<std::byte>(i);
  cipher.encrypt(0xFF * 512, plain, out);
  EXPECT_TRUE(std::ranges::equal(std::span(out).first(32),
                                 from_hex("1c3b3a102f770386e4836c99e370cf9bea00803f5e482357a4ae12d414a3e63b")));
  cipher.decrypt(0xFF * 512, out);
  EXPECT_EQ(out, plain);
}

TEST(SectorCipher, EqualSectorsLookDifferentAndZerosStayAHole) {
  SectorCipher cipher(new_key(), 512);
  const Bytes plain(1024, std::byte{7});
  Bytes out(1024);
  cipher.encrypt(0, plain, out);
  EXPECT_FALSE(std::equal(out.begin(), out.begin() + 512, out.begin() + 512));
  std::fill(out.begin() + 512, out.end(), std::byte{0});
  cipher.decrypt(0, out);
  EXPECT_TRUE(std::equal(out.begin(), out.begin() + 512, plain.begin()));
  EXPECT_TRUE(std::all_of(out.begin() + 512, out.end(), [](std::byte b) { return b == std::byte{0}; }));
}

// ---- the store ----

struct CipherStoreTest : testing::Test {
  FaultStore inner{1 << 20};
  BufferPool pool{BufferPool::kMaxBuffer};
  VolumeKey key = new_key();
  CipherStore store{inner, pool, key, {}};

  std::error_code outcome(std::optional<std::error_code>& result) {
    inner.run();
    EXPECT_TRUE(result) << "it never ended";
    return result.value_or(Errc::timed_out);
  }
  std::error_code write(std::uint64_t offset, std::span<const std::byte> from) {
    std::optional<std::error_code> result;
    store.write(offset, from, Durability::durable, [&](std::error_code e) { result = e; });
    return outcome(result);
  }
  Bytes read(std::uint64_t offset, std::size_t length) {
    Bytes into(length);
    std::optional<std::error_code> result;
    store.read(offset, into, [&](std::error_code e) { result = e; });
    EXPECT_FALSE(outcome(result));
    return into;
  }
  [[nodiscard]] Bytes kept(std::uint64_t offset, std::size_t length) {
    const auto all = std::span(inner.bytes()).subspan(offset, length);
    return {all.begin(), all.end()};
  }
};

TEST_F(CipherStoreTest, KeepsNothingAsItWasWrittenAndReadsItBack) {
  const Bytes data = counting(8192);
  EXPECT_FALSE(write(4096, data));
  EXPECT_EQ(read(4096, 8192), data);
  EXPECT_EQ(read(4608, 512), Bytes(data.begin() + 512, data.begin() + 1024)) << "each sector by itself";
  const Bytes there = kept(4096, 8192);
  for (std::size_t at = 0; at < there.size(); at += 16) {
    EXPECT_FALSE(std::equal(there.begin() + std::ptrdiff_t(at), there.begin() + std::ptrdiff_t(at + 16),
                            data.begin() + std::ptrdiff_t(at)));
  }
}

TEST_F(CipherStoreTest, ZerosThatAreWrittenAreEncryptedAndHolesAreNot) {
  EXPECT_FALSE(write(0, Bytes(4096)));
  EXPECT_NE(kept(0, 4096), Bytes(4096)) << "whoever has the disk can't tell them from data";
  EXPECT_EQ(read(0, 4096), Bytes(4096));
  std::optional<std::error_code> result;
  store.discard({0, 4096}, Durability::durable, [&](std::error_code e) { result = e; });
  EXPECT_FALSE(outcome(result));
  EXPECT_EQ(kept(0, 4096), Bytes(4096));
  EXPECT_EQ(read(0, 4096), Bytes(4096));
}

TEST_F(CipherStoreTest, WhatTheStoreBelowRefusesOrFailsIsTold) {
  EXPECT_EQ(write((1 << 20) - 512, counting(1024)), Errc::out_of_range);
  inner.fail = [](char, Extent) { return true; };
  EXPECT_EQ(write(0, counting(512)), Errc::io_error);
}

TEST_F(CipherStoreTest, WithoutBuffersWritesGoOnOneAfterTheOther) {
  std::vector<Buffer> all;
  for (auto buffer = pool.allocate(BufferPool::kMaxBuffer); buffer; buffer = pool.allocate(4096)) {
    all.push_back(std::move(buffer));
  }
  ASSERT_FALSE(pool.allocate(4096));
  const Bytes large = counting(200 << 10, 1), small = counting(4096, 2);
  std::optional<std::error_code> first, second, third;
  store.write(0, large, Durability::durable, [&](std::error_code e) { first = e; });
  store.write(512 << 10, small, Durability::durable, [&](std::error_code e) { second = e; });
  store.write(600 << 10, small, Durability::durable, [&](std::error_code e) { third = e; });
  EXPECT_EQ(inner.waiting(), 1u);
  inner.run();
  for (const auto& result : {first, second, third}) {
    ASSERT_TRUE(result);
    EXPECT_FALSE(*result);
  }
  EXPECT_EQ(read(0, large.size()), large);
  EXPECT_EQ(read(512 << 10, 4096), small);
  EXPECT_EQ(read(600 << 10, 4096), small);
}

TEST_F(CipherStoreTest, WithAnotherKeyNothingIsWhatItWas) {
  const Bytes data = counting(4096);
  EXPECT_FALSE(write(0, data));
  std::optional<std::error_code> result;
  store.renew_key([&](std::error_code e) { result = e; });
  EXPECT_FALSE(result) << "never from inside the call";
  EXPECT_FALSE(outcome(result));
  EXPECT_NE(read(0, 4096), data);
  EXPECT_EQ(read(8192, 512), Bytes(512)) << "a hole is one under every key";
  EXPECT_FALSE(write(0, data));
  EXPECT_EQ(read(0, 4096), data);
}

// ---- a key that could not be saved ----

/// A store whose key is saved when the test says so, and with what outcome.
struct UnsavedKeyTest : CipherStoreTest {
  IoCallback saved;
  CipherStore keeping{inner, pool, key, [this](const VolumeKey&, IoCallback done) { saved = std::move(done); }};
  std::vector<std::error_code> ended;

  void fail_to_save() {
    std::optional<std::error_code> result;
    keeping.renew_key([&](std::error_code e) { result = e; });
    ASSERT_TRUE(saved);
    std::exchange(saved, nullptr)(Errc::io_error);
    EXPECT_EQ(result, make_error_code(Errc::io_error));
  }
  IoCallback note() {
    return [this](std::error_code e) { ended.push_back(e); };
  }
};

TEST_F(UnsavedKeyTest, EndsTheStoreForGood) {
  fail_to_save();
  Bytes sector = counting(512);
  keeping.read(0, sector, note());
  keeping.write(0, sector, Durability::durable, note());
  keeping.write_zeroes({0, 512}, Durability::durable, note());
  keeping.discard({0, 512}, Durability::durable, note());
  keeping.flush(note());
  keeping.renew_key(note());
  EXPECT_TRUE(ended.empty()) << "never from inside the call";
  inner.run();
  EXPECT_EQ(ended, std::vector<std::error_code>(6, Errc::io_error));
  EXPECT_FALSE(saved) << "no further key is tried";
  EXPECT_EQ(inner.counts.writes, 0);
}

TEST_F(UnsavedKeyTest, LetsNothingSucceedThatWasUnderWayOrWaitedForABuffer) {
  std::vector<Buffer> all;
  for (auto buffer = pool.allocate(BufferPool::kMaxBuffer); buffer; buffer = pool.allocate(4096)) {
    all.push_back(std::move(buffer));
  }
  const Bytes large = counting(200 << 10), small = counting(4096);
  Bytes into(512);
  keeping.write(0, large, Durability::durable, note());
  keeping.write(512 << 10, small, Durability::durable, note());
  keeping.write(600 << 10, small, Durability::durable, note());
  keeping.read(0, into, note());
  ASSERT_EQ(inner.waiting(), 2u);
  fail_to_save();
  inner.run();
  EXPECT_EQ(ended, std::vector<std::error_code>(4, Errc::io_error));
  EXPECT_EQ(inner.counts.writes, 1) << "nothing more goes out under the old key";
}

/// A replica as it is attached: blocks in one store, the sealed key in the metadata in another.
struct EncryptedReplica : MetadataTest {
  FaultStore data{1 << 20};
  BufferPool pool{BufferPool::kMaxBuffer};
  NodeKey node = *NodeKey::make();
  std::unique_ptr<CipherStore> blocks;

  void attach() {
    blocks.reset();
    data.cut_power();
    store.cut_power();
    open();
    ASSERT_TRUE(area) << message();
    const auto key = unseal(*area->identity().key, node);
    ASSERT_TRUE(key) << key.error().message;
    blocks = std::make_unique<CipherStore>(data, pool, *key, [this](const VolumeKey& next, IoCallback done) {
      area->write_key(seal(next, node), std::move(done));
    });
  }
  template <class Start>
  std::error_code outcome(Start start) {
    std::error_code result = Errc::timed_out;
    start([&result](std::error_code e) { result = e; });
    while (data.waiting() + store.waiting() > 0) data.run(), store.run();
    return result;
  }
  std::error_code write(const Bytes& from) {
    return outcome([&](IoCallback done) { blocks->write(0, from, Durability::durable, std::move(done)); });
  }
  std::error_code renew_key() {
    return outcome([&](IoCallback done) { blocks->renew_key(std::move(done)); });
  }
  Bytes read() {
    Bytes into(4096);
    EXPECT_FALSE(outcome([&](IoCallback done) { blocks->read(0, into, std::move(done)); }));
    return into;
  }
};

TEST_F(EncryptedReplica, ReadsWhatItAcknowledgedAlsoWhenItsKeyWasSavedOnlyByHalf) {
  identity.key = seal(new_key(), node);
  for (const std::uint64_t slot : {0, 1}) {
    format();
    attach();
    Bytes acknowledged = counting(4096, 1);
    ASSERT_FALSE(write(acknowledged));
    store.fail = [&](char kind, Extent extent) { return kind == 'w' && extent.offset == slot * layout::kBlock; };
    EXPECT_EQ(renew_key(), make_error_code(Errc::io_error));
    store.fail = [](char, Extent) { return false; };
    const Bytes later = counting(4096, 2);
    const auto written = write(later);
    EXPECT_EQ(written, make_error_code(Errc::io_error)) << "slot " << slot;
    EXPECT_EQ(renew_key(), make_error_code(Errc::io_error)) << "slot " << slot;

    attach();
    if (!written) {
      EXPECT_EQ(read(), later) << "slot " << slot;
    }
    ASSERT_FALSE(write(later));
    attach();
    EXPECT_EQ(read(), later) << "slot " << slot;
    EXPECT_FALSE(renew_key()) << "and another key is taken again";
  }
}

}  // namespace
}  // namespace lockstep::engine
