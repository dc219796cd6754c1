#include "csrc/compiler/worker_protocol.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

namespace dendrite::compiler {
namespace {

TEST(WorkerProtocolTest, JobRoundTrip) {
  const WorkerJob job{"module", std::string("\0\1", 2), {"a", "b"}};
  const auto back = DecodeWorkerJob(Encode(job));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->stablehlo, "module");
  EXPECT_EQ(back->compile_options, job.compile_options);
  EXPECT_EQ(back->custom_calls, job.custom_calls);
}

TEST(WorkerProtocolTest, AnswerRoundTripKeepsTheErrorsCode) {
  WorkerAnswer answer;
  answer.status = Unimplemented("no such thing");
  answer.cannot_serialize = true;
  answer.seconds = 1.5;
  answer.executable = "bytes";
  const auto back = DecodeWorkerAnswer(Encode(answer));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->status.ToString(), answer.status.ToString());
  EXPECT_TRUE(back->cannot_serialize);
  EXPECT_EQ(back->seconds, 1.5);
  EXPECT_EQ(back->executable, "bytes");
}

TEST(WorkerProtocolTest, MalformedBodiesAreRefused) {
  const std::string job = Encode(WorkerJob{"module", "", {"a"}});
  for (size_t size = 0; size < job.size(); ++size) {
    EXPECT_EQ(DecodeWorkerJob(job.substr(0, size)).status().code(), Code::kDataLoss) << size;
  }
  EXPECT_FALSE(DecodeWorkerAnswer(job).ok());
  EXPECT_FALSE(DecodeWorkerHello(job).ok());
}

class FrameTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets_), 0); }
  void TearDown() override {
    ::close(sockets_[0]);
    if (sockets_[1] >= 0) ::close(sockets_[1]);
  }
  int sockets_[2];
};

TEST_F(FrameTest, FramesLargerThanTheSocketsBufferArrive) {
  const std::string large(5'000'000, 'x');
  std::thread sender([&] {
    EXPECT_TRUE(SendFrame(sockets_[1], large).ok());
    EXPECT_TRUE(SendFrame(sockets_[1], "").ok());
  });
  EXPECT_EQ(*ReceiveFrame(sockets_[0]), large);
  EXPECT_EQ(*ReceiveFrame(sockets_[0]), "");
  sender.join();
}

TEST_F(FrameTest, AClosedSocketIsUnavailableOnBothWays) {
  ::close(sockets_[1]);
  sockets_[1] = -1;
  EXPECT_EQ(ReceiveFrame(sockets_[0]).status().code(), Code::kUnavailable);
  EXPECT_EQ(SendFrame(sockets_[0], "x").code(), Code::kUnavailable);
}

TEST_F(FrameTest, AnAbsurdLengthIsRefused) {
  const uint64_t length = ~uint64_t{0};
  ASSERT_EQ(::send(sockets_[1], &length, sizeof(length), 0), 8);
  EXPECT_EQ(ReceiveFrame(sockets_[0]).status().code(), Code::kDataLoss);
}

}  // namespace
}  // namespace dendrite::compiler
