#include "csrc/compiler/preloader.h"

#include <algorithm>
#include <utility>

#include "csrc/base/clock.h"
#include "csrc/compiler/background_thread.h"

namespace dendrite::compiler {
namespace {

// More would be loaded for minutes, and hardly all of it used again.
constexpr size_t kMaxEntries = 256;
// A program that has not asked by then runs another way this time.
constexpr double kKeepSeconds = 60;
constexpr size_t kDigestSize = 64;  // hex digits

// One digest a line. Whatever does not look like one is left out.
std::vector<std::string> ParseList(std::string_view text) {
  std::vector<std::string> digests;
  while (!text.empty() && digests.size() < kMaxEntries) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (end == kDigestSize) digests.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return digests;
}

}  // namespace

Preloader::Preloader(std::shared_ptr<pjrt::Client> client, SnippetCache* cache,
                     const std::string& program, const std::string& target_name)
    : client_(std::move(client)), cache_(cache) {
  if (program.empty() || !cache_->enabled()) return;
  list_key_.emplace("program");
  list_key_->Add("program", program);
  list_key_->Add("target", target_name);
  list_key_->Add("plugin", client_->info().path);
}

Preloader::~Preloader() { Stop(); }

void Preloader::Start(const AskIdentity& ask) {
  if (!list_key_) return;
  const std::optional<cache::Entry> entry = cache_->Lookup(*list_key_);
  if (!entry) return;
  const std::vector<std::string> digests = ParseList(entry->bytes);
  if (digests.empty()) return;
  const Result<const CompilerIdentity*> identity = ask();
  if (!identity.ok()) return;
  MutexLock lock(mutex_);
  if (stop_) return;
  known_ = digests;
  for (const std::string& digest : digests) wanted_.push_back(MakeNeffKey(digest, **identity));
  thread_ = StartBackgroundThread("dendrite-pre", [this] { Loop(); });
}

std::optional<cache::Key> Preloader::Next() {
  MutexLock lock(mutex_);
  if (wanted_.empty() || stop_) return std::nullopt;
  std::optional<cache::Key> key = std::move(wanted_.front());
  wanted_.pop_front();
  loading_ = key->full();
  return key;
}

void Preloader::Loop() {
  while (const std::optional<cache::Key> key = Next()) {
    std::optional<Loaded> loaded;
    if (std::optional<cache::Entry> entry = cache_->Lookup(*key)) {
      Result<pjrt::Executable> executable = client_->Deserialize(entry->bytes);
      // One that does not load is met again, and dealt with, by the job that needs it.
      if (executable.ok()) loaded = Loaded{std::move(executable).value(), std::move(*entry)};
    }
    {
      MutexLock lock(mutex_);
      if (loaded) loaded_.emplace(key->full(), std::move(*loaded));
      loading_.clear();
    }
    changed_.NotifyAll();
  }
  const double until = NowSeconds() + kKeepSeconds;
  MutexLock lock(mutex_);
  for (double left = kKeepSeconds; !stop_ && left > 0; left = until - NowSeconds()) {
    changed_.WaitFor(lock, left);
  }
  loaded_.clear();
}

std::optional<Preloader::Loaded> Preloader::Take(const cache::Key& key) {
  MutexLock lock(mutex_);
  while (loading_ == key.full()) changed_.Wait(lock);
  const auto found = loaded_.find(key.full());
  if (found == loaded_.end()) {
    std::erase_if(wanted_, [&](const cache::Key& other) { return other.full() == key.full(); });
    return std::nullopt;
  }
  std::optional<Loaded> loaded = std::move(found->second);
  loaded_.erase(found);
  return loaded;
}

void Preloader::Note(const std::string& digest) {
  MutexLock lock(mutex_);
  if (used_.size() < kMaxEntries && used_set_.insert(digest).second) used_.push_back(digest);
}

bool Preloader::WaitUntilLoaded(double seconds) {
  const double until = NowSeconds() + seconds;
  MutexLock lock(mutex_);
  while (!wanted_.empty() || !loading_.empty()) {
    const double left = until - NowSeconds();
    if (left <= 0) return false;
    changed_.WaitFor(lock, left);
  }
  return true;
}

void Preloader::Stop() {
  {
    MutexLock lock(mutex_);
    if (std::exchange(stop_, true)) return;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
  MutexLock lock(mutex_);
  if (!list_key_ || used_ == known_) return;
  std::string text;
  for (const std::string& digest : used_) text += digest + "\n";
  cache_->Put(*list_key_, text);
}

}  // namespace dendrite::compiler
