// Addresses of kernels, for host code that no CUDA compiler reads.
#pragma once

namespace tilefold::cuda {

const void* any_forward_16();  // __global__ void(ForwardParams)
const void* any_forward_8();
const void* any_interpreted_16();  // __global__ void(ForwardParams, FormulaPrograms)
const void* any_interpreted_8();
const void* any_read_lengths_function();     // __global__ void(.., LengthSources, FormulaPrograms)
const void* merge_function();                // __global__ void(ForwardParams)
const void* clear_rows_function();           // __global__ void(ForwardParams, OutputRows)
const void* pad_rows_function();             // __global__ void(PaddedRows)
const void* build_integer_cells_function();  // __global__ void(SideArray<int>, int level)
const void* build_real_cells_function();     // __global__ void(SideArray<float>, int level)
const void* read_lengths_function();         // __global__ void(ForwardParams, LengthSources)

}  // namespace tilefold::cuda
