#include "cuda/launch/compiled.hpp"

#include <algorithm>
#include <cstring>

#include "cuda/kernels/sm90/forward/registry.hpp"
#include "cuda/launch/tensor_core.hpp"
#include "plan/row_runs.hpp"
#include "score/program/side_tensor_state.hpp"
#include "tilefold/error.hpp"

namespace tilefold::cuda {

namespace {

struct Registered {
  std::vector<CompiledRow> rows;
  bool closed = false;
};
Registered& registered() {
  static Registered all;
  return all;
}

std::string row_name(const CompiledForward& kernel) {
  const sm90::ForwardConfig c = config_of(kernel);
  return kernel_name("sm90", c.type, c.head_dim, c.value_dim) + " " +
         std::to_string(c.tile_rows()) + "x" + std::to_string(c.tile_keys) + " " + kernel.name;
}

// What a Mask or a ScoreChange holds, and its type; the default ones hold nothing.
template <class Node> struct Held {
  const std::type_info* type;
  const void* functor;

  Held(const Node* node, const std::type_info& none)
      : type(node == nullptr ? &none : &node->functor_type()),
        functor(node == nullptr ? nullptr : node->functor()) {}
};
Held<score::MaskNode> mask_of(const Problem& problem) {
  return {problem.options.mask.node(), typeid(score::Everything)};
}
Held<score::ScoreNode> change_of(const Problem& problem) {
  return {problem.options.score.node(), typeid(score::Unchanged)};
}

bool has_types(const CompiledForward& kernel, const Problem& problem) {
  return *kernel.mask == *mask_of(problem).type && *kernel.change == *change_of(problem).type;
}

}  // namespace

void register_forward(CompiledForward kernel) {
  Registered& all = registered();
  if (all.closed)
    throw Error(ErrorCode::conflicting_argument,
                "the kernel of formula " + kernel.name +
                    " is registered after the first plan: link its file, or load it before");
  for (const CompiledRow& row : all.rows)
    if (*row.kernel.mask == *kernel.mask && *row.kernel.change == *kernel.change &&
        row.kernel.dtype == kernel.dtype && row.kernel.shape == kernel.shape)
      throw Error(ErrorCode::conflicting_argument,
                  "formulas " + row.kernel.name + " and " + kernel.name +
                      " are kernels of the same types, dtype and head dimension");
  std::string name = row_name(kernel);
  all.rows.push_back({std::move(kernel), std::move(name)});
}

const std::vector<CompiledRow>& compiled_rows() {
  registered().closed = true;
  return registered().rows;
}

sm90::ForwardConfig config_of(const CompiledForward& kernel) {
  return sm90::config_of(kernel.dtype == DType::bf16 ? HalfType::bf16 : HalfType::f16,
                         sm90::Formula::compiled, sm90::compiled_tiles[kernel.shape], kernel.plain);
}

std::optional<std::string> formula_refusal(const CompiledForward& kernel,
                                           const core::Geometry& geometry, const Problem& problem) {
  if (!has_types(kernel, problem)) return "it is compiled for another formula, " + kernel.name;
  return beside_refusal(geometry, problem, *kernel.change != typeid(score::Unchanged));
}

std::optional<std::string> beside_refusal(const core::Geometry& geometry, const Problem& problem,
                                          bool changed) {
  const Tensors& t = problem.tensors;
  if (problem.options.softcap || t.alibi_slopes.present() || t.bias.present())
    return "it takes no softcap, ALiBi slopes or bias beside the formula: write them into the "
           "score";
  if (geometry.query_stride != 1 || geometry.key_stride != 1)
    return "it takes positions that are one apart";
  return changed ? std::nullopt : scale_refusal(geometry.scale);
}

bool formula_is_compiled(const Problem& problem) {
  const auto& rows = compiled_rows();
  return std::any_of(rows.begin(), rows.end(),
                     [&](const CompiledRow& row) { return has_types(row.kernel, problem); });
}

std::vector<unsigned char> formula_image(const CompiledForward& kernel, const Problem& problem,
                                         const SideTensors& tensors) {
  std::vector<unsigned char> bytes(kernel.formula_bytes);
  kernel.write(bytes.data(), mask_of(problem).functor, change_of(problem).functor, tensors);
  return bytes;
}

namespace {

int first_visible_key(const core::Geometry& g, const score::MaskNode* mask, int sequence,
                      int kv_head, int first, int last) {
  const std::int64_t rows =
      std::int64_t(g.group()) * g.sequences[std::size_t(sequence)].query_length;
  const score::Truth truth = planner::answer(g, mask, sequence, kv_head, 0, rows, first, last);
  if (truth.no()) return last;
  if (truth.yes() || last - first == 1) return first;
  const int middle = first + (last - first) / 2;
  const int found = first_visible_key(g, mask, sequence, kv_head, first, middle);
  return found < middle ? found : first_visible_key(g, mask, sequence, kv_head, middle, last);
}

}  // namespace

std::vector<int> first_visible_keys(const core::Geometry& g, const score::MaskNode* mask) {
  std::vector<int> first(g.sequences.size());
  for (std::size_t b = 0; b < first.size(); ++b) {
    const core::Sequence& s = g.sequences[b];
    if (mask == nullptr || s.key_length == 0 || s.query_length == 0) continue;
    first[b] = s.key_length;
    for (int head = 0; head < g.kv_heads; ++head)
      first[b] = std::min(first[b], first_visible_key(g, mask, int(b), head, 0, s.key_length));
  }
  return first;
}

// Rows of a lookup and of a table stand apart by their stride; the copies' by what padding makes
// it.
template <class T>
const T* SideTensors::padded(const T* rows, long long stride, int count, int size) const {
  constexpr int pad = score::side_tensor_pad;
  const std::size_t row = std::size_t(size) + 2 * pad;
  std::vector<T> image(row * std::size_t(count));
  for (int r = 0; r < count; ++r)
    for (int i = -pad; i < size + pad; ++i)
      image[std::size_t(r) * row + std::size_t(i + pad)] =
          rows[r * stride + std::clamp(i, 0, size - 1)];
  return static_cast<const T*>(copy(image.data(), image.size() * sizeof(T))) + pad;
}

void SideTensors::operator()(score::Lookup& lookup) const {
  const int rows = lookup.batch_stride == 0 ? 1 : batch();
  const int blocks = (lookup.positions + score::Lookup::block - 1) / score::Lookup::block;
  const std::size_t bound_bytes = sizeof(int) * std::size_t(rows) * std::size_t(blocks);
  lookup.values = padded(lookup.values, lookup.batch_stride, rows, lookup.positions);
  if (lookup.batch_stride != 0) lookup.batch_stride = lookup.positions + 2 * score::side_tensor_pad;
  lookup.low = static_cast<const int*>(copy(lookup.low, bound_bytes));
  lookup.high = static_cast<const int*>(copy(lookup.high, bound_bytes));
}

void SideTensors::operator()(score::Table& table) const {
  table.values = padded(table.values, table.row_stride, table.rows, table.size);
  table.row_stride = table.size + 2 * score::side_tensor_pad;
}

namespace {

/// Elements of an array's padded rows, one behind the other.
template <class T> long long padded_size(const score::SideArray<T>& array) {
  const int last = array.rank - 1;
  long long elements = array.size[last] + 2 * score::side_tensor_pad;
  for (int axis = 0; axis < last; ++axis) elements *= array.size[axis];
  return elements;
}
template <class T> void read_padded_rows(score::SideArray<T>& array) {
  array.stride[array.rank - 1] = 1;
  long long stride = array.size[array.rank - 1] + 2 * score::side_tensor_pad;
  for (int axis = array.rank - 2; axis >= 0; --axis) {
    array.stride[axis] = stride;
    stride *= array.size[axis];
  }
}
/// Rows of the last axis one behind the other.
template <class T> std::vector<T> contiguous_rows(const score::SideArray<T>& array) {
  const int last = array.rank - 1, size = array.size[last];
  std::vector<T> values;
  long long rows = 1;
  for (int axis = 0; axis < last; ++axis) rows *= array.size[axis];
  for (long long row = 0; row < rows; ++row) {
    long long rest = row;
    int index[score::SideArray<T>::max_rank] = {};
    for (int axis = last - 1; axis >= 0; --axis) {
      index[axis] = int(rest % array.size[axis]);
      rest /= array.size[axis];
    }
    const T* from = array.values + array.element(index);
    values.insert(values.end(), from, from + size);
  }
  return values;
}

}  // namespace

template <class T>
void SideTensors::copy_array(score::SideArray<T>& array, const TensorView& given) const {
  const std::size_t bytes = sizeof(T) * std::size_t(score::cell_count(array));
  if (given.device() != Device::cpu()) {
    array.values = static_cast<const T*>(space(sizeof(T) * std::size_t(padded_size(array)))) +
                   score::side_tensor_pad;
    array.low = static_cast<const T*>(space(bytes));
    array.high = static_cast<const T*>(space(bytes));
    read_padded_rows(array);
    return gather(array, given);
  }
  const std::vector<T> rows = contiguous_rows(array);
  const int size = array.size[array.rank - 1];
  array.values = padded(rows.data(), size, int(rows.size() / std::size_t(size)), size);
  array.low = static_cast<const T*>(copy(array.low, bytes));
  array.high = static_cast<const T*>(copy(array.high, bytes));
  read_padded_rows(array);
}
void SideTensors::operator()(score::SideArray<int>& array, const TensorView& given) const {
  copy_array(array, given);
}
void SideTensors::operator()(score::SideArray<float>& array, const TensorView& given) const {
  copy_array(array, given);
}

void SideTensors::operator()(const float*& elements, long long count) const {
  elements = static_cast<const float*>(copy(elements, std::size_t(count) * sizeof(float)));
}
void SideTensors::operator()(const int*& elements, long long count) const {
  elements = static_cast<const int*>(copy(elements, std::size_t(count) * sizeof(int)));
}

}  // namespace tilefold::cuda
