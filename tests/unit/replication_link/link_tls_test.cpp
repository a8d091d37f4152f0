// The partner link with TLS, over real TCP: it carries what it carries without, and whoever is not the partner gets
// nothing, not even a login.
#include "tests/unit/engine/tls_fixture.hpp"
#include "tests/unit/replication_link/link_fixture.hpp"

namespace lockstep::replication {

using engine::StreamProtection;
using engine::TlsRole;
using engine::test::context_of;
using engine::test::MadeCertificate;
using engine::test::make_certificate;

class PartnerLinkWithTls : public World {
 protected:
  void start_server(TlsRole role = TlsRole::server) {
    World::start_server();
    server_->protect({context_of(there_, {here_.fingerprint}), role});
    server_->on_event([this](const iscsi_target::SessionEvent& event) {
      if (event.kind == iscsi_target::SessionEvent::Kind::refused) told_ = event.reason;
    });
  }
  IscsiLinkSettings settings(const MadeCertificate& shown, const std::string& expected) {
    IscsiLinkSettings s = World::settings();
    s.tls = context_of(shown, {expected});
    return s;
  }
  [[nodiscard]] bool problem_says(const char* what) {
    return eventually([&] { return link_->problem().find(what) != std::string::npos; });
  }
  [[nodiscard]] bool told(const char* what) {
    return eventually([&] { return told_.find(what) != std::string::npos; });
  }

  MadeCertificate here_ = make_certificate(), there_ = make_certificate();
  std::string told_;
};

TEST_F(PartnerLinkWithTls, CarriesPayloadsOfEverySizeBothWays) {
  start_server();
  start_link(settings(here_, there_.fingerprint));
  ASSERT_TRUE(eventually([this] { return link_->is_up(); })) << run([this] { return link_->problem(); });
  EXPECT_EQ(run([this] { return std::string(link_->cipher()); }), "TLS_AES_256_GCM_SHA384");
  for (const std::size_t size : {1U, 511U, 4096U, 65536U, 262144U, 262145U, 1U << 20}) {
    const auto out = pattern(size, 3);
    std::vector<std::byte> in(size);
    const auto answer = send("payload", out, in).get();
    ASSERT_TRUE(answer.header) << size;
    EXPECT_EQ(answer.payload, size);
    EXPECT_EQ(in, out) << size;
  }
}

TEST_F(PartnerLinkWithTls, ManyRequestsAtOnceAreAnsweredEachWithItsOwn) {
  start_server();
  start_link(settings(here_, there_.fingerprint));
  ASSERT_TRUE(eventually([this] { return link_->is_up(); }));
  const auto out = pattern(100'000, 9);
  std::vector<std::future<Answer>> answers;
  std::vector<std::vector<std::byte>> in(64, std::vector<std::byte>(out.size()));
  for (int i = 0; i < 64; ++i)
    answers.push_back(send("request " + std::to_string(i), out, in[static_cast<std::size_t>(i)]));
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(*answers[static_cast<std::size_t>(i)].get().header, "request " + std::to_string(i));
    EXPECT_EQ(in[static_cast<std::size_t>(i)], out);
  }
}

TEST_F(PartnerLinkWithTls, ANodeWithAnotherCertificateIsRefusedAndToldSo) {
  start_server();
  const MadeCertificate stranger = make_certificate();
  start_link(settings(stranger, there_.fingerprint));
  EXPECT_TRUE(problem_says("refuses this node's certificate")) << run([this] { return link_->problem(); });
  EXPECT_TRUE(told("not the one that the pair knows")) << told_;
  EXPECT_TRUE(run([this] { return node_.events; }).empty());
}

TEST_F(PartnerLinkWithTls, APartnerWithAnotherCertificateIsGivenNoLogin) {
  start_server();
  start_link(settings(here_, make_certificate().fingerprint));
  EXPECT_TRUE(problem_says("not the one that the pair knows")) << run([this] { return link_->problem(); });
  EXPECT_TRUE(run([this] { return node_.events; }).empty());
}

TEST_F(PartnerLinkWithTls, ACertificateThatHasExpiredIsRefusedByItsName) {
  here_ = make_certificate(-7200, -3600);
  start_server();
  start_link(settings(here_, there_.fingerprint));
  EXPECT_TRUE(told("has expired")) << told_;
  EXPECT_TRUE(run([this] { return node_.events; }).empty());
}

TEST_F(PartnerLinkWithTls, ALoginWithoutTlsIsClosedUnansweredWhereTlsIsRequired) {
  start_server();
  start_link(World::settings());
  EXPECT_TRUE(told("does not speak TLS")) << told_;
  EXPECT_TRUE(run([this] { return node_.events; }).empty());
  EXPECT_TRUE(run([this] { return partner_.events; }).empty());
}

TEST_F(PartnerLinkWithTls, ALoginWithoutTlsIsLetInWhileThePairGoesOverToIt) {
  start_server(TlsRole::server_or_plain);
  start_link(World::settings());
  ASSERT_TRUE(eventually([this] { return link_->is_up(); })) << run([this] { return link_->problem(); });
  EXPECT_EQ(*send("plain").get().header, "plain");
  EXPECT_TRUE(run([this] { return link_->cipher().empty(); }));
  run([this] { link_->change(settings(here_, there_.fingerprint)); });
  ASSERT_TRUE(eventually([this] { return link_->is_up() && !link_->cipher().empty(); }));
  EXPECT_EQ(*send("encrypted").get().header, "encrypted");
}

TEST_F(PartnerLinkWithTls, APartnerThatDoesNotKnowTlsIsNotSpokenToWithout) {
  World::start_server();
  start_link(settings(here_, there_.fingerprint));
  EXPECT_TRUE(problem_says("TLS")) << run([this] { return link_->problem(); });
  EXPECT_TRUE(run([this] { return partner_.events; }).empty());
}

}  // namespace lockstep::replication
