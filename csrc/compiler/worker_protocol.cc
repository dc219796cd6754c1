#include "csrc/compiler/worker_protocol.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "csrc/base/byte_io.h"

namespace dendrite::compiler {
namespace {

// A damaged length must not make us allocate without bound; no executable comes near this.
constexpr uint64_t kMaxFrame = uint64_t{1} << 33;
constexpr size_t kGrowth = size_t{64} << 20;

enum class Tag : uint8_t { kHello = 1, kJob = 2, kAnswer = 3 };

void PutStatus(ByteWriter& w, const Status& status) {
  w.Put<int32_t>(static_cast<int32_t>(status.code()));
  w.PutString(status.message());
}

Status GetStatus(ByteReader& r) {
  const auto code = r.Get<int32_t>();
  std::string message(r.GetString());
  if (code < 0 || code > static_cast<int32_t>(Code::kDataLoss)) r.Fail();
  return {static_cast<Code>(code), std::move(message)};
}

bool HasTag(ByteReader& r, Tag tag) { return r.Get<uint8_t>() == static_cast<uint8_t>(tag); }

Status Malformed(const char* what) {
  return DataLoss(std::string("malformed ") + what + " between a process and its compile worker");
}

Status Gone(int error) {
  return Unavailable(error == 0 ? std::string("the other side closed the connection")
                                : std::string("the connection broke: ") + std::strerror(error));
}

Status ReceiveAll(int socket, char* to, size_t size) {
  while (size > 0) {
    const ssize_t n = ::read(socket, to, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Gone(n == 0 ? 0 : errno);
    to += n;
    size -= static_cast<size_t>(n);
  }
  return Status::Ok();
}

Status SendAll(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Gone(errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return Status::Ok();
}

}  // namespace

std::string Encode(const WorkerHello& hello) {
  ByteWriter w;
  w.Put(static_cast<uint8_t>(Tag::kHello));
  w.Put(hello.version);
  PutStatus(w, hello.status);
  return w.Take();
}

std::string Encode(const WorkerJob& job) {
  ByteWriter w;
  w.Put(static_cast<uint8_t>(Tag::kJob));
  w.PutString(job.stablehlo);
  w.PutString(job.compile_options);
  w.Put<uint64_t>(job.custom_calls.size());
  for (const std::string& name : job.custom_calls) w.PutString(name);
  return w.Take();
}

std::string Encode(const WorkerAnswer& answer) {
  ByteWriter w;
  w.Put(static_cast<uint8_t>(Tag::kAnswer));
  PutStatus(w, answer.status);
  w.Put<uint8_t>(answer.cannot_serialize);
  w.Put(answer.seconds);
  w.PutString(answer.executable);
  return w.Take();
}

Result<WorkerHello> DecodeWorkerHello(std::string_view bytes) {
  ByteReader r(bytes);
  WorkerHello hello;
  const bool tagged = HasTag(r, Tag::kHello);
  hello.version = r.Get<uint32_t>();
  hello.status = GetStatus(r);
  if (!tagged || !r.ok() || !r.at_end()) return Malformed("greeting");
  return hello;
}

Result<WorkerJob> DecodeWorkerJob(std::string_view bytes) {
  ByteReader r(bytes);
  WorkerJob job;
  const bool tagged = HasTag(r, Tag::kJob);
  job.stablehlo = r.GetString();
  job.compile_options = r.GetString();
  for (uint64_t n = r.GetCount(8); n > 0; --n) job.custom_calls.emplace_back(r.GetString());
  if (!tagged || !r.ok() || !r.at_end()) return Malformed("job");
  return job;
}

Result<WorkerAnswer> DecodeWorkerAnswer(std::string_view bytes) {
  ByteReader r(bytes);
  WorkerAnswer answer;
  const bool tagged = HasTag(r, Tag::kAnswer);
  answer.status = GetStatus(r);
  answer.cannot_serialize = r.Get<uint8_t>() != 0;
  answer.seconds = r.Get<double>();
  answer.executable = r.GetString();
  if (!tagged || !r.ok() || !r.at_end()) return Malformed("answer");
  return answer;
}

Status SendFrame(int socket, std::string_view body) {
  ByteWriter w;
  w.Put<uint64_t>(body.size());
  DENDRITE_RETURN_IF_ERROR(SendAll(socket, w.bytes()));
  return SendAll(socket, body);
}

Result<std::string> ReceiveFrame(int socket) {
  char header[8];
  DENDRITE_RETURN_IF_ERROR(ReceiveAll(socket, header, sizeof(header)));
  auto size = ByteReader({header, sizeof(header)}).Get<uint64_t>();
  if (size > kMaxFrame) return Malformed("length");
  std::string body;
  while (size > 0) {  // grown as bytes arrive, so that a damaged length costs no more than came
    const size_t piece = std::min<size_t>(size, kGrowth);
    const size_t at = body.size();
    body.resize(at + piece);
    DENDRITE_RETURN_IF_ERROR(ReceiveAll(socket, body.data() + at, piece));
    size -= piece;
  }
  return body;
}

}  // namespace dendrite::compiler
