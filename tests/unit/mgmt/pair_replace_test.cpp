// A node's place is taken by another machine: with each message lost and each machine ending at each of them, both ends
// agree afterwards, or nothing has changed and it can be tried again.
#include "tests/unit/mgmt/pair_replace_world.hpp"

namespace lockstep::mgmt {
namespace {

using namespace replacing;

TEST_F(PairReplace, ASurvivorOfEitherSideHandsOverEverything) {
  for (const NodeSide lost : {NodeSide::b, NodeSide::a}) {
    begin(lost);
    EXPECT_EQ(join(invite()).state, JobState::done);
    expect_whole();
  }
}

TEST_F(PairReplace, WithEachMessageLostAndEachMachineEndingAtItEndsWholeOrUndoneAndCanBeTriedAgain) {
  int whole = 0, undone = 0;
  for (const NodeSide lost : {NodeSide::b, NodeSide::a})
    for (const Fault fault : kFaults)
      for (int at = 1;; ++at) {
        SCOPED_TRACE(fmt::format("side {} lost, fault {} at message {}", side_name(lost), static_cast<int>(fault), at));
        begin(lost);
        const std::string invitation = invite();
        world_.messages = 0;
        world_.fault = fault;
        world_.fault_at = at;
        const Job job = join(invitation);
        if (world_.messages < at) {
          EXPECT_EQ(job.state, JobState::done);
          break;  // every message had its turn
        }
        ASSERT_TRUE(job.finished()) << job.step << ": " << job.message;
        world_.fault_at = -1;
        if (job.state == JobState::failed) {
          ++undone;
          expect_undone();
          Job again = join(invitation);
          if (again.state == JobState::failed) {  // spent, though nothing came of it
            EXPECT_NE(again.message.find("used already"), std::string::npos) << again.message;
            again = join(invite());
          }
          EXPECT_EQ(again.state, JobState::done) << again.message;
        } else {
          ++whole;
        }
        expect_whole();
      }
  EXPECT_GT(whole, 10);
  EXPECT_GT(undone, 10);
}

TEST_F(PairReplace, ANodeWithItsOldDatabaseAndANewCertificateIsToldWhatKeepsItFromJoining) {
  begin(NodeSide::b);
  b_->part.reset();
  for (const char* file : {"tls.crt", "tls.key"}) std::filesystem::remove(b_->folder / "mgmt" / file);
  b_->start();
  world_.at[kAddressB] = b_.get();
  const auto refused = b_->part->pair.join(invite(), {}, token("b"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::conflict);
  EXPECT_NE(refused.error().detail.find("move mgmt.db"), std::string::npos) << refused.error().detail;
  b_->part.reset();
  std::filesystem::remove_all(b_->folder / "mgmt");
  b_->start();
  const auto joined = b_->part->pair.join(invite(), {}, token("b"));
  EXPECT_TRUE(joined) << joined.error().detail;
}

TEST_F(PairReplace, AMachineThatEndsBetweenItsCommitAndTheJobsNextStepFindsItselfInThePair) {
  begin(NodeSide::b);
  const auto job = fresh_->part->pair.join(invite(), {}, token("fresh"));
  ASSERT_TRUE(job);
  world_.messages = 0;
  world_.fault = Fault::asker_ends_after;
  world_.fault_at = 4;  // behind asking to join, and what the survivor asks before it answers: the confirmation
  EXPECT_THROW(fresh_->part->runner.turn(), Ended);
  fresh_->start();
  ASSERT_EQ(fresh_->core().jobs.get(job->id)->step, "confirm");
  const auto tentative = fresh_->core().revision_tables.tentative();
  ASSERT_TRUE(tentative);
  fresh_->core().revisions.commit_new_epoch(tentative->id, "Joined the pair", *from_document(tentative->document));
  fresh_->start();
  world_.fault_at = -1;
  fresh_->turns();
  EXPECT_EQ(fresh_->core().jobs.get(job->id)->state, JobState::done);
  expect_whole();
}

TEST_F(PairReplace, AChangeThatTheLostNodeHadProposedAndPerhapsDecidedIsPartOfIt) {
  begin(NodeSide::a);
  Configuration next = b_->configuration();
  next.tokens.push_back(token("promised"));
  next.sort();
  const RevisionId base = b_->core().revisions.state().head;
  const Uuid process = random_uuid();
  const CurrentRevision of_a{a_->core().revisions.state(), to_document(a_->configuration()), process};
  ASSERT_TRUE(b_->core().revisions.on_bring_up_to_date(of_a));
  const Proposal proposal{
      base, {base.epoch, base.n + 1, random_uuid()}, "Token promised made", to_document(next), process, 1};
  ASSERT_EQ(b_->core().revisions.on_prepare(proposal), PrepareAnswer::kept);
  const auto invitation = b_->part->pair.invite_in_place_of(NodeSide::a, "node-a");
  ASSERT_TRUE(invitation);
  EXPECT_EQ(invitation->undecided, "Token promised made");
  EXPECT_EQ(join(invitation->text).state, JobState::done);
  expect_whole();
  const auto tokens = b_->configuration().tokens;
  EXPECT_TRUE(std::ranges::any_of(tokens, [](const Token& t) { return t.name == "promised"; }));
  EXPECT_EQ(b_->core().revisions.state().head.n, base.n + 2) << "beyond anything that the lost node may have decided";
}

TEST_F(PairReplace, AChangeThatComesBetweenTheOfferAndItsConfirmationIsNotLost) {
  begin(NodeSide::a);
  JoinRequest request{.secret = secret_of(invite()), .node = b_->configuration().nodes.front(), .token = token("t")};
  request.node.id = fresh_->core().node_id;
  const auto fingerprint = fresh_->core().identity.fingerprint;
  const auto offer = b_->part->pair.on_join(request, fingerprint);
  ASSERT_TRUE(offer) << offer.error().detail;
  // Side A was not lost, but cut off, and is back at this very moment.
  const Uuid process = random_uuid();
  const RevisionId base = b_->core().revisions.state().head;
  ASSERT_TRUE(b_->core().revisions.on_bring_up_to_date(
      {a_->core().revisions.state(), to_document(a_->configuration()), process}));
  ASSERT_EQ(b_->core().revisions.on_prepare(
                {base, {base.epoch, base.n + 1, random_uuid()}, "s", to_document(b_->configuration()), process, 1}),
            PrepareAnswer::kept);
  const auto confirmed = b_->part->pair.on_confirm(offer->id, fingerprint);
  ASSERT_FALSE(confirmed);
  EXPECT_NE(confirmed.error().detail.find("changed meanwhile"), std::string::npos);
  EXPECT_EQ(b_->core().revisions.state().head, base);
}

TEST_F(PairReplace, ANodeThatAnswersAndHasTheConfigurationIsNotReplaced) {
  begin(NodeSide::b);
  world_.at[kAddressB] = b_.get();
  const auto refused = a_->part->pair.invite_in_place_of(NodeSide::b, "node-b");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::conflict);
  EXPECT_NE(refused.error().detail.find("stop lockstep-mgmtd there first"), std::string::npos);
  const auto not_lost = a_->part->pair.look_for_lost(*a_->configuration().node(NodeSide::b), ShutOut::let_go);
  ASSERT_FALSE(not_lost);
  EXPECT_NE(not_lost.error().detail.find("Leave --lost off: `lockstep pair leave b`"), std::string::npos)
      << not_lost.error().detail;
  EXPECT_EQ(not_lost.error().detail.find("place"), std::string::npos) << not_lost.error().detail;
  world_.at.erase(kAddressB);
  EXPECT_TRUE(a_->part->pair.look_for_lost(*a_->configuration().node(NodeSide::b), ShutOut::let_go));
  EXPECT_EQ(a_->part->pair.invite_in_place_of(NodeSide::b, "").error().kind, RefusalKind::confirmation_needed);
  EXPECT_TRUE(a_->part->pair.invite_in_place_of(NodeSide::b, "node-b"));
  EXPECT_EQ(a_->part->pair.invite_in_place_of(NodeSide::a, "node-a").error().kind, RefusalKind::conflict);
}

/// It takes another node for its partner, and so refuses what is asked first.
TEST_F(PairReplace, AnAnswerThatIsLostIsNotTakenForThatOfANodeThatHasLostItsDatabase) {
  begin(NodeSide::b);
  world_.at[kAddressB] = b_.get();
  Configuration theirs = b_->configuration();
  theirs.nodes.front().id = random_uuid();
  b_->core().revisions.commit_new_epoch({random_uuid(), 100, random_uuid()}, "A test's own", theirs);
  const Node lost = *a_->configuration().node(NodeSide::b);
  world_.fault = Fault::answer_lost;
  world_.fault_at = world_.messages + 2;
  const auto unknown = a_->part->pair.look_for_lost(lost, ShutOut::replaced);
  ASSERT_FALSE(unknown) << unknown->found;
  EXPECT_EQ(unknown.error().kind, RefusalKind::not_current) << unknown.error().detail;
  const auto has_it = a_->part->pair.look_for_lost(lost, ShutOut::replaced);
  ASSERT_FALSE(has_it) << has_it->found;
  EXPECT_EQ(has_it.error().kind, RefusalKind::conflict) << has_it.error().detail;
}

TEST_F(PairReplace, ANodeThatHasChangedTheConfigurationAloneIsReplacedOnlyWithTheWordThatThatIsLost) {
  begin(NodeSide::b);
  CurrentRevision theirs = a_->core().revisions.current();
  const RevisionState before = theirs.state;
  theirs.state.epoch = before.epoch.next(random_uuid(), engine::MemberSet::only(NodeSide::b), before.head, 0);
  theirs.state.head = {theirs.state.epoch.id, before.head.n + 1, random_uuid()};
  ASSERT_TRUE(a_->core().revisions.on_bring_up_to_date(theirs));
  const auto refused = a_->part->pair.invite_in_place_of(NodeSide::b, "node-b");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::confirmation_needed);
  EXPECT_NE(refused.error().detail.find("what it has changed is lost"), std::string::npos) << refused.error().detail;
  EXPECT_TRUE(a_->part->pair.invite_in_place_of(NodeSide::b, "node-b without its changes"));
}

TEST_F(PairReplace, VolumesWhoseJobsAreLostWithSideAAreDeleted) {
  begin(NodeSide::a);
  Configuration with = b_->configuration();
  for (const auto& [name, lifecycle] : {std::pair{"made", Lifecycle::creating}, {"ready", Lifecycle::ready}}) {
    Volume v;
    v.id = random_uuid();
    v.first_epoch = random_uuid();
    v.name = v.serial = name;
    v.lun = static_cast<std::int64_t>(with.volumes.size());
    v.size = 1 << 20;
    v.lifecycle = lifecycle;
    with.volumes.push_back(v);
  }
  with.sort();
  const auto state = b_->core().revisions.state();
  ASSERT_TRUE(b_->core().revisions.begin_epoch(state, {random_uuid(), state.head.n + 1, random_uuid()}, "v", with));
  ASSERT_EQ(join(invite()).state, JobState::done);
  const auto after = fresh_->configuration();
  EXPECT_EQ(after.volumes[0].lifecycle, Lifecycle::deleting);
  EXPECT_EQ(after.volumes[1].lifecycle, Lifecycle::ready);
  const auto jobs = fresh_->core().jobs.newest(10);
  EXPECT_EQ(std::ranges::count_if(
                jobs, [&](const Job& j) { return j.kind == "volume.delete" && j.volume == after.volumes[0].id; }),
            1);
}

/// The lost machine had a disk that the one which takes its place has not.
TEST_F(PairReplace, AFolderOfTheLostMachinesCopyIsNamedWithHowToChooseAnother) {
  begin(NodeSide::b);
  Configuration with = a_->configuration();
  Volume v;
  v.id = random_uuid();
  v.first_epoch = random_uuid();
  v.name = v.serial = "vm1";
  v.size = 1 << 20;
  v.lifecycle = Lifecycle::ready;
  v.copy(NodeSide::b).folder = "/nowhere/new-disk";
  with.volumes = {v};
  const auto state = a_->core().revisions.state();
  ASSERT_TRUE(a_->core().revisions.begin_epoch(state, {random_uuid(), state.head.n + 1, random_uuid()}, "v", with));
  const Job job = join(invite());
  EXPECT_EQ(job.state, JobState::done) << job.message;
  EXPECT_NE(job.message.find("It was in /nowhere/new-disk"), std::string::npos) << job.message;
  EXPECT_NE(job.message.find("`lockstep replica replace vm1 --node b --store FOLDER`"), std::string::npos)
      << job.message;
}

/// Of one node, made of its replicas: the machine that is left knows of no other.
Configuration made_anew(const Machine& machine, NodeSide side) {
  Configuration c = machine.configuration();
  std::erase_if(c.nodes, [&](const Node& n) { return n.side != side; });
  Volume v;
  v.id = random_uuid();
  v.name = v.serial = "vm1";
  v.size = 1 << 20;
  v.lifecycle = Lifecycle::ready;
  c.volumes = {v};
  return c;
}

TEST_F(PairReplace, AConfigurationThatWasMadeAnewLetsTheOtherNodeInWithTheReplicasThatItHas) {
  for (const NodeSide lost : {NodeSide::b, NodeSide::a}) {
    begin(lost);
    const auto before = left_->core().revisions.state();
    const Configuration alone = made_anew(*left_, engine::other(lost));
    ASSERT_TRUE(
        left_->core().revisions.begin_epoch(before, {random_uuid(), before.head.n + 1, random_uuid()}, "anew", alone));
    EXPECT_EQ(left_->part->pair.invite_in_place_of(lost, lost_name()).error().kind, RefusalKind::conflict);
    const auto invitation = left_->part->pair.invite();
    ASSERT_TRUE(invitation) << invitation.error().detail;
    EXPECT_EQ(join(invitation->text).state, JobState::done);
    EXPECT_EQ(fresh_->plane.count("replica.create"), 0) << "the mirror knows what its own replicas are good for";
    EXPECT_EQ(fresh_->configuration(), left_->configuration());
    EXPECT_EQ(fresh_->core().side(), lost);
    EXPECT_NE(left_->configuration().pair->link, alone.pair->link);
    EXPECT_FALSE(left_->part->pair.invite()) << "the place is taken";
  }
}

TEST_F(PairReplace, AJobOnAVolumeHoldsUpWhoeverWouldTakeAnOpenPlace) {
  begin(NodeSide::b);
  const auto before = left_->core().revisions.state();
  ASSERT_TRUE(left_->core().revisions.begin_epoch(before, {random_uuid(), before.head.n + 1, random_uuid()}, "anew",
                                                  made_anew(*left_, NodeSide::a)));
  const auto invitation = left_->part->pair.invite();
  ASSERT_TRUE(invitation);
  left_->core().jobs.put(make_job(left_->core(), "volume.grow", "room_here", "Grows."));
  const Job job = join(invitation->text);
  EXPECT_EQ(job.state, JobState::failed);
  EXPECT_NE(job.message.find("A job on a volume is under way"), std::string::npos) << job.message;
}

/// A node that changed the configuration alone before it was lost has a copy with a higher number than the pair's next.
TEST_F(PairReplace, TheCopyOfALineThatEndedIsPutAsideByWhoTakesThePlace) {
  begin(NodeSide::b);
  auto ended = *left_->core().saved_file.read();
  ended.revision.n += 30;
  Volume alone;
  alone.id = random_uuid();
  alone.name = alone.serial = "vm9";
  alone.size = 1 << 20;
  alone.lifecycle = Lifecycle::ready;
  ended.configuration.volumes = {alone};
  ASSERT_TRUE(fresh_->core().saved_file.write(ended));
  ASSERT_EQ(join(invite()).state, JobState::done);
  EXPECT_EQ(fresh_->core().copy.newer(), 0);
  EXPECT_EQ(fresh_->core().saved_file.read()->revision, fresh_->core().revisions.state().head);
  const auto aside = fmt::format("{}.before-join-{}", fresh_->core().saved_file.path().string(),
                                 fresh_->core().revisions.state().head.n);
  EXPECT_TRUE(std::filesystem::exists(aside)) << "it is not lost";
  const auto events = fresh_->core().events.list(0, 20);
  const auto told = std::ranges::find(events, "configuration.given_up", &Event::kind);
  ASSERT_NE(told, events.end());
  EXPECT_NE(told->message.find("vm9"), std::string::npos) << told->message;
}

TEST_F(PairReplace, WhatADatabaseThatWasSetBackHoldsDoesNotOverwriteTheNewerCopy) {
  begin(NodeSide::b);
  ASSERT_EQ(join(invite()).state, JobState::done);
  const auto newest = left_->core().saved_file.read();
  ASSERT_TRUE(newest);
  std::filesystem::copy(fresh_->core().saved_file.path(), b_->core().saved_file.path(),
                        std::filesystem::copy_options::overwrite_existing);
  b_->start();
  EXPECT_EQ(b_->core().saved_file.read()->revision, newest->revision);
  EXPECT_FALSE(b_->core().copy.problem().empty());
  EXPECT_EQ(b_->core().copy.newer(), newest->revision.n);
}

}  // namespace
}  // namespace lockstep::mgmt
