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

TEST_F(PartnerLinkWithTls, IsToBeMadeAnewBeforeItsKeysAreUsedUp) {
  start_server();
  auto with = settings(here_, there_.fingerprint);
  with.renewal_after_bytes = 4 << 20;
  with.ping_after = 20ms;
  start_link(with);
  ASSERT_TRUE(eventually([this] { return link_->is_up(); }));
  const auto data = pattern(1 << 20, 3);
  ASSERT_TRUE(send("payload", data).get().header);
  EXPECT_FALSE(run([this] { return link_->wants_renewal(); }));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(send("payload", data).get().header);
  ASSERT_TRUE(eventually([this] { return link_->wants_renewal(); }));
  run([this] { link_->reset(); });
  ASSERT_TRUE(eventually([this] { return node_.events == std::vector<std::string>{"up", "down", "up"}; }));
  EXPECT_FALSE(run([this] { return link_->wants_renewal(); }));
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

TEST_F(PartnerLinkWithTls, WhatIsOnItsWayWhenTheSessionIsGivenUpIsCalledBackAndItsMemoryIsNotTouchedAnyMore) {
  start_server();
  start_link(settings(here_, there_.fingerprint));
  ASSERT_TRUE(eventually([this] { return link_->is_up(); }));
  run([this] { partner_.answering = false; });
  auto out = pattern(1 << 20, 5);
  std::vector<std::byte> in(1 << 20);
  for (int round = 0; round < 8; ++round) {
    ASSERT_TRUE(eventually([this] { return link_->is_up(); }));
    std::vector<std::future<Answer>> answers;
    for (int i = 0; i < 12; ++i) answers.push_back(send("held", out, in));
    run([this] { link_->reset(); });  // most of it is not sent yet
    for (auto& answer : answers) EXPECT_EQ(answer.get().header.error(), Errc::unknown_outcome);
    std::ranges::fill(in, std::byte{0x5A});
    run([this] {
      for (auto* request : std::exchange(partner_.held, {})) Partner::echo(*request);
    });
    EXPECT_TRUE(std::ranges::all_of(in, [](std::byte b) { return b == std::byte{0x5A}; }));
  }
  run([this] { partner_.answering = true; });
  ASSERT_TRUE(eventually([this] { return link_->is_up(); }));
  std::ranges::fill(in, std::byte{});
  ASSERT_TRUE(send("after", out, in).get().header);
  EXPECT_EQ(in, out);
}

TEST_F(PartnerLinkWithTls, ALinkThatIsStoppedInItsLoginSaysNothingMore) {
  start_server();
  for (int turns = 0; turns < 12; ++turns) {  // of the reactor, so that each step of the login is met
    start_link(settings(here_, there_.fingerprint));
    for (int i = 0; i < turns; ++i) run([] {});
    run([this] {
      link_.reset();
      node_.events.clear();
    });
  }
  run([] {});
  EXPECT_TRUE(run([this] { return node_.events; }).empty());
}

TEST_F(PartnerLinkWithTls, AServerThatStopsEndsWhoeverIsStillInTheHandshake) {
  start_server();
  std::vector<engine::TcpSocket> silent;
  std::vector<std::unique_ptr<engine::TcpConnector>> connectors;
  run([&] {
    for (int i = 0; i < 4; ++i) {
      connectors.push_back(std::make_unique<engine::TcpConnector>(
          reactor_, "", address_, 5s,
          [&](engine::Result<engine::TcpSocket> socket) { silent.push_back(std::move(*socket)); }));
    }
  });
  ASSERT_TRUE(eventually([&] { return silent.size() == 4; }));
  stop_server();
  run([&] {
    silent.clear();
    connectors.clear();
  });
}

TEST_F(PartnerLinkWithTls, APartnerThatDoesNotKnowTlsIsNotSpokenToWithout) {
  World::start_server();
  start_link(settings(here_, there_.fingerprint));
  EXPECT_TRUE(problem_says("TLS")) << run([this] { return link_->problem(); });
  EXPECT_TRUE(run([this] { return partner_.events; }).empty());
}

}  // namespace lockstep::replication
