#include "csrc/pjrt/plugin_memory.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace dendrite::pjrt {
namespace {

std::atomic<const PluginMemory*> g_memory{nullptr};

void* Take(size_t alignment, size_t nbytes) {
  if (nbytes < kLeastPluginMemory || alignment > kPluginMemoryAlignment) return nullptr;
  return g_memory.load(std::memory_order_acquire)->take(nbytes);
}

int PosixMemalign(void** data, size_t alignment, size_t nbytes) {
  void* taken = Take(alignment, nbytes);
  if (taken == nullptr) return ::posix_memalign(data, alignment, nbytes);
  *data = taken;
  return 0;
}

void* AlignedAlloc(size_t alignment, size_t nbytes) {
  void* taken = Take(alignment, nbytes);
  return taken == nullptr ? ::aligned_alloc(alignment, nbytes) : taken;
}

void Free(void* data) {
  if (data == nullptr || g_memory.load(std::memory_order_acquire)->give_back(data)) return;
  const int saved = errno;
  ::free(data);
  errno = saved;
}

void* Realloc(void* data, size_t nbytes) {
  const size_t had = data == nullptr ? 0 : g_memory.load(std::memory_order_acquire)->size(data);
  if (had == 0) return ::realloc(data, nbytes);
  void* moved = ::malloc(nbytes);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, data, std::min(had, nbytes));
  Free(data);
  return moved;
}

struct Entry {
  std::string_view symbol;
  void* function;
};

// Whether a relocation is an address of a symbol, to be stored as it is.
bool IsAddress(uint64_t type) {
#if defined(__x86_64__)
  return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
  return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT;
#else
  return false;
#endif
}

struct Slot {
  void** address;
  void* value;
};

// The slots of the loaded library that hold the addresses of `entries`.
std::vector<Slot> FindSlots(const link_map& library, const std::vector<Entry>& entries) {
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  struct Table {
    const ElfW(Rela) * begin = nullptr;
    size_t nbytes = 0;
  } lazy, other;
  for (const ElfW(Dyn)* d = library.l_ld; d->d_tag != DT_NULL; ++d) {
    const auto at = [&](const auto* type) {
      return reinterpret_cast<decltype(type)>(d->d_un.d_ptr);
    };
    if (d->d_tag == DT_SYMTAB) symbols = at(symbols);
    if (d->d_tag == DT_STRTAB) names = at(names);
    if (d->d_tag == DT_JMPREL) lazy.begin = at(lazy.begin);
    if (d->d_tag == DT_PLTRELSZ) lazy.nbytes = d->d_un.d_val;
    if (d->d_tag == DT_RELA) other.begin = at(other.begin);
    if (d->d_tag == DT_RELASZ) other.nbytes = d->d_un.d_val;
  }
  std::vector<Slot> slots;
  if (symbols == nullptr || names == nullptr) return slots;
  for (const Table& table : {lazy, other}) {
    for (size_t i = 0; i < table.nbytes / sizeof(ElfW(Rela)); ++i) {
      const ElfW(Rela) & rela = table.begin[i];
      if (!IsAddress(ELF64_R_TYPE(rela.r_info))) continue;
      const std::string_view name = names + symbols[ELF64_R_SYM(rela.r_info)].st_name;
      for (const Entry& entry : entries) {
        if (entry.symbol != name) continue;
        slots.push_back({reinterpret_cast<void**>(library.l_addr + rela.r_offset), entry.function});
      }
    }
  }
  return slots;
}

// The addresses of a library that the loader made read-only once it had filled them.
struct ReadOnly {
  uintptr_t library;
  uintptr_t begin = 0, end = 0;
};

int FindReadOnly(dl_phdr_info* info, size_t, void* to) {
  auto* found = static_cast<ReadOnly*>(to);
  if (info->dlpi_addr != found->library) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_GNU_RELRO) continue;
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    found->begin = (info->dlpi_addr + header.p_vaddr) / page * page;
    found->end = (info->dlpi_addr + header.p_vaddr + header.p_memsz) / page * page;
  }
  return 1;
}

bool Protect(const ReadOnly& range, int protection) {
  return range.begin == range.end ||
         mprotect(reinterpret_cast<void*>(range.begin), range.end - range.begin, protection) == 0;
}

}  // namespace

Status ServePluginMemory(const std::string& path, const PluginMemory& memory) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  link_map* library = nullptr;
  if (handle == nullptr || ::dlinfo(handle, RTLD_DI_LINKMAP, &library) != 0) {
    return FailedPrecondition("plugin " + path + " is not loaded");
  }
  const std::vector<Slot> slots =
      FindSlots(*library, {{"posix_memalign", reinterpret_cast<void*>(&PosixMemalign)},
                           {"aligned_alloc", reinterpret_cast<void*>(&AlignedAlloc)},
                           {"realloc", reinterpret_cast<void*>(&Realloc)},
                           {"free", reinterpret_cast<void*>(&Free)}});
  // What cannot be given back must not be taken.
  const bool gives_back = std::any_of(slots.begin(), slots.end(), [](const Slot& slot) {
    return slot.value == reinterpret_cast<void*>(&Free);
  });
  if (!gives_back) return Unimplemented("plugin " + path + " does not free through the C library");

  const PluginMemory* none = nullptr;
  if (!g_memory.compare_exchange_strong(none, &memory) && none != &memory) {
    return FailedPrecondition("plugins take their memory from another place already");
  }
  ReadOnly range{library->l_addr};
  ::dl_iterate_phdr(&FindReadOnly, &range);
  if (!Protect(range, PROT_READ | PROT_WRITE)) {
    return Unimplemented("the tables of plugin " + path + " cannot be written");
  }
  for (const Slot& slot : slots) {
    std::atomic_ref<void*>(*slot.address).store(slot.value, std::memory_order_release);
  }
  Protect(range, PROT_READ);
  return {};
}

}  // namespace dendrite::pjrt
