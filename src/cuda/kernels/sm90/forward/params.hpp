// What a launch of this family is given beside ForwardParams: tensor maps and the order of work.
#pragma once

#include "cuda/kernels/forward_params.cuh"
#include "cuda/kernels/sm90/forward/config.hpp"
#include "cuda/kernels/sm90/forward/order.hpp"
#include "cuda/tile/tensor_map.cuh"

namespace tilefold::cuda::sm90 {

/// Where the next item comes from: the block's number plus the grid's size again and again, or a
/// counter that all blocks share.
enum class Turn : int { fixed, counted };
/// Who brings Q: TMA, where a list is one head; else the warps that multiply it, row by row.
enum class QueryPath : int { box, rows };

/// `general`: everything. `direct`: whole rows of one head a list, of the kernel's own type, on 16
/// bytes, without sinks. `box`: the same through shared memory by TMA, where a query stage is to
/// spare for it. `unaligned`: as direct, off 16 bytes; of plain kernels, the others are general
/// then.
enum class OutputPath : int { box, direct, unaligned, general };

/// What the main loop reads stands first: constant memory is cached by lines.
struct KernelParams {
  // (column, row, head, sequence); a ragged tensor has one sequence.
  TensorMap query, key, value, out;
  OutputPath output_path;
  QueryPath query_path;
  Turn turn;
  int items;                 // of the work list, or of the order times the splits
  int query_rows, key_rows;  // of a sequence, in dense tensors: TMA gives zeros beyond; 0: ragged
  unsigned* counters;        // 2 zeros; left at zero
  WorkOrder order;           // where problem.work is null and rows are not split
  ForwardParams problem;
};

/// `first_keys`: of each sequence, the first key that the mask may leave a query; null: not known.
template <class F> struct CompiledParams : KernelParams {
  const int* first_keys;
  F formula;
};
template <class Chosen> struct ParamsFor { using type = KernelParams; };
template <ForwardConfig config, class F> struct ParamsFor<CompiledChoice<config, F>> {
  using type = CompiledParams<F>;
};
/// What a kernel is launched with.
template <class Chosen> using ParamsOf = typename ParamsFor<Chosen>::type;

/// The work of one item. Its number among the parts is that of work_of(): merge_parts finds it.
TILEFOLD_HD ForwardWork work_of_item(const KernelParams& params, int item) {
  const ForwardParams& p = params.problem;
  if (p.work != nullptr) return p.work[item];
  const int splits = p.shape.splits;
  const RowTile at = params.order.at(splits == 1 ? item : item / splits);
  const long long part =
      (1LL * at.list * p.shape.row_tiles + at.tile) * splits + (splits == 1 ? 0 : item % splits);
  return work_of(p, p.shape.items - 1 - part);
}

/// Of a sequence's keys, those that the range mask leaves one of its queries.
TILEFOLD_HD constexpr KeyRange keys_of_sequence(const ForwardParams& p, const SequenceInfo& s) {
  const OpenKeyRange a = open_range(p, s, 0), b = open_range(p, s, s.query_length - 1);
  return bounded({score::smaller(a.begin, b.begin), score::larger(a.end, b.end)}, 0, s.key_length);
}

/// The keys [begin, end) that every row [first_row, first_row + rows) sees. Ranges move evenly with
/// the query, so the outermost two decide; empty where a row sees none.
TILEFOLD_HD constexpr KeyRange keys_of_all(const ForwardParams& p, const SequenceInfo& s,
                                           const ForwardWork& work) {
  const QueryRange queries = queries_of(s, work);
  const OpenKeyRange a = open_range(p, s, queries.first), b = open_range(p, s, queries.last);
  return bounded({score::larger(a.begin, b.begin), score::smaller(a.end, b.end)}, work.first_key,
                 work.last_key);
}

}  // namespace tilefold::cuda::sm90
