// What the page shows: the operator's certificate, or a self-made one that is made anew near its end.
#include "mgmt/control/page_certificate.hpp"

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "engine/base/openssl.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/control/shown_certificate.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::mgmt {
namespace {

using engine::openssl::Bio;
using engine::openssl::Certificate;
using engine::openssl::Key;

constexpr std::int64_t kDay = PageCertificate::kDay;
const std::vector<std::string> kHosts{"node-a", "10.0.0.11", "localhost", "127.0.0.1", "::1"};

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long length = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(length)};
}

/// One certificate of an operator's: of an authority, or its own.
struct Issued {
  Key key{EVP_EC_gen("P-256")};
  Certificate certificate{X509_new()};

  Issued(const char* name, const char* names, const Issued* issuer, std::int64_t from_ms, std::int64_t until_ms) {
    X509* x = certificate.get();
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 7);
    ASN1_TIME_set(X509_getm_notBefore(x), from_ms / 1000);
    ASN1_TIME_set(X509_getm_notAfter(x), until_ms / 1000);
    X509_set_pubkey(x, key.get());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(issuer ? issuer->certificate.get() : x));
    if (*names) {
      X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names);
      X509_add_ext(x, extension, -1);
      X509_EXTENSION_free(extension);
    }
    X509_sign(x, issuer ? issuer->key.get() : key.get(), EVP_sha256());
  }
  [[nodiscard]] std::string pem() const {
    const Bio bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509(bio.get(), certificate.get());
    return text_of(bio.get());
  }
  [[nodiscard]] std::string key_pem(const char* passphrase = nullptr) const {
    const Bio bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_PKCS8PrivateKey(bio.get(), key.get(), passphrase ? EVP_aes_256_cbc() : nullptr, passphrase,
                                  passphrase ? 4 : 0, nullptr, nullptr);
    return text_of(bio.get());
  }
};

class PageCertificateTest : public ::testing::Test {
 protected:
  test::TemporaryFolder folder_;
  std::int64_t now_ = wall_clock_ms();
  TlsIdentity first_ = load_or_make_identity(folder_.path(), kHosts).value_or(TlsIdentity{});
  Issued authority_{"An authority", "", nullptr, now_ - kDay, now_ + 1000 * kDay};
  Issued own_{"node-a.example", "DNS:node-a.example,IP:10.0.0.11", &authority_, now_ - kDay, now_ + 90 * kDay};

  [[nodiscard]] PageCertificate::View view() const { return PageCertificate(folder_.path(), first_, kHosts).view(); }
  [[nodiscard]] std::string refusal(const std::string& certificates, const std::string& key) const {
    PageCertificate p(folder_.path(), first_, kHosts);
    const auto used = p.use_own(certificates, key, now_);
    if (used) return "taken";
    EXPECT_EQ(used.error().kind, RefusalKind::invalid);
    EXPECT_FALSE(p.view().own);
    return used.error().fields.at(0).pointer + ": " + used.error().fields.at(0).detail;
  }
};

TEST_F(PageCertificateTest, TheFirstNamesTheNodeByNameAndAddressAndIsShown) {
  const auto view = this->view();
  EXPECT_FALSE(view.own);
  EXPECT_EQ(view.facts.names, (std::vector<std::string>{"node-a", "10.0.0.11", "localhost", "127.0.0.1", "::1"}));
  EXPECT_EQ(view.facts.fingerprint, first_.fingerprint);
  EXPECT_TRUE(view.missing.empty());
}

TEST_F(PageCertificateTest, AnOwnOneIsShownWithItsChainAlsoAfterARestartUntilItIsDropped) {
  PageCertificate p(folder_.path(), first_, kHosts);
  const auto used = p.use_own(own_.pem() + authority_.pem(), own_.key_pem(), now_);
  ASSERT_TRUE(used) << used.error().fields.at(0).detail;
  EXPECT_TRUE(used->own);
  EXPECT_EQ(used->facts.subject, "CN=node-a.example");
  EXPECT_EQ(used->facts.issuer, "CN=An authority");
  EXPECT_EQ(used->missing, std::vector<std::string>{"node-a"});
  PageCertificate later(folder_.path(), first_, kHosts);
  EXPECT_EQ(later.view().facts.fingerprint, used->facts.fingerprint);
  EXPECT_EQ(fingerprint_of_pem(read_file(folder_.path() / "page.crt").value_or("")), used->facts.fingerprint);
  EXPECT_EQ(first_.fingerprint, load_or_make_identity(folder_.path(), kHosts)->fingerprint) << "the partner's pin";
  ASSERT_TRUE(later.drop_own(now_));
  EXPECT_EQ(later.view().facts.fingerprint, first_.fingerprint);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "page.crt"));
  EXPECT_EQ(later.drop_own(now_).error().kind, RefusalKind::not_found);
}

TEST_F(PageCertificateTest, WhatIsNotFitIsRefusedAndNothingIsChanged) {
  const Issued other("node-a.example", "DNS:node-a.example", nullptr, now_ - kDay, now_ + kDay);
  const Issued over("node-a.example", "DNS:node-a.example", nullptr, now_ - 2 * kDay, now_ - kDay);
  const Issued early("node-a.example", "DNS:node-a.example", nullptr, now_ + kDay, now_ + 2 * kDay);
  const Issued nameless("node-a.example", "", nullptr, now_ - kDay, now_ + kDay);
  EXPECT_NE(refusal("", own_.key_pem()).find("/certificate: Holds no certificate"), std::string::npos);
  EXPECT_NE(refusal(own_.pem(), "").find("/key: Holds no private key"), std::string::npos);
  EXPECT_NE(refusal(own_.pem(), other.key_pem()).find("/key: Is not the key"), std::string::npos);
  EXPECT_NE(refusal(own_.pem(), own_.key_pem("four")).find("passphrase"), std::string::npos);
  EXPECT_NE(refusal(over.pem(), over.key_pem()).find("expired"), std::string::npos);
  EXPECT_NE(refusal(early.pem(), early.key_pem()).find("not valid before"), std::string::npos);
  EXPECT_NE(refusal(nameless.pem(), nameless.key_pem()).find("Names no host"), std::string::npos);
  EXPECT_NE(refusal(own_.pem() + other.pem(), own_.key_pem()).find("did not issue"), std::string::npos);
  EXPECT_NE(refusal(std::string(70000, 'x'), own_.key_pem()).find("longer"), std::string::npos);
  EXPECT_EQ(refusal(own_.pem(), own_.key_pem()), "taken");
}

TEST_F(PageCertificateTest, AnOwnOneIsWarnedOfThirtyDaysBeforeItsEndAndNeverReplaced) {
  PageCertificate p(folder_.path(), first_, kHosts);
  ASSERT_TRUE(p.use_own(own_.pem(), own_.key_pem(), now_));
  EXPECT_EQ(p.problem(now_ + 59 * kDay), "");
  EXPECT_NE(p.problem(now_ + 61 * kDay).find("expires"), std::string::npos);
  EXPECT_NE(p.problem(now_ + 91 * kDay).find("expired"), std::string::npos);
  EXPECT_FALSE(p.renew_if_due(now_ + 91 * kDay));
  EXPECT_TRUE(p.view().own);
}

TEST_F(PageCertificateTest, ASelfMadeOneIsMadeAnewBeforeItsEndAndThePartnersPinStays) {
  PageCertificate p(folder_.path(), first_, {"renamed", "10.0.0.11"});
  EXPECT_FALSE(p.renew_if_due(now_ + 3580 * kDay));
  EXPECT_EQ(p.view().missing, std::vector<std::string>{"renamed"});
  const std::int64_t then = now_ + 3600 * kDay;
  EXPECT_TRUE(p.renew_if_due(then));
  EXPECT_FALSE(p.renew_if_due(then)) << "once";
  const auto view = p.view();
  EXPECT_FALSE(view.own);
  EXPECT_EQ(view.facts.names, (std::vector<std::string>{"renamed", "10.0.0.11"}));
  EXPECT_GT(view.facts.until_ms, then + 3600 * kDay);
  EXPECT_EQ(p.problem(then), "");
  EXPECT_EQ(this->view().facts.fingerprint, view.facts.fingerprint) << "after a restart, too";
  EXPECT_EQ(load_or_make_identity(folder_.path(), kHosts)->fingerprint, first_.fingerprint);
  EXPECT_TRUE(p.renew_if_due(then + 3600 * kDay)) << "and again";
}

TEST_F(PageCertificateTest, AnOwnOneThatIsDamagedIsSaidAndASelfMadeOneIsShown) {
  ASSERT_TRUE(write_private_file(folder_.path() / "page-own.pem", "rubbish"));
  PageCertificate p(folder_.path(), first_, kHosts);
  EXPECT_FALSE(p.view().own);
  EXPECT_NE(p.problem(now_).find("can't be used"), std::string::npos);
  ASSERT_TRUE(p.drop_own(now_));
  EXPECT_EQ(p.problem(now_), "");
}

}  // namespace
}  // namespace lockstep::mgmt
