// The partner link: what it carries, in which order, and how it comes up and goes down.
#include "replication/link/link_trial.hpp"
#include "tests/unit/replication_link/link_fixture.hpp"

namespace lockstep::replication {
namespace {

TEST_F(PartnerLink, CarriesHeadersBothWays) {
  connect();
  EXPECT_EQ(*send("hello").get().header, "hello");
  EXPECT_EQ(*send(std::string(kMaxLinkHeader, 'h')).get().header, std::string(kMaxLinkHeader, 'h'));
  EXPECT_EQ(*send("").get().header, "");
  EXPECT_EQ(run([this] { return partner_.events; }), std::vector<std::string>{"up 1"});
}

TEST_F(PartnerLink, CarriesPayloadsOfEverySizeBothWays) {
  connect();
  for (const std::size_t size :
       {1ul, 3ul, 512ul, 4096ul, 8191ul, 65536ul, 262144ul, 262145ul, 524288ul, kMaxLinkPayload}) {
    const auto out = pattern(size, 7);
    std::vector<std::byte> in(size, std::byte{0});
    const auto answer = send("p" + std::to_string(size), out, in).get();
    ASSERT_TRUE(answer.header) << size << " " << answer.header.error().message();
    EXPECT_EQ(*answer.header, "p" + std::to_string(size));
    EXPECT_EQ(answer.payload, size);
    EXPECT_TRUE(in == out) << size;
  }
}

TEST_F(PartnerLink, CarriesPayloadOneWayOnly) {
  connect();
  const auto out = pattern(100000, 1);
  EXPECT_EQ(send("out", out).get().payload, 0u);
  EXPECT_EQ(run([this] { return partner_.seen.back().payload.size(); }), 100000u);
  std::vector<std::byte> in(1000);
  EXPECT_EQ(send("in", {}, in).get().payload, 0u);  // room that is not used
}

TEST_F(PartnerLink, DeliversInTheOrderOfSendingWhateverTheSizes) {
  connect();
  const auto large = pattern(kMaxLinkPayload, 3);
  const auto small = pattern(100, 4);
  std::vector<std::future<Answer>> answers;
  for (int i = 0; i < 600; ++i) {  // more than the window
    answers.push_back(send(std::to_string(i), i % 10 == 0  ? std::span<const std::byte>(large)
                                              : i % 3 == 0 ? std::span<const std::byte>(small)
                                                           : std::span<const std::byte>{}));
  }
  for (auto& answer : answers) ASSERT_TRUE(answer.get().header);
  run([this] {
    ASSERT_EQ(partner_.seen.size(), 600u);
    for (int i = 0; i < 600; ++i) ASSERT_EQ(partner_.seen[i].header, std::to_string(i));
  });
}

TEST_F(PartnerLink, TakesAnswersInAnyOrder) {
  connect();
  run([this] { partner_.answering = false; });
  auto first = send("first");
  auto second = send("second");
  ASSERT_TRUE(eventually([this] { return partner_.held.size() == 2; }));
  run([this] { Partner::echo(*partner_.held[1]); });
  EXPECT_EQ(*second.get().header, "second");
  run([this] {
    Partner::echo(*partner_.held[0]);
    partner_.held.clear();
  });
  EXPECT_EQ(*first.get().header, "first");
}

TEST_F(PartnerLink, KeepsAnAnswersPayloadUntilItIsSent) {
  connect();
  run([this] { partner_.answering = false; });
  std::vector<std::byte> in(kMaxLinkPayload);
  auto answer = send("read", {}, in);
  ASSERT_TRUE(eventually([this] { return partner_.held.size() == 1; }));
  auto data = std::make_shared<std::vector<std::byte>>(pattern(kMaxLinkPayload, 9));
  const auto expected = *data;
  bool inside = false;
  run([&, this] {
    inside = true;
    partner_.held[0]->answer(as_bytes("r"), *data, [&inside, data]() mutable {
      EXPECT_FALSE(inside);
      std::fill(data->begin(), data->end(), std::byte{0xEE});
    });
    partner_.held.clear();
    inside = false;
  });
  EXPECT_EQ(answer.get().payload, kMaxLinkPayload);
  EXPECT_TRUE(in == expected);
  EXPECT_TRUE(eventually([&] { return data->front() == std::byte{0xEE}; }));
}

TEST_F(PartnerLink, EndsEverythingWithUnknownOutcomeBeforeItSaysThatItIsDown) {
  connect();
  run([this] { partner_.answering = false; });
  std::vector<std::string> order;
  run([&, this] {
    for (int i = 0; i < 300; ++i) {  // some on the wire, some behind the window
      link_->send(as_bytes("x"), {}, {}, [&order, this](const engine::IoResult<LinkAnswer>& r) {
        EXPECT_EQ(r.error(), Errc::unknown_outcome);
        EXPECT_TRUE(link_->is_up());
        order.push_back("end");
        EXPECT_EQ(node_.events.back(), "up");
      });
    }
  });
  ASSERT_TRUE(eventually([this] { return !partner_.held.empty(); }));
  run([this] { link_->reset(); });
  ASSERT_TRUE(eventually([this] { return node_.events.size() >= 3; }));
  EXPECT_EQ(run([&] { return order.size(); }), 300u);
  EXPECT_EQ(run([this] { return node_.events; }), (std::vector<std::string>{"up", "down", "up"}));
  // The old session was gone before the new one was let in.
  EXPECT_EQ(run([this] { return partner_.events; }), (std::vector<std::string>{"up 1", "down 1", "up 2"}));
  // What the old session had asked may still be answered; nobody hears it.
  run([this] {
    for (auto* request : std::exchange(partner_.held, {})) Partner::echo(*request);
    partner_.answering = true;
  });
  EXPECT_EQ(*send("new").get().header, "new");
}

TEST_F(PartnerLink, SendingWhileItIsDownEndsLaterWithUnknownOutcome) {
  start_server();
  IscsiLinkSettings s = settings();
  s.address = "";
  start_link(s);
  bool inside = true;
  std::promise<std::error_code> ended;
  run([&, this] {
    link_->send(as_bytes("x"), {}, {}, [&](const engine::IoResult<LinkAnswer>& r) {
      EXPECT_FALSE(inside);
      ended.set_value(r.error());
    });
    inside = false;
  });
  EXPECT_EQ(ended.get_future().get(), Errc::unknown_outcome);
}

TEST_F(PartnerLink, ComesUpWhenThePartnerDoesAndAgainAfterItsRestart) {
  start_server();
  const std::string address = address_;
  stop_server();
  start_link(settings());
  ASSERT_TRUE(eventually([this] { return !link_->problem().empty(); }));
  EXPECT_FALSE(run([this] { return link_->is_up(); }));
  start_server(hello_of(NodeSide::b), address);
  ASSERT_TRUE(eventually([this] { return link_->is_up(); })) << run([this] { return link_->problem(); });
  stop_server();
  ASSERT_TRUE(eventually([this] { return node_.events.back() == "down"; }));
  start_server(hello_of(NodeSide::b), address);
  ASSERT_TRUE(eventually([this] { return node_.events.back() == "up"; }));
}

TEST_F(PartnerLink, DoesNotWaitForItsNextAttemptWhenThereIsNewsOfThePartner) {
  start_server();
  const std::string address = address_;
  stop_server();
  IscsiLinkSettings patient = settings();
  patient.first_retry = patient.last_retry = std::chrono::hours(1);
  start_link(patient);
  ASSERT_TRUE(eventually([this] { return !link_->problem().empty(); }));
  start_server(hello_of(NodeSide::b), address);
  run([this] { link_->try_at_once(); });
  EXPECT_TRUE(eventually([this] { return link_->is_up(); })) << run([this] { return link_->problem(); });
  run([this] { link_->try_at_once(); });
  EXPECT_TRUE(run([this] { return link_->is_up(); })) << "a session that stands is left alone";
}

TEST_F(PartnerLink, SpeaksTheHighestVersionThatBothKnowWhicheverIsNewer) {
  struct Case {
    LinkVersions here, there;
    std::uint16_t agreed;
  };
  for (const Case& c : {Case{{2, 2}, {2, 3}, 2}, Case{{2, 3}, {2, 2}, 2}, Case{{2, 4}, {3, 5}, 4}}) {
    Hello theirs = hello_of(NodeSide::b);
    theirs.versions = c.there;
    start_server(theirs);
    IscsiLinkSettings s = settings();
    s.identity.ours.versions = c.here;
    start_link(s);
    ASSERT_TRUE(eventually([this] { return link_->is_up(); })) << run([this] { return link_->problem(); });
    EXPECT_EQ(run([this] { return link_->version(); }), c.agreed);
    EXPECT_EQ(*send("hello").get().header, "hello");
    run([this] { link_.reset(); });
    stop_server();
  }
}

TEST_F(PartnerLink, IsRefusedWithTheReasonWhenThereIsNoVersionThatBothSpeak) {
  Hello newer = hello_of(NodeSide::b);
  const auto next = static_cast<std::uint16_t>(kPartnerVersions.highest + 1);
  newer.versions = {next, next};
  start_server(newer);
  start_link(settings());
  ASSERT_TRUE(eventually([this] { return link_->problem().find("upgrade node A") != std::string::npos; }));
  EXPECT_NE(run([this] { return refused_; }).find("version " + std::to_string(next)), std::string::npos);
  EXPECT_TRUE(run([this] { return partner_.events; }).empty());
  EXPECT_TRUE(run([this] { return node_.events; }).empty());
}

TEST_F(PartnerLink, IsRefusedWithTheReasonWhenThePartnerBelongsToAnotherPair) {
  start_server(hello_of(NodeSide::b, kOtherPair));
  start_link(settings());
  ASSERT_TRUE(eventually([this] { return link_->problem().find("belongs to pair") != std::string::npos; }));
}

TEST_F(PartnerLink, IsRefusedAtTheLoginWhenThePartnerDoesNotKnowThePair) {
  start_server();
  IscsiLinkSettings s = settings();
  s.identity.ours.pair = kOtherPair;
  start_link(s);
  ASSERT_TRUE(eventually([this] { return link_->problem().find("did not let us in") != std::string::npos; }));
}

TEST_F(PartnerLink, IsRefusedWithAWrongSecretEitherWay) {
  start_server();
  IscsiLinkSettings s = settings();
  s.identity.chap->secret = "wrong-secret-of-ours";
  start_link(s);
  ASSERT_TRUE(eventually([this] { return !link_->problem().empty(); }));
  run([this] { link_.reset(); });
  s = settings();
  s.identity.chap->mutual_secret = "wrong-secret-of-them";
  start_link(s);
  ASSERT_TRUE(eventually([this] { return !link_->problem().empty(); }));
  EXPECT_TRUE(run([this] { return node_.events; }).empty());
}

TEST_F(PartnerLink, TriesItsOtherWaysInTurnWhileTheFirstDoesNotWork) {
  start_server();
  IscsiLinkSettings s = settings();
  s.others = {{address_, "127.0.0.9:0"}};
  s.address = "127.0.0.1:1";
  start_link(s);
  ASSERT_TRUE(eventually([this] { return link_->is_up(); })) << run([this] { return link_->problem(); });
  EXPECT_EQ(run([this] { return link_->way(); }), (LinkWay{address_, "127.0.0.9:0"}));
}

TEST_F(PartnerLink, ATrialSucceedsBesideTheSessionThatStandsAndSaysNothingToThePartner) {
  connect();
  std::optional<std::string> outcome;
  std::unique_ptr<LinkTrial> trial;
  run([&] {
    trial =
        std::make_unique<LinkTrial>(reactor_, random_, settings(), [&](const std::string& said) { outcome = said; });
  });
  ASSERT_TRUE(eventually([&] { return outcome.has_value(); }));
  EXPECT_EQ(*outcome, "");
  EXPECT_EQ(*send("still there").get().header, "still there");
  EXPECT_EQ(run([this] { return node_.events; }), (std::vector<std::string>{"up"}));
  EXPECT_EQ(run([this] { return partner_.events; }), (std::vector<std::string>{"up 1"}));
  run([&] { trial.reset(); });
}

TEST_F(PartnerLink, ATrialNamesWhatDoesNotWork) {
  connect();
  const auto tried = [this](IscsiLinkSettings s) {
    std::optional<std::string> outcome;
    std::unique_ptr<LinkTrial> trial;
    run([&] {
      trial = std::make_unique<LinkTrial>(reactor_, random_, std::move(s),
                                          [&](const std::string& said) { outcome = said; });
    });
    EXPECT_TRUE(eventually([&] { return outcome.has_value(); }));
    run([&] { trial.reset(); });
    return outcome.value_or("");
  };
  IscsiLinkSettings nowhere = settings();
  nowhere.address = "127.0.0.1:1";
  EXPECT_NE(tried(nowhere).find("127.0.0.1:1"), std::string::npos);
  IscsiLinkSettings stranger = settings();
  stranger.identity.chap->secret = "wrong-secret-of-ours";
  EXPECT_NE(tried(stranger).find("did not let us in"), std::string::npos);
  IscsiLinkSettings foreign = settings();
  foreign.from = "192.0.2.1:0";  // no address of this machine's
  EXPECT_NE(tried(foreign), "");
  EXPECT_TRUE(run([this] { return link_->is_up(); }));
}

TEST_F(PartnerLink, ATrialThatIsGivenUpTellsNobody) {
  start_server();
  bool told = false;
  run([&] { const LinkTrial trial(reactor_, random_, settings(), [&](const std::string&) { told = true; }); });
  EXPECT_EQ(run([this] { return partner_.events.size(); }), 0u);
  EXPECT_FALSE(told);
}

TEST_F(PartnerLink, NoticesASilentPartnerWithinItsTimeAndSaysSo) {
  connect();
  // The partner's end stands still: its reactor is this test's, so the link gets a reactor of its own.
  engine::Reactor other;
  other.start();
  Node watcher;
  std::unique_ptr<IscsiLink> lonely;
  const auto on_other = [&](auto work) {
    std::promise<void> done;
    other.post([&] {
      work();
      done.set_value();
    });
    done.get_future().get();
  };
  run([this] { link_.reset(); });
  engine::SystemRandom random;
  on_other([&] {
    lonely = std::make_unique<IscsiLink>(other, random, settings());
    lonely->start(watcher);
  });
  const auto is = [&](const char* event) {
    bool so = false;
    on_other([&] { so = !watcher.events.empty() && watcher.events.back() == event; });
    return so;
  };
  while (!is("up")) std::this_thread::yield();
  std::promise<void> go_on;
  reactor_.post([wait = go_on.get_future().share()] { wait.wait(); });
  const auto begun = std::chrono::steady_clock::now();
  while (!is("down")) std::this_thread::yield();
  const auto took = std::chrono::steady_clock::now() - begun;
  EXPECT_GT(took, 700ms);
  EXPECT_LT(took, 3s);
  on_other([&] { EXPECT_NE(lonely->problem().find("silent"), std::string::npos); });
  go_on.set_value();
  while (!is("up")) std::this_thread::yield();
  on_other([&] { lonely.reset(); });
  other.stop();
  other.join();
}

/// What has come meanwhile waits in its sockets, unread.
TEST_F(PartnerLink, TakesItsOwnStandstillForNoSilenceOfThePartner) {
  connect();
  run([this] { link_.reset(); });
  engine::Reactor other;
  other.start();
  Node watcher;
  std::unique_ptr<IscsiLink> lonely;
  engine::SystemRandom random;
  const auto on_other = [&](auto work) {
    std::promise<void> done;
    other.post([&] {
      work();
      done.set_value();
    });
    done.get_future().get();
  };
  on_other([&] {
    lonely = std::make_unique<IscsiLink>(other, random, settings());
    lonely->start(watcher);
  });
  const auto events = [&] {
    std::vector<std::string> all;
    on_other([&] { all = watcher.events; });
    return all;
  };
  while (events().empty()) std::this_thread::yield();
  on_other([] { std::this_thread::sleep_for(1300ms); });  // it stands still
  std::this_thread::sleep_for(500ms);                     // … and looks around, several times
  EXPECT_EQ(events(), std::vector<std::string>{"up"});
  on_other([&] { lonely.reset(); });
  other.stop();
  other.join();
}

TEST_F(PartnerLink, StaysUpWhileAnAnswerTakesLong) {
  connect();
  run([this] { partner_.answering = false; });
  auto answer = send("slow");
  EXPECT_EQ(answer.wait_for(2500ms), std::future_status::timeout);
  EXPECT_EQ(run([this] { return node_.events; }), std::vector<std::string>{"up"});
  run([this] {
    for (auto* request : std::exchange(partner_.held, {})) Partner::echo(*request);
  });
  EXPECT_EQ(*answer.get().header, "slow");
}

}  // namespace
}  // namespace lockstep::replication
