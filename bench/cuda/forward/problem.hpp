// One problem of forward_bench: its shape, its tensors on the device, the kernel's parameters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bench/cuda/device.hpp"
#include "bench/cuda/forward/kernels.hpp"
#include "cuda/kernels/forward_params.cuh"

namespace tilefold::bench::forward {

struct Shape {
  int batch, query_length, key_length, query_heads, kv_heads, head_dim, value_dim;
  // Range mask; causal is high = 0.
  int low = cuda::RangeMask::unbounded_low, high = cuda::RangeMask::unbounded_high;
  float scale = 0;    // 0: 1 / sqrt(head_dim)
  float spread = 1;   // of Q
  int page_size = 0;  // 0: dense
  int split_keys = 0;
  float cap = 0;             // softcap; needs a formula kernel
  bool sinks = false;        // every head's is `sink`
  bool wide_output = false;  // float32: two of the output's 16-bit words each

  static constexpr float sink = 1.5f;

  bool causal() const { return high == 0; }
  float actual_scale() const;
  /// Of both products over the pairs that the mask leaves; masks other than causal count as dense.
  double flops() const;
  /// Rows of the key tensor: those of the sequences, or of the pool, whose page 0 is nobody's.
  std::size_t key_rows() const;
  /// Where key j of sequence b stands in it.
  std::size_t key_row(int b, int j) const;
  int pages_a_sequence() const;
};

/// Typed memory of the current device.
template <class T> class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count)
      : memory_(std::max<std::size_t>(count, 1) * sizeof(T)), count_(count) {}
  explicit DeviceArray(const std::vector<T>& host) : DeviceArray(host.size()) { upload(host); }

  T* data() const { return static_cast<T*>(memory_.data()); }
  std::size_t size() const { return count_; }
  /// `host` has size() elements.
  void upload(const std::vector<T>& host) { memory_.copy_from(host.data(), count_ * sizeof(T)); }
  void poison() { memory_.poison(); }
  std::vector<T> download() const {
    std::vector<T> host(count_);
    memory_.copy_to(host.data(), count_ * sizeof(T));
    return host;
  }

 private:
  DeviceMemory memory_;
  std::size_t count_;
};

/// The tensors of a problem, uninitialised, and the parameters that point at them; 16-bit tensors
/// are of the kernel's type.
struct Bound {
  DeviceArray<std::uint16_t> query, key, value, out;  // [batch, length, heads, columns], or a pool
  DeviceArray<float> lse, part_max, part_sum, part_out, sinks;
  DeviceArray<cuda::SequenceInfo> sequences;
  DeviceArray<int> pages;
  cuda::ForwardParams params{};

  Bound(const Shape& shape, const cuda::sm80::ForwardConfig& config);
};

/// Raises the kernel's limit of shared memory; once, before any launch().
void prepare(const Kernel& kernel);

/// Enqueues the forward, and the merge of rows that are split.
void launch(const Kernel& kernel, const Bound& bound);

}  // namespace tilefold::bench::forward
