// The partner link over RDMA as those who mean harm meet it: who may speak, what can be read, and what was changed.
#include <list>

#include "tests/unit/replication_link/two_ways.hpp"

namespace lockstep::replication {
namespace {

class EncryptedLinkOverRdma : public TwoWays {
 protected:
  [[nodiscard]] bool is_protected() const override { return true; }
};

TEST_F(EncryptedLinkOverRdma, IsRefusedWhileThePartnerHasNoTls) {
  server_->protect({});
  run([this] { fabric_.lose(fabric_.connections().back()); });
  EXPECT_TRUE(problem_says("over RDMA")) << run([this] { return paths_[kRdma]->problem(); });
  EXPECT_TRUE(told("wants to be encrypted")) << told_;
  EXPECT_FALSE(is_joined());
}

TEST_F(EncryptedLinkOverRdma, IsLetInBothWaysWhileThePairGoesOverToIt) {
  server_->protect({of_b_, engine::TlsRole::server_or_plain});
  call_again(nullptr);
  ASSERT_TRUE(eventually([this] { return link_->paths().joined().contains(PathSlot{kRdma}); }));
  EXPECT_EQ(cipher(), "");
  call_again(of_a_);
  ASSERT_TRUE(eventually([this] { return link_->paths().joined().contains(PathSlot{kRdma}); }));
  EXPECT_EQ(cipher(), "AES-256-GCM");
}

/// Takes calls as a program does that knows no encryption.
struct OlderTarget final : rdma::QueuePairUser {
  void on_established(std::span<const std::byte>) override {}
  void on_completion(const rdma::Completion&) override {}
  void on_lost(std::error_code) override { lost = true; }
  std::unique_ptr<rdma::QueuePair> pair;
  bool lost = false;
};

TEST_F(EncryptedLinkOverRdma, SaysSoOfAPartnerThatKnowsNone) {
  std::list<OlderTarget> taken;
  std::unique_ptr<rdma::Listener> listener;
  server_->stop_listening(address_);
  run([&, this] {
    listener = *other_fabric_.listen(*there_.completions, address_, [&, this](std::unique_ptr<rdma::Call> call) {
      OlderTarget& target = taken.emplace_back();
      const rdma::Wanted wanted{.sends = 8, .receives = 8};
      target.pair = call->accept(*there_.completions, rdma::Domain::link, wanted, iser::private_data(true), target);
    });
    fabric_.lose(fabric_.connections().back());
  });
  EXPECT_TRUE(problem_says("knows no encryption over RDMA")) << run([this] { return paths_[kRdma]->problem(); });
  std::size_t closed = 0;
  const std::size_t all = run([&] {
    listener.reset();
    for (OlderTarget& target : taken) target.pair->close([&closed] { ++closed; });
    return taken.size();
  });
  EXPECT_TRUE(eventually([&] { return closed == all; }));
  run([&] { taken.clear(); });
}

TEST_F(EncryptedLinkOverRdma, ANodeWithAnotherCertificateIsRefusedAndToldSo) {
  call_again(engine::test::context_of(engine::test::make_certificate(), {b_.fingerprint}));
  EXPECT_TRUE(problem_says("refuses this node's certificate")) << run([this] { return paths_[kRdma]->problem(); });
  EXPECT_TRUE(told("not the one that the pair knows")) << told_;
  EXPECT_FALSE(is_joined());
}

TEST_F(EncryptedLinkOverRdma, ANodeWhoseCertificateHasExpiredIsRefusedByThat) {
  const auto old = engine::test::make_certificate(-7200, -3600);
  server_->protect({engine::test::context_of(b_, {old.fingerprint}), engine::TlsRole::server});
  call_again(engine::test::context_of(old, {b_.fingerprint}));
  EXPECT_TRUE(told("has expired")) << told_;
  EXPECT_FALSE(is_joined());
}

TEST_F(EncryptedLinkOverRdma, APartnerWithAnotherCertificateIsGivenNoLogin) {
  call_again(engine::test::context_of(a_, {engine::test::make_certificate().fingerprint}));
  EXPECT_TRUE(problem_says("not the one that the pair knows")) << run([this] { return paths_[kRdma]->problem(); });
  EXPECT_FALSE(is_joined());
}

TEST_F(EncryptedLinkOverRdma, ConnectionsWithoutEncryptionEndWhenAllHaveToBeEncrypted) {
  server_->protect({of_b_, engine::TlsRole::server_or_plain});
  call_again(nullptr);
  ASSERT_TRUE(eventually([this] { return link_->paths().joined().contains(PathSlot{kRdma}); }));
  server_->protect({of_b_, engine::TlsRole::server});
  EXPECT_TRUE(eventually([this] { return !link_->paths().joined().contains(PathSlot{kRdma}); }));
  EXPECT_TRUE(problem_says("over RDMA"));
  call_again(of_a_);
  ASSERT_TRUE(eventually([this] { return link_->paths().joined().contains(PathSlot{kRdma}); }));
  const auto downs = run([this] { return ends_[kRdma]->downs; });
  server_->protect({of_b_, engine::TlsRole::server});
  run([this] {
    for (int i = 0; i < 20; ++i) send(i, 20'000);
  });
  ASSERT_TRUE(all_done(20));
  EXPECT_EQ(run([this] { return ends_[kRdma]->downs; }), downs) << "what is encrypted goes on";
}

// The first four messages of a connection are the caller's, the target's and the caller's of the handshake, and the
// login.
TEST_F(EncryptedLinkOverRdma, ComesBackWhenAnyMessageOfItsBeginningWasDamaged) {
  for (unsigned message = 0; message < 6; ++message) {
    run([&, this] {
      fabric_.lose(fabric_.connections().back());
      fabric_.damage_next(rdma::Work::send, 100, message);
    });
    ASSERT_TRUE(eventually([this] { return !link_->paths().joined().contains(PathSlot{kRdma}); }));
    ASSERT_TRUE(eventually([this] {
      return fabric_.damages() == 0 && link_->paths().joined().contains(PathSlot{kRdma});
    })) << message;
    EXPECT_GE(run([this] { return ends_[kRdma]->downs + failed_calls_; }), message + 1) << "each was noticed";
  }
  EXPECT_EQ(cipher(), "AES-256-GCM");
}

TEST_F(EncryptedLinkOverRdma, ShakesHandsWithCertificatesOfManyMessages) {
  auto long_a = a_, long_b = b_;
  for (int i = 0; i < 40; ++i) {
    long_a.certificate += engine::test::make_certificate().certificate;
    long_b.certificate += engine::test::make_certificate().certificate;
  }
  server_->protect({engine::test::context_of(long_b, {a_.fingerprint}), engine::TlsRole::server});
  call_again(engine::test::context_of(long_a, {b_.fingerprint}));
  ASSERT_TRUE(eventually([this] { return link_->paths().joined().contains(PathSlot{kRdma}); }))
      << run([this] { return paths_[kRdma]->problem(); });
  EXPECT_EQ(told_, "");
}

TEST_F(EncryptedLinkOverRdma, WaitsForMemoryToEncryptToAndHeartbeatsDoNot) {
  auto held = run([this] {
    std::vector<engine::Buffer> all;
    while (here_.copies.capacity() - here_.copies.in_use() > iser::kCopiesAhead) {
      all.push_back(here_.copies.allocate(kMiB));
    }
    for (int i = 0; i < 40; ++i) send(i, 20'000);
    return all;
  });
  const auto said = heartbeat();
  const auto volumes = pattern(20'000, 7);
  int beats = 0;
  run([&, this] {
    listening_.heard = [&](InboundRequest& request) {
      EXPECT_TRUE(std::ranges::equal(request.payload(), volumes));
      request.answer(said, {}, {});
    };
    for (int i = 0; i < 8; ++i) link_->send(said, volumes, {}, [&](const auto& r) { beats += r ? 1 : 0; });
  });
  EXPECT_TRUE(eventually([&] { return beats == 8; })) << beats;
  EXPECT_EQ(run([this] { return done_ + failed_; }), 0);
  run([&] { held.clear(); });
  ASSERT_TRUE(all_done(40));
  expect_in_order(40);
  EXPECT_EQ(ends_[kRdma]->downs, 0u);
}

using WatchedLinkOverRdma = LinkOverRdma;
INSTANTIATE_TEST_SUITE_P(Whether, WatchedLinkOverRdma, testing::Values(LinkKind::plain, LinkKind::encrypted),
                         [](const auto& one) {
                           return std::string(one.param == LinkKind::plain ? "Plain" : "Encrypted");
                         });

TEST_P(WatchedLinkOverRdma, IsReadOnTheWireUnlessItIsEncrypted) {
  constexpr std::string_view kSaid = "what nobody else may read: ";
  std::uint64_t moved = 0, read = 0;
  run([&, this] {
    fabric_.watch([&](std::span<const std::byte> bytes) {
      moved += bytes.size();
      const std::string_view text{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
      if (text.find(kSaid) != std::string_view::npos) ++read;
    });
  });
  std::vector<std::vector<std::byte>> out, in;
  for (const std::size_t size : kSizes) {
    auto& payload = out.emplace_back(size);
    for (std::size_t i = 0; i < size; ++i) payload[i] = static_cast<std::byte>(kSaid[i % kSaid.size()]);
    in.emplace_back(size);
  }
  run([&, this] {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::string header = std::to_string(i) + std::string(kSaid);
      link_->send(as_bytes(header), out[i], in[i], [&, this, i](const auto& r) {
        EXPECT_TRUE(r && in[i] == out[i]);
        ++done_;
      });
    }
  });
  ASSERT_TRUE(all_done(static_cast<int>(out.size())));
  EXPECT_GT(moved, 2 * kMiB);
  EXPECT_EQ(read == 0, is_protected()) << read;
  EXPECT_EQ(cipher(), is_protected() ? "AES-256-GCM" : "");
  const auto copied = run([this] { return here_.figures.copied.cipher; });
  EXPECT_EQ(copied > 2 * kMiB, is_protected()) << copied;
  run([this] { fabric_.watch({}); });
}

struct Damage {
  rdma::Work work;
  std::size_t least;  ///< bytes of the message or the data
  std::size_t size;   ///< of the request that is damaged, so that its last byte is no padding
  unsigned passed;    ///< such works before it
  const char* name;
};
class DamagedOverRdma : public TwoWays, public testing::WithParamInterface<std::tuple<Damage, LinkKind>> {
 protected:
  [[nodiscard]] static const Damage& damage() { return std::get<Damage>(GetParam()); }
  [[nodiscard]] bool is_protected() const override { return std::get<LinkKind>(GetParam()) == LinkKind::encrypted; }
};

// Nothing but the checksum, or the cipher's tag, finds it: the network's own ends at the network cards.
TEST_P(DamagedOverRdma, IsNoticedAndSentAgainByAnotherPath) {
  ASSERT_TRUE(eventually([this] { return link_->paths().is_proven(PathSlot{kRdma}); }));
  const unsigned downs = run([this] {
    fabric_.damage_next(damage().work, damage().least, damage().passed);
    send(0, damage().size);
    return ends_[kRdma]->downs;
  });
  ASSERT_TRUE(all_done(1));
  ASSERT_TRUE(eventually([&, this] { return ends_[kRdma]->downs == downs + 1; }));
  expect_in_order(1);
  // A checksum within would find it, too: of an encrypted link it is the cipher that has to.
  const auto found = run([this] { return paths_[kRdma]->problem() + " " + ended_; });
  EXPECT_EQ(found.find("changed on the way") != std::string::npos, is_protected()) << found;
  ASSERT_TRUE(eventually([this] { return link_->paths().joined().contains(PathSlot{kRdma}); }));
}

INSTANTIATE_TEST_SUITE_P(
    EachWay, DamagedOverRdma,
    testing::Combine(testing::Values(Damage{rdma::Work::send, 4096, 4096, 0, "APayloadThatComesWithItsRequest"},
                                     Damage{rdma::Work::send, 1000, 1001, 1, "AnAnswersPayload"},
                                     Damage{rdma::Work::read, 20'000, 20'000, 0, "APayloadThatIsRead"},
                                     Damage{rdma::Work::write, 20'000, 20'000, 0, "AnAnswersPayloadThatIsWritten"}),
                     testing::Values(LinkKind::plain, LinkKind::encrypted)),
    [](const auto& one) {
      return std::get<Damage>(one.param).name +
             std::string(std::get<LinkKind>(one.param) == LinkKind::plain ? "" : "Encrypted");
    });

// Whoever has guessed a key may write by it until its window is shut.
TEST_P(WatchedLinkOverRdma, LooksAtWhatWasWrittenWhenItsWindowIsShut) {
  run([this] { other_fabric_.device().invalidates = false; });  // so that the caller has to
  run([this] { fabric_.lose(fabric_.connections().back()); });
  ASSERT_TRUE(eventually([this] { return ends_[kRdma]->downs == 1; }));
  ASSERT_TRUE(eventually([this] { return link_->paths().is_proven(PathSlot{kRdma}); }));
  run([this] {
    fabric_.damage_next(rdma::Work::hide, 20'000);
    send(0, 20'000);
  });
  ASSERT_TRUE(all_done(1));
  ASSERT_TRUE(eventually([this] { return ends_[kRdma]->downs == 2; }));
  expect_in_order(1);
}

}  // namespace
}  // namespace lockstep::replication
