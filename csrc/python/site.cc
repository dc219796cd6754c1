#include "csrc/python/site.h"

#include <ATen/SequenceNumber.h>
#include <Python.h>
#include <torch/csrc/autograd/function.h>
#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030c0000
#define Py_BUILD_CORE
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#define DENDRITE_READ_FRAMES 1
#endif

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <string_view>
#include <unordered_map>

namespace dendrite::python {
namespace {

struct Table {
  std::mutex mu;
  std::unordered_map<uint64_t, int32_t> ids;  // guarded by mu
  std::deque<tape::SourceSite> sites{{}};     // guarded by mu; 0: unknown
};
Table& GetTable() {
  static auto* table = new Table;
  return *table;
}

// Forward sites by autograd sequence number: a ring, since backward follows soon.
constexpr size_t kRing = 1 << 15;
std::array<std::atomic<uint64_t>, kRing> g_forward{};  // sequence number << 32 | site

int32_t SiteOfNode() {
  const auto node = torch::autograd::get_current_node();
  if (node == nullptr) return 0;
  const uint64_t sequence = node->sequence_nr();
  const uint64_t entry = g_forward[sequence % kRing].load(std::memory_order_relaxed);
  return entry >> 32 == (sequence & 0xffffffff) ? static_cast<int32_t>(entry & 0xffffffff) : 0;
}

#ifdef DENDRITE_READ_FRAMES

// 1: a file of torch or of this package, 0: anybody else's. Small direct-mapped cache per thread.
bool IsLibraryCode(PyCodeObject* code) {
  struct Known {
    PyCodeObject* code;
    bool library;
  };
  thread_local std::array<Known, 256> cache{};
  Known& known = cache[(reinterpret_cast<uintptr_t>(code) >> 5) % cache.size()];
  if (known.code == code) return known.library;
  PyObject* name = code->co_filename;
  bool library = false;
  if (PyUnicode_IS_COMPACT_ASCII(name)) {
    const std::string_view text(reinterpret_cast<const char*>(PyUnicode_1BYTE_DATA(name)),
                                static_cast<size_t>(PyUnicode_GET_LENGTH(name)));
    library = text.find("/torch/") != std::string_view::npos ||
              text.find("/torch_dendrite/") != std::string_view::npos || text.starts_with("<");
  }
  known = {code, library};
  return library;
}

int32_t Intern(PyCodeObject* code, int offset) {
  thread_local struct {
    PyCodeObject* code = nullptr;
    int offset = 0;
    int32_t id = 0;
  } last[64];
  const uint64_t key =
      reinterpret_cast<uint64_t>(code) * 0x9e3779b97f4a7c15u ^ static_cast<uint64_t>(offset);
  auto& slot = last[(key >> 20) % 64];
  if (slot.code == code && slot.offset == offset) return slot.id;
  Table& table = GetTable();
  {
    std::lock_guard lock(table.mu);
    const auto it = table.ids.find(key);
    if (it != table.ids.end()) {
      slot = {code, offset, it->second};
      return it->second;
    }
  }
  const PyGILState_STATE gil = PyGILState_Ensure();
  Py_INCREF(code);  // for ever: its address names the site
  tape::SourceSite site;
  if (const char* file = PyUnicode_AsUTF8(code->co_filename)) site.file = file;
  if (const char* function = PyUnicode_AsUTF8(code->co_qualname)) site.function = function;
  PyErr_Clear();
  site.line = PyCode_Addr2Line(code, offset);
  PyGILState_Release(gil);
  std::lock_guard lock(table.mu);
  const auto [it, added] = table.ids.emplace(key, static_cast<int32_t>(table.sites.size()));
  if (added) table.sites.push_back(std::move(site));
  slot = {code, offset, it->second};
  return it->second;
}

int32_t SiteOfFrame() {
  PyThreadState* thread = PyGILState_GetThisThreadState();
  if (thread == nullptr || thread->cframe == nullptr) return 0;
  const _PyInterpreterFrame* inner = thread->cframe->current_frame;
  const _PyInterpreterFrame* frame = inner;
  for (int depth = 0; frame != nullptr && depth < 64 && IsLibraryCode(frame->f_code); ++depth)
    frame = frame->previous;
  if (frame == nullptr) frame = inner;
  if (frame == nullptr) return 0;
  return Intern(frame->f_code, static_cast<int>(_PyInterpreterFrame_LASTI(frame)) *
                                   static_cast<int>(sizeof(_Py_CODEUNIT)));
}

#else

int32_t SiteOfFrame() { return 0; }

#endif

}  // namespace

int32_t CurrentSite() {
  if (const int32_t site = SiteOfNode(); site != 0) return site;
  const int32_t site = SiteOfFrame();
  if (site != 0) {
    // A node made for this operator took the number before the current one.
    const uint64_t next = at::sequence_number::peek();
    const uint64_t sequence = next == 0 ? 0 : next - 1;
    g_forward[sequence % kRing].store(sequence << 32 | static_cast<uint32_t>(site),
                                      std::memory_order_relaxed);
  }
  return site;
}

tape::SourceSite SiteOf(int32_t id) {
  Table& table = GetTable();
  std::lock_guard lock(table.mu);
  return id >= 0 && static_cast<size_t>(id) < table.sites.size()
             ? table.sites[static_cast<size_t>(id)]
             : tape::SourceSite{};
}

}  // namespace dendrite::python
