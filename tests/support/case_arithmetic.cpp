// The operations of handed cases that need no attention: merge, fp8, slopes, addresses.
#include <fmt/core.h>

#include <cmath>

#include "core/geometry.hpp"
#include "support/case_operations.hpp"
#include "tilefold/attention.hpp"

namespace tilefold::testing {

void run_merge(const CaseRun& run) {
  const CaseArray &outs = run.c.inputs.at("outs"), &lses = run.c.inputs.at("lses");
  TensorMemory memory;
  const DType state = state_dtype(run.dtype);
  const OutputView all_outs = place(memory, outs, state, LeadingAxis::none);
  const OutputView all_lses = place(memory, lses, state, LeadingAxis::none);
  std::vector<PartialResult> parts;
  for (std::int64_t s = 0; s < outs.shape[0]; ++s) {
    // Part s of [S, T, ...], without its first axis.
    const auto part = [&](const OutputView& all) {
      const Extents shape(all.shape().begin() + 1, all.rank() - 1);
      const Extents strides(all.strides().begin() + 1, all.rank() - 1);
      return TensorView(
          static_cast<const char*>(all.data()) + s * all.strides()[0] * bytes_of(state), state,
          shape, strides);
    };
    parts.push_back({part(all_outs), part(all_lses).transposed(0, 1)});
  }
  const OutputView out = memory.allocate(run.dtype, {outs.shape[1], outs.shape[2], outs.shape[3]});
  const OutputView lse = memory.allocate(state, {outs.shape[2], outs.shape[1]});
  merge(parts, out, lse);
  run.compare.check(out_array(out), lse_array(lse));
}

void run_fp8_encode(const CaseRun& run) {
  const std::vector<double>& x = run.c.inputs.at("x").data;
  std::vector<double> decoded, codes;
  for (const double value : x) {
    const float8_e4m3 code = round_to<float8_e4m3>(float(value));
    decoded.push_back(double(to_float(code)));
    codes.push_back(code.bits & (std::isnan(value) || value == 0 ? 0x7f : 0xff));
  }
  std::vector<double> want = run.c.expected.at("codes").data;
  for (std::size_t i = 0; i < want.size(); ++i)  // the sign of zero and of NaN is free
    if (std::isnan(x[i]) || x[i] == 0) want[i] = double(int(want[i]) & 0x7f);
  run.compare.check_values("codes", codes, want, 0);
  run.compare.check_values("decoded", decoded, run.c.expected.at("decoded").data, 0);
}

void run_alibi_slopes(const CaseRun& run) {
  for (const auto& [name, want] : run.c.expected) {
    if (name.rfind("slopes.", 0) != 0) continue;
    std::vector<float> slopes(want.data.size());
    alibi_slopes(int(slopes.size()), slopes.data());
    run.compare.check_values(name, std::vector<double>(slopes.begin(), slopes.end()), want.data,
                             run.c.tolerances.at("fp32"));
  }
}

/// The addresses of a pool too large for 32 bits, by the library's own arithmetic.
void run_index_arithmetic(const CaseRun& run) {
  const auto number = [&](const char* name) {
    const auto found = run.c.numbers.find(name);
    return found == run.c.numbers.end() ? std::int64_t{0} : std::int64_t(found->second);
  };
  std::int64_t offset = 0;
  if (run.c.has("page_id")) {
    const std::int64_t row = number("row_elems");
    const core::PageAddress address{number("page_size") * row, row, row};
    offset = address.offset(number("page_id"), int(number("slot")), int(number("head"))) +
             number("elem");
  } else {
    const core::RowAddress address{number("q_rows") * number("k_cols"), number("k_cols"), 0};
    offset = address.offset(int(number("batch_index")), 0, 0);
  }
  run.compare.check_values("element offset", {double(offset)},
                           run.c.expected.at("element_offset").data, 0);
}

}  // namespace tilefold::testing
