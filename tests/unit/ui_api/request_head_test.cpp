// Where a request ends is beyond doubt, or it is refused.
#include "mgmt/https/request_head.hpp"

#include <string>

#include <gtest/gtest.h>

namespace lockstep::https {
namespace {

unsigned status_of(const std::string& fields, const std::string& version = "1.1") {
  const auto fault = fault_in_head("POST /api/v1/volumes HTTP/" + version + "\r\n" + fields + "\r\n");
  return fault ? fault->status : 200;
}

TEST(RequestHead, OrdinaryRequestsPass) {
  EXPECT_EQ(status_of("Host: a\r\n"), 200u);
  EXPECT_EQ(status_of("host:a\r\ncontent-length:  5 \r\nX-Any: \xc3\xa4 \"q\"\r\n"), 200u);
  EXPECT_EQ(status_of("Host: a\r\nTransfer-Encoding: Chunked\r\n"), 200u);
  EXPECT_EQ(status_of("", "1.0"), 200u) << "HTTP/1.0 needs no Host";
}

TEST(RequestHead, ABodyOfDoubtfulLengthIsRefused) {
  for (const char* fields : {
           "Transfer-Encoding: chunked, identity\r\n",
           "Transfer-Encoding: identity\r\n",
           "Transfer-Encoding: \r\n",
           "Transfer-Encoding: xchunked\r\n",
           "Transfer-Encoding: chunked;a=b\r\n",
           "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
           "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
           "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
           "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
           "Content-Length: 5\r\nContent-Length: 5\r\n",
           "Content-Length: 5\r\nContent-Length: 6\r\n",
           "Content-Length: 5, 5\r\n",
           "Content-Length: +5\r\n",
           "Content-Length: -1\r\n",
           "Content-Length: 0x5\r\n",
           "Content-Length: \r\n",
           "Content-Length: 5 5\r\n",
           "Content-Length: 18446744073709551616\r\n",
       }) {
    EXPECT_EQ(status_of(std::string("Host: a\r\n") + fields), 400u) << fields;
  }
  EXPECT_EQ(status_of("Transfer-Encoding: chunked\r\n", "1.0"), 400u);
}

TEST(RequestHead, ATransferCodingThatIsNotKnownIsNotImplemented) {
  EXPECT_EQ(status_of("Host: a\r\nTransfer-Encoding: gzip, chunked\r\n"), 501u);
}

TEST(RequestHead, LinesThatOthersMayReadDifferentlyAreRefused) {
  for (const char* fields : {
           "X-Long: a\r\n b\r\n",
           " Transfer-Encoding: chunked\r\n",
           "Transfer-Encoding : chunked\r\n",
           "Content-Length\t: 5\r\n",
           "Content-Length 5\r\n",
           ": 5\r\n",
           "X: a\nContent-Length: 5\r\n",
           "X: a\rContent-Length: 5\r\n",
           "X: a\x01\r\n",
           "Host: b\r\n",
       }) {
    EXPECT_EQ(status_of(std::string("Host: a\r\n") + fields), 400u) << fields;
  }
  EXPECT_EQ(status_of(""), 400u) << "no Host";
  EXPECT_EQ(fault_in_head("\r\n")->status, 400u);
  EXPECT_EQ(fault_in_head("GET / HTTP/1.1\r\nHost: a")->status, 400u) << "cut short";
}

TEST(RequestHead, ItsLengthIsKnownOnceItIsThere) {
  EXPECT_EQ(head_length("GET / HTTP/1.1\r\nHost: a\r\n\r"), std::nullopt);
  EXPECT_EQ(head_length("GET / HTTP/1.1\r\n\r\nGET"), 18u);
}

}  // namespace
}  // namespace lockstep::https
