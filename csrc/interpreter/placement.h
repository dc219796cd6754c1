// csrc/interpreter/placement.h - results of CPU kernels made where they belong.
//
// A kernel without an .out form allocates its results, which would then be copied: a second
// activation's worth of memory and time for each convolution. While a Placement lives, an
// allocation on its thread of exactly as many bytes as were offered gets the offered memory instead
// of new one. A temporary of the same size may take it first; it is offered again when that is
// freed, and whatever ends up elsewhere is copied as before.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace dendrite::interpreter {

// Puts an allocator that knows of offers, and of scratch (csrc/interpreter/scratch.h), in front of
// PyTorch's CPU allocator. Once per process.
void InstallPlacement();

// Lives on one thread's stack; nests. Tensors made meanwhile must die before it does, or be
// delivered.
class Placement {
 public:
  Placement();
  ~Placement();
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;

  // `to`'s memory, if `to` fills a range of bytes without gaps. REQUIRES: nothing that runs
  // meanwhile reads it.
  void Offer(const at::Tensor& to);
  // Makes each `to` hold the values of its `result`.
  struct Delivery {
    at::Tensor result, to;
  };
  void Deliver(std::vector<Delivery> deliveries) const;

  // The allocator's side: memory for `nbytes`, or null.
  void* Take(size_t nbytes);
  void GiveBack(void* data);

 private:
  struct Place {
    void* data;
    size_t nbytes;
    bool free;
  };
  bool Owns(const at::Tensor& tensor) const;

  std::vector<Place> places_;
  Placement* outer_;
};

}  // namespace dendrite::interpreter
