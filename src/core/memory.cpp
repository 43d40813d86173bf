// What can be said about tensors only when their pointers are known.
#include <array>
#include <cstdlib>
#include <string>

#include "core/each_tensor.hpp"
#include "core/geometry.hpp"
#include "tilefold/error.hpp"

namespace tilefold::core {

namespace {

struct Range {
  std::uintptr_t first, last;  // bytes [first, last)
  bool meets(Range other) const { return first < other.last && other.first < last; }
};

Range bytes_of_view(const TensorView& tensor) {
  const auto base = reinterpret_cast<std::uintptr_t>(tensor.data());
  const TensorView::ByteSpan span = tensor.byte_span();
  return {base + std::uintptr_t(span.first), base + std::uintptr_t(span.last)};
}

// The axis with the largest step, or -1; and that step in bytes.
int outermost_axis(const TensorView& tensor, std::int64_t& step) {
  int outermost = -1;
  step = 0;
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    const std::int64_t bytes = std::abs(tensor.stride(axis)) * bytes_of(tensor.dtype());
    if (tensor.dim(axis) > 1 && bytes > step) {
      step = bytes;
      outermost = axis;
    }
  }
  return outermost;
}

// Two views of one packed buffer step through it together: they meet only if their slices do. Exact
// for views that share strides; otherwise any meeting of the byte ranges counts as overlap.
bool overlap(const TensorView& a, const TensorView& b) {
  if (a.empty() || b.empty() || !bytes_of_view(a).meets(bytes_of_view(b))) return false;
  std::int64_t step_a, step_b;
  const int axis_a = outermost_axis(a, step_a), axis_b = outermost_axis(b, step_b);
  if (axis_a < 0 || axis_b < 0 || step_a != step_b) return true;
  const TensorView slice_a = a.slice(axis_a, 0, 1), slice_b = b.slice(axis_b, 0, 1);
  const Range ra = bytes_of_view(slice_a), rb = bytes_of_view(slice_b);
  const auto step = std::uintptr_t(step_a);
  if (ra.last - ra.first > step || rb.last - rb.first > step) return true;
  // b's slice repeats every step: take the repetition that starts first at or after a's start.
  const std::uintptr_t distance = rb.first >= ra.first
                                      ? (rb.first - ra.first) % step
                                      : (step - (ra.first - rb.first) % step) % step;
  return distance < ra.last - ra.first || distance + (rb.last - rb.first) > step;
}

// Elements between neighbours along an axis, in either direction.
std::uint64_t step_of(const TensorView& tensor, int axis) {
  const std::int64_t stride = tensor.stride(axis);
  return stride < 0 ? -std::uint64_t(stride) : std::uint64_t(stride);
}

// An output whose own elements share memory: a stride shorter than what lies inside it.
bool overlaps_itself(const TensorView& tensor) {
  if (tensor.empty()) return false;
  std::uint64_t inside = 1;  // elements spanned by the axes of smaller stride; at most 2^64 - 1
  std::array<bool, TensorView::max_rank> done{};
  for (int round = 0; round < tensor.rank(); ++round) {
    int next = -1;
    for (int axis = 0; axis < tensor.rank(); ++axis) {
      if (done[std::size_t(axis)] || tensor.dim(axis) == 1) continue;
      if (next < 0 || step_of(tensor, axis) < step_of(tensor, next)) next = axis;
    }
    if (next < 0) break;
    done[std::size_t(next)] = true;
    const std::uint64_t step = step_of(tensor, next);
    if (step < inside) return true;
    std::uint64_t reach;
    if (__builtin_mul_overflow(step, std::uint64_t(tensor.dim(next) - 1), &reach) ||
        __builtin_add_overflow(inside, reach, &inside))
      inside = UINT64_MAX;
  }
  return false;
}

}  // namespace

void require_usable(const char* name, const TensorView& tensor) {
  if (!tensor.present() || tensor.empty()) return;
  if (tensor.data() == nullptr)
    throw Error(ErrorCode::missing_argument, std::string(name) + " has a null pointer");
  const std::uintptr_t past =
      reinterpret_cast<std::uintptr_t>(tensor.data()) % std::uintptr_t(bytes_of(tensor.dtype()));
  if (past != 0)
    throw Error(ErrorCode::misaligned, std::string(name) + " starts " + std::to_string(past) +
                                           " bytes past a multiple of its element's " +
                                           std::to_string(bytes_of(tensor.dtype())) + " bytes");
}

bool has_separate_elements(const TensorView& output) { return !overlaps_itself(output); }

void require_separate_elements(const char* name, const TensorView& output) {
  if (output.present() && overlaps_itself(output))
    throw Error(ErrorCode::overlap, std::string(name) + " is " + output.to_string() +
                                        ": its elements share memory with each other");
}

void require_disjoint(const char* output_name, const TensorView& output, const char* other_name,
                      const TensorView& other) {
  if (output.present() && other.present() && overlap(output, other))
    throw Error(ErrorCode::overlap, std::string(output_name) + " shares memory with " + other_name +
                                        ": outputs must overlap nothing");
}

void check_memory(const Tensors& tensors) {
  each_tensor(tensors,
              [](NamedTensor named, std::size_t) { require_usable(named.name, *named.tensor); });
  each_tensor(tensors, [&](NamedTensor output, std::size_t output_index) {
    if (output_index >= output_count) return;
    require_separate_elements(output.name, *output.tensor);
    each_tensor(tensors, [&](NamedTensor other, std::size_t index) {
      if (index > output_index)
        require_disjoint(output.name, *output.tensor, other.name, *other.tensor);
    });
  });
}

void check_same_description(const Tensors& planned, const Tensors& given) {
  const TensorPointers before = pointers_to(planned);
  each_tensor(given, [&](NamedTensor named, std::size_t i) {
    const TensorView &a = *before[i], &b = *named.tensor;
    bool same = a.present() == b.present() && a.dtype() == b.dtype() && a.shape() == b.shape() &&
                a.device() == b.device();
    for (int axis = 0; same && axis < a.rank(); ++axis) same = a.stride(axis) == b.stride(axis);
    if (!same)
      throw Error(ErrorCode::plan_mismatch, std::string(named.name) + " is " + b.to_string() +
                                                ": the plan was made for " + a.to_string());
  });
  if (planned.query_descale.per != given.query_descale.per ||
      planned.key_descale.per != given.key_descale.per ||
      planned.value_descale.per != given.value_descale.per)
    throw Error(ErrorCode::plan_mismatch, "a descale tensor changed its granularity since plan()");
}

}  // namespace tilefold::core
