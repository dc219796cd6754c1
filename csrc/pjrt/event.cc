#include <utility>

#include "csrc/pjrt/pjrt_api.h"

namespace dendrite::pjrt {

Event::~Event() {
  if (raw_ != nullptr) client_->impl_->plugin->DestroyEvent(static_cast<PJRT_Event*>(raw_));
}

Event::Event(Event&& other) noexcept
    : client_(std::move(other.client_)), raw_(std::exchange(other.raw_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(client_, other.client_);
  std::swap(raw_, other.raw_);
  return *this;
}

Status Event::Await() {
  if (raw_ == nullptr) return {};
  const Plugin& plugin = *client_->impl_->plugin;
  DENDRITE_PJRT_ARGS(PJRT_Event_Await_Args, args);
  args.event = static_cast<PJRT_Event*>(raw_);
  return plugin.ToStatus(plugin.api.PJRT_Event_Await(&args), "execution");
}

bool Event::IsReady() {
  if (raw_ == nullptr) return true;
  const Plugin& plugin = *client_->impl_->plugin;
  DENDRITE_PJRT_ARGS(PJRT_Event_IsReady_Args, args);
  args.event = static_cast<PJRT_Event*>(raw_);
  // An event that cannot be asked counts as ready: Await then tells why.
  if (!plugin.ToStatus(plugin.api.PJRT_Event_IsReady(&args), "PJRT_Event_IsReady").ok())
    return true;
  return args.is_ready;
}

}  // namespace dendrite::pjrt
