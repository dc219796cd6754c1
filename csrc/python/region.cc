#include "csrc/python/region.h"

#include <c10/util/Exception.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "csrc/device/error.h"
#include "csrc/device/runtime.h"

namespace dendrite::python {
namespace {

constexpr auto kPatience = std::chrono::seconds(2);
constexpr size_t kMaxDevices = 64;

struct Turn {
  std::mutex mu;
  std::condition_variable free;
  bool taken = false;  // guarded by mu
};

std::array<Turn, kMaxDevices>& Turns() {
  static auto* turns = new std::array<Turn, kMaxDevices>;
  return *turns;
}

struct ThreadState {
  int depth = 0;
  bool has_turn = false;
};
thread_local std::array<ThreadState, kMaxDevices> t_state{};

void CheckIndex(int device) {
  TORCH_CHECK(device >= 0 && device < device::Runtime::DeviceCount(),
              "invalid device index neuron:", device);
}

Status End(int device) {
  CheckIndex(device);
  const auto index = static_cast<size_t>(device);
  ThreadState& state = t_state[index];
  TORCH_CHECK(state.depth > 0, "end of a region that was not begun");
  if (--state.depth > 0 || !state.has_turn) return {};
  Status status = device::Runtime::Get().stream(device).EndRegion();
  state.has_turn = false;
  Turn& turn = Turns()[index];
  {
    std::lock_guard lock(turn.mu);
    turn.taken = false;
  }
  turn.free.notify_one();
  return status;
}

}  // namespace

void BeginRegion(int device) {
  CheckIndex(device);
  const auto index = static_cast<size_t>(device);
  ThreadState& state = t_state[index];
  if (state.depth > 0) {
    ++state.depth;
    return;
  }
  auto& stream = device::Runtime::Get().stream(device);  // may throw: before anything is taken
  Turn& turn = Turns()[index];
  {
    std::unique_lock lock(turn.mu);
    state.has_turn = turn.free.wait_for(lock, kPatience, [&] { return !turn.taken; });
    if (state.has_turn) turn.taken = true;
  }
  state.depth = 1;
  if (state.has_turn) stream.BeginRegion();
}

void EndRegion(int device) {
  const Status status = End(device);
  if (status.ok()) return;
  device::ThrowIfError(
      Status(status.code(),
             "torch.compile: a graph of the device neuron does not compile: " + status.message()));
}

void AbandonRegion(int device) { static_cast<void>(End(device)); }

}  // namespace dendrite::python
