// The login over RDMA: what Linux's initiators offer, as seen on the wire, and what they are answered.
#include <gtest/gtest.h>

#include "engine/iscsi/login_target.hpp"

namespace lockstep::iscsi {
namespace {

struct OneRandom final : engine::Random {
  std::uint64_t next() override { return 4; }
};

struct Open final : LoginAuthority {
  LoginDecision decide(const LoginIdentity&) override { return {}; }
};

class RdmaLogin : public testing::Test {
 protected:
  using Next = TargetLogin::Step::Next;

  // In one step from the operational stage to the full feature phase, as both do.
  TargetLogin::Step log_in(std::vector<std::string> pairs) {
    std::string text;
    for (const std::string& pair : pairs) text += pair + '\0';
    auto header = make_header<LoginRequestHeader>(Opcode::login_request, kTransit | 1 << 2 | 3);
    header.opcode |= kImmediate;
    TargetLogin::Step step = login.on_request(header, std::as_bytes(std::span(text)));
    if (step.next == Next::admit) step = login.admit(1, 1);
    return step;
  }
  static std::vector<std::string> pairs_of(const std::string& text) {
    std::vector<std::string> out;
    for (std::size_t at = 0; at < text.size(); at = text.find('\0', at) + 1) out.emplace_back(text.c_str() + at);
    return out;
  }

  OneRandom random;
  Open authority;
  TargetLogin login{authority, random, rdma_offers({})};
};

const std::vector<std::string> kNames{"InitiatorName=iqn.1993-08.org.debian:01:a", "InitiatorAlias=a",
                                      "TargetName=iqn.lab:iser", "SessionType=Normal"};

std::vector<std::string> with_names(std::vector<std::string> pairs) {
  pairs.insert(pairs.begin(), kNames.begin(), kNames.end());
  return pairs;
}

TEST_F(RdmaLogin, OfLinuxKernel) {
  const auto step = log_in(
      with_names({"DefaultTime2Wait=2", "DefaultTime2Retain=0", "IFMarker=No", "OFMarker=No", "ErrorRecoveryLevel=0",
                  "InitialR2T=No", "ImmediateData=Yes", "MaxBurstLength=16776192", "FirstBurstLength=262144",
                  "MaxOutstandingR2T=1", "MaxConnections=1", "DataPDUInOrder=Yes", "DataSequenceInOrder=Yes",
                  "InitiatorRecvDataSegmentLength=262144", "TargetRecvDataSegmentLength=8192", "RDMAExtensions=Yes"}));
  ASSERT_EQ(step.next, Next::done) << step.reason;
  EXPECT_EQ(pairs_of(step.text),
            (std::vector<std::string>{"DefaultTime2Wait=2", "DefaultTime2Retain=0", "IFMarker=Reject",
                                      "OFMarker=Reject", "ErrorRecoveryLevel=0", "InitialR2T=Yes", "ImmediateData=Yes",
                                      "MaxBurstLength=1048576", "FirstBurstLength=8192", "MaxOutstandingR2T=1",
                                      "MaxConnections=1", "DataPDUInOrder=Yes", "DataSequenceInOrder=Yes",
                                      "InitiatorRecvDataSegmentLength=262144", "TargetRecvDataSegmentLength=8192",
                                      "RDMAExtensions=Yes", "TargetPortalGroupTag=1"}));
  EXPECT_EQ(step.header.exp_cmd_sn, step.header.max_cmd_sn) << "libiscsi has room for one message yet";
  const Parameters& agreed = login.parameters();
  EXPECT_TRUE(agreed.rdma && agreed.initial_r2t && agreed.tagged_is_advanced);
  EXPECT_EQ(agreed.first_burst, 8192u);
  EXPECT_EQ(agreed.max_send, 128u) << "ib_iser declares 256 KiB and has receives of 128 bytes";
}

TEST_F(RdmaLogin, OfLibiscsi) {
  const auto step = log_in(with_names({"HeaderDigest=None,CRC32C", "DataDigest=None,CRC32C", "MaxBurstLength=262144",
                                       "FirstBurstLength=262144", "MaxRecvDataSegmentLength=8192", "RDMAExtensions=Yes",
                                       "InitiatorRecvDataSegmentLength=8192", "TargetRecvDataSegmentLength=8192"}));
  ASSERT_EQ(step.next, Next::done) << step.reason;
  EXPECT_EQ(
      pairs_of(step.text),
      (std::vector<std::string>{"HeaderDigest=None", "DataDigest=None", "MaxBurstLength=262144",
                                "FirstBurstLength=8192", "RDMAExtensions=Yes", "InitiatorRecvDataSegmentLength=8192",
                                "TargetRecvDataSegmentLength=8192", "TargetPortalGroupTag=1"}));
  EXPECT_FALSE(login.parameters().header_digest);
}

TEST_F(RdmaLogin, ADigestThatIsInsistedOnIsRefused) {
  EXPECT_EQ(log_in(with_names({"HeaderDigest=CRC32C", "RDMAExtensions=Yes"})).next, Next::failed);
}

TEST_F(RdmaLogin, ANormalSessionWithoutTheExtensionsIsRefused) {
  const auto step = log_in(with_names({"MaxBurstLength=262144"}));
  EXPECT_EQ(step.next, Next::failed);
  EXPECT_EQ(step.header.status, static_cast<std::uint16_t>(LoginStatus::initiator_error));
  EXPECT_EQ(step.reason, "The initiator came over RDMA without RDMAExtensions=Yes.");
}

TEST_F(RdmaLogin, ADiscoverySessionOffersNone) {
  const auto step = log_in({"InitiatorName=iqn.1993-08.org.debian:01:a", "SessionType=Discovery", "HeaderDigest=None",
                            "MaxRecvDataSegmentLength=262144"});
  ASSERT_EQ(step.next, Next::done) << step.reason;
  EXPECT_EQ(login.parameters().max_send, 8192u);
}

TEST_F(RdmaLogin, WhoWantsHelloMessagesGetsNoSession) {
  const auto step = log_in(with_names({"iSERHelloRequired=Yes", "RDMAExtensions=Yes"}));
  EXPECT_EQ(step.next, Next::failed);
  EXPECT_EQ(step.reason, "iSERHelloRequired=Yes is not acceptable.");
}

TEST_F(RdmaLogin, WhatIsDeclaredIsTakenWithoutAnAnswer) {
  const auto step = log_in(with_names({"iSERHelloRequired=No", "MaxOutstandingUnexpectedPDUs=8", "MaxAHSLength=256",
                                       "TaggedBufferForSolicitedDataOnly=No", "RDMAExtensions=Yes"}));
  ASSERT_EQ(step.next, Next::done) << step.reason;
  EXPECT_EQ(pairs_of(step.text), (std::vector<std::string>{"RDMAExtensions=Yes", "TargetPortalGroupTag=1"}));
  EXPECT_FALSE(login.parameters().tagged_is_advanced);
}

TEST_F(RdmaLogin, OverTcpNobodyUnderstandsItsKeys) {
  TargetLogin over_tcp(authority, random, {});
  std::string text;
  for (const auto* pair : {"InitiatorName=iqn.1993-08.org.debian:01:a", "TargetName=iqn.lab:iser", "SessionType=Normal",
                           "InitiatorRecvDataSegmentLength=8192", "RDMAExtensions=Yes", "iSERHelloRequired=Yes"}) {
    text += std::string(pair) + '\0';
  }
  auto header = make_header<LoginRequestHeader>(Opcode::login_request, 1 << 2);
  header.opcode |= kImmediate;
  const auto step = over_tcp.on_request(header, std::as_bytes(std::span(text)));
  ASSERT_EQ(step.next, Next::answer) << step.reason;
  const auto answers = pairs_of(step.text);
  EXPECT_EQ(answers[0], "InitiatorRecvDataSegmentLength=NotUnderstood");
  EXPECT_EQ(answers[1], "RDMAExtensions=No");
  EXPECT_EQ(answers[2], "iSERHelloRequired=NotUnderstood");
}

}  // namespace
}  // namespace lockstep::iscsi
