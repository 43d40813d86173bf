// The plain-load kernels and the small kernels around every forward, as function pointers.
#include "cuda/kernels/any/kernel.cuh"
#include "cuda/kernels/any/read_lengths.cuh"
#include "cuda/kernels/clear_rows.cuh"
#include "cuda/kernels/merge.cuh"
#include "cuda/kernels/side_tensor.cuh"
#include "cuda/launch/device_functions.hpp"

namespace tilefold::cuda {

namespace {
template <class Kernel> const void* address(Kernel* kernel) {
  return reinterpret_cast<const void*>(kernel);
}
}  // namespace

const void* any_forward_16() { return address(any::forward<any::Choice<any::ForwardConfig{16}>>); }
const void* any_forward_8() { return address(any::forward<any::Choice<any::ForwardConfig{8}>>); }
const void* merge_function() { return address(merge_parts); }
const void* clear_rows_function() { return address(clear_rows); }
const void* pad_rows_function() { return address(pad_rows); }
const void* build_integer_cells_function() { return address(build_cells<int>); }
const void* build_real_cells_function() { return address(build_cells<float>); }
const void* any_read_lengths_function() { return address(any::read_lengths_interpreted); }
const void* read_lengths_function() { return address(read_lengths); }

}  // namespace tilefold::cuda
