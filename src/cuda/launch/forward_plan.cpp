#include "cuda/launch/forward_plan.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "cuda/kernels/side_tensor.hpp"
#include "cuda/launch/compiled.hpp"
#include "cuda/launch/device_functions.hpp"
#include "cuda/launch/interpreted.hpp"
#include "cuda/launch/run_time.hpp"
#include "cuda/launch/work_order.hpp"
#include "cuda/runtime/launch.hpp"
#include "plan/exact_weights.hpp"
#include "tilefold/error.hpp"

namespace tilefold::cuda {

namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

Strides strides_of(const core::RowAddress& a) {
  return {a.sequence_stride, a.row_stride, a.head_stride};
}
Strides strides_of(const core::PageAddress& a) {
  return {a.page_stride, a.slot_stride, a.head_stride};
}

Strides scale_strides(const Descale& descale, core::KeyLayout layout) {
  const TensorView& s = descale.scale;
  if (!s.present()) return {};
  switch (descale.per) {
    case Granularity::tensor: return {};
    case Granularity::head: return {0, 0, s.stride(0)};
    case Granularity::page: return {s.stride(0), 0, s.stride(1)};
    case Granularity::token: break;
  }
  if (layout == core::KeyLayout::paged || s.rank() == 3)
    return {s.stride(0), s.stride(1), s.stride(2)};
  return {0, s.stride(0), s.stride(1)};
}

Operand key_operand(const core::Geometry& g, const TensorView& tensor, const Descale& descale,
                    PageLayout layout) {
  const bool paged = g.key_layout == core::KeyLayout::paged;
  return {nullptr, element_type(tensor.dtype()),
          paged ? strides_of(core::PageAddress::of(tensor, layout))
                : strides_of(core::RowAddress::of(tensor)),
          nullptr, scale_strides(descale, g.key_layout)};
}

// A view of the key's first columns starts where the key does.
const void* value_data(const Tensors& tensors, const Options& options) {
  return options.value_source == ValueSource::view_of_key ? tensors.key.data()
                                                          : tensors.value.data();
}

const float* scale_data(const Descale& descale) {
  return descale.scale.present() ? descale.scale.as<float>() : nullptr;
}

const Descale& value_descale(const Problem& problem, const Tensors& tensors) {
  return problem.options.value_source == ValueSource::view_of_key ? tensors.key_descale
                                                                  : tensors.value_descale;
}

bool uniform(const core::Geometry& g) {
  return std::all_of(g.sequences.begin(), g.sequences.end(), [&](const core::Sequence& s) {
    return s.query_length == g.max_query_length && s.key_length == g.max_key_length;
  });
}

std::int64_t splits_at_most(const core::Geometry& g, const planner::Schedule& schedule) {
  core::Sequence longest;
  longest.key_length = g.max_key_length;
  return schedule.splits(longest);
}

bool has_unowned_rows(const core::Geometry& g, const Tensors& tensors) {
  if (g.lengths_on_device) return tensors.cu_seqlens_q.present() || tensors.query_lengths.present();
  std::int64_t owned = 0;
  for (const core::Sequence& s : g.sequences) owned += s.query_length;
  return owned < g.total_query_rows;
}

/// Row-major copy of a host tensor of float32.
std::vector<float> packed(const TensorView& tensor) {
  std::vector<float> elements;
  elements.reserve(std::size_t(tensor.element_count()));
  for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
    std::int64_t rest = i, at = 0;
    for (int axis = tensor.rank() - 1; axis >= 0; --axis) {
      at += rest % tensor.dim(axis) * tensor.stride(axis);
      rest /= tensor.dim(axis);
    }
    elements.push_back(tensor.as<float>()[at]);
  }
  return elements;
}

}  // namespace

WorkspaceLayout::WorkspaceLayout(const core::Geometry& geometry, const planner::Schedule& schedule,
                                 int counter_count) {
  sequences = aligned(std::size_t(counter_count) * sizeof(unsigned));
  bytes = sequences;
  if (geometry.lengths_on_device)
    bytes += aligned(std::size_t(geometry.batch) * sizeof(SequenceInfo));
  part_max = part_sum = part_out = bytes;
  if (splits_at_most(geometry, schedule) == 1) return;
  const std::size_t rows = std::size_t(schedule.items()) * std::size_t(schedule.tile.block_queries);
  part_sum = part_max + aligned(rows * sizeof(float));
  part_out = part_sum + aligned(rows * sizeof(float));
  bytes = part_out + aligned(rows * std::size_t(geometry.value_dim) * sizeof(float));
}

std::vector<ForwardWork> work_list(const core::Geometry& geometry,
                                   const planner::Schedule& schedule) {
  std::vector<ForwardWork> list;
  if (geometry.lengths_on_device || uniform(geometry)) return list;
  list.reserve(std::size_t(schedule.items()));
  for (std::int64_t i = 0; i < schedule.items(); ++i) {
    const planner::WorkItem item = schedule.item(geometry, i);
    list.push_back({item.first_row, item.part, int(item.last_row - item.first_row), item.sequence,
                    item.kv_head, item.first_key, item.last_key, item.split, item.splits});
  }
  return list;
}

WorkShape work_shape(const core::Geometry& geometry, const planner::Schedule& schedule) {
  const int rows = schedule.tile.block_queries;
  const std::int64_t packed_rows =
      std::int64_t(schedule.packed_heads(geometry)) * geometry.max_query_length;
  return {schedule.items(), rows, int((packed_rows + rows - 1) / rows),
          int(splits_at_most(geometry, schedule)), schedule.split_keys};
}

void interleave_runs(const core::Geometry& geometry, int pack, const RangeMask& range,
                     WorkShape& shape) {
  // Rows differ in length where one border of their range is open and the other moves.
  const bool low = range.low != RangeMask::unbounded_low;
  if (low || range.high == RangeMask::unbounded_high) return;
  if (geometry.sequences.empty() || geometry.lengths_on_device || !uniform(geometry)) return;
  const int queries = geometry.sequences.front().query_length;
  const bool whole = queries % shape.tile_rows == 0;
  if (pack > 1 && !whole) return;                // a tile that straddles heads is of no length
  constexpr std::int64_t half_of_l2 = 32 << 20;  // of an H200's, which has 60 MB
  const std::int64_t key_bytes = std::int64_t(bytes_of(geometry.key_dtype)) *
                                 geometry.sequences.front().key_length *
                                 (geometry.head_dim + geometry.value_dim);
  const std::int64_t heads = std::int64_t(geometry.batch) * geometry.kv_heads;
  shape.run_tiles = shape.row_tiles / pack;
  shape.runs_together =
      int(geometry.group() * std::clamp(half_of_l2 / std::max<std::int64_t>(key_bytes, 1),
                                        std::int64_t(1), std::max<std::int64_t>(heads, 1)));
}

PageIds gather_page_ids(const core::Geometry& geometry, const PageTable& pages) {
  PageIds gathered;
  for (int b = 0; b < int(geometry.sequences.size()); ++b) {
    const int keys = geometry.sequences[std::size_t(b)].key_length;
    const int count = (keys + geometry.page_size - 1) / geometry.page_size;
    gathered.first.push_back(std::int64_t(gathered.ids.size()));
    if (count == 0) continue;
    const core::PageList list(pages, b);
    for (int page = 0; page < count; ++page) gathered.ids.push_back(int(list[page]));
  }
  return gathered;
}

std::vector<SequenceInfo> sequence_infos(const core::Geometry& geometry, const PageIds& pages) {
  std::vector<SequenceInfo> infos;
  for (std::size_t b = 0; b < geometry.sequences.size(); ++b) {
    const core::Sequence& s = geometry.sequences[b];
    infos.push_back({s.query_begin, s.key_begin, pages.first.empty() ? 0 : pages.first[b],
                     s.query_length, s.key_length, s.query_start, s.key_start, s.offset, 0});
  }
  return infos;
}

// Measured by simulation, docs/numerics.md. Batch-invariant bits may not depend on how many rows a
// prefill's chunk has: there every head is treated as short ones are. So are scores that no query
// changes: all rows round alike, and their number helps nothing.
ExactWeights exact_weights(const core::Geometry& g, Reproducibility mode, bool counted) {
  const int keys = planner::exact_weights_below_keys(g.value_dim);
  if (mode == Reproducibility::batch_invariant || g.scale == 0)
    return {std::numeric_limits<long long>::max(), keys};
  if (counted) return {2048, keys};
  // Any of the rows may see a few keys: a head needs so many that enough see more.
  return {g.out_dtype == DType::f32 ? 32768 : 8192, keys};
}

ForwardParams describe_problem(const core::Geometry& g, const planner::Schedule& schedule,
                               const Problem& problem) {
  const Tensors& t = problem.tensors;
  const PageLayout layout = problem.options.page_layout;
  const TensorView value = core::value_of(t, problem.options);
  ForwardParams p{};
  p.query = {nullptr, element_type(g.query_dtype), strides_of(core::RowAddress::of(t.query)),
             nullptr, scale_strides(t.query_descale, core::KeyLayout::dense)};
  p.key = key_operand(g, t.key, t.key_descale, layout);
  p.value = key_operand(g, value, value_descale(problem, t), layout);
  p.out_strides = strides_of(core::RowAddress::of(t.out));
  p.out_type = element_type(g.out_dtype);
  if (t.lse.present())
    p.lse_strides = t.lse.rank() == 3 ? Strides{t.lse.stride(0), t.lse.stride(2), t.lse.stride(1)}
                                      : Strides{0, t.lse.stride(1), t.lse.stride(0)};
  p.batch = g.batch;
  p.query_heads = g.query_heads;
  p.kv_heads = g.kv_heads;
  p.group = g.group();
  p.pack = schedule.packed_heads(g);
  p.lists = g.query_heads / p.pack;
  p.head_dim = g.head_dim;
  p.value_dim = g.value_dim;
  p.query_stride = g.query_stride;
  p.key_stride = g.key_stride;
  p.scale = float(g.scale);
  p.page_id_stride = 1;
  p.pages = g.pages;
  p.page_size = g.page_size;
  p.sink_stride = t.sinks.present() ? t.sinks.stride(0) : 0;
  p.shape = work_shape(g, schedule);
  return p;
}

namespace {

/// A row of the table, bound to the plan's own function where that was compiled at run time.
ForwardKernel bound(ForwardKernel kernel, const RunTimeKernel* run_time,
                    const jit::Module* module) {
  if (run_time == nullptr) return kernel;
  kernel.function = module->function();
  kernel.compiled = &run_time->row;
  return kernel;
}

}  // namespace

ForwardPlan::ForwardPlan(const Execution& execution, const ForwardKernel& kernel)
    : module_(execution.run_time == nullptr ? nullptr : jit::load(execution.run_time->code.cubin)),
      kernel_(bound(kernel, execution.run_time, module_.get())),
      run_time_(execution.run_time),
      device_(execution.problem.tensors.query.device().index),
      layout_(execution.geometry, execution.schedule, kernel.counters) {
  const CurrentDevice current(device_);
  const core::Geometry& g = execution.geometry;
  const Tensors& t = execution.problem.tensors;
  params_ = describe_problem(g, execution.schedule, execution.problem);
  output_rows_ = {g.total_query_rows, t.query.rank() == 4 ? t.query.dim(1) : 0};
  clears_ = has_unowned_rows(g, t);
  status_ = DeviceBuffer(sizeof(std::uint32_t));
  require_success(cudaMemset(status_.data(), 0, status_.bytes()), "cudaMemset");
  params_.status = status_.as<unsigned>();
  upload_formula(execution.geometry, execution.problem);
  upload_lengths(execution);
  // A kernel with an order of its own counts from the schedule's.
  if (kernel.family_launch == nullptr)
    interleave_runs(g, params_.pack, params_.mask.range, params_.shape);
  shared_bytes_ = kernel_.compiled == nullptr ? kernel_.shared_bytes(g.head_dim, g.value_dim)
                                              : kernel_.compiled->shared_bytes;
  allow_shared(kernel_.function, shared_bytes_);
  if (kernel.family_launch != nullptr) make_family_launch(execution, nullptr);
  // Loads the small kernels too: a first launch inside a capture would load them there.
  cudaFuncAttributes ignored{};
  for (const void* function : {merge_function(), clear_rows_function(), read_lengths_function(),
                               any_read_lengths_function()})
    require_success(cudaFuncGetAttributes(&ignored, function), "loading a kernel");
  require_success(cudaDeviceSynchronize(), "waiting for uploads");
}

template <class T> T* ForwardPlan::keep(const std::vector<T>& elements) {
  buffers_.push_back(DeviceBuffer::copy_of(elements));
  return buffers_.back().template as<T>();
}

namespace {

/// Copies into device memory that the plan keeps: into what an earlier call left there, where the
/// sizes are the same.
class PlanTensors final : public SideTensors {
 public:
  PlanTensors(const core::Geometry& geometry, std::vector<DeviceBuffer>& buffers, void* stream)
      : geometry_(geometry), buffers_(buffers), stream_(static_cast<cudaStream_t>(stream)) {}
  int batch() const override { return geometry_.batch; }
  int query_heads() const override { return geometry_.query_heads; }
  const void* copy_of(const std::vector<int>& elements) const {
    return copy(elements.data(), elements.size() * sizeof(int));
  }

 protected:
  // Pageable memory: the driver has read it when this returns, and writes in the stream's order.
  void* copy(const void* host, std::size_t bytes) const override {
    void* to = space(bytes);
    if (bytes != 0)
      require_success(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, stream_),
                      "copying a side tensor to the device");
    return to;
  }
  void* space(std::size_t bytes) const override {
    if (next_ == buffers_.size()) buffers_.emplace_back();
    DeviceBuffer& buffer = buffers_[next_++];
    if (buffer.bytes() != bytes) buffer = DeviceBuffer(bytes);
    return buffer.data();
  }
  void gather(const score::SideArray<int>& array, const TensorView& given) const override {
    gather_array(array, given, build_integer_cells_function());
  }
  void gather(const score::SideArray<float>& array, const TensorView& given) const override {
    gather_array(array, given, build_real_cells_function());
  }

 private:
  template <class T> void gather_array(const score::SideArray<T>& array, const TensorView& given,
                                       const void* build) const {
    constexpr int threads = 256;
    const auto blocks = [](long long count) { return (count + threads - 1) / threads; };
    PaddedRows rows{};
    rows.from = static_cast<const unsigned*>(given.data());
    rows.rank = array.rank;
    rows.to = reinterpret_cast<unsigned*>(const_cast<T*>(array.values - score::side_tensor_pad));
    rows.elements = array.size[0] * array.stride[0];
    if (array.rank == 1) rows.elements = array.size[0] + 2 * score::side_tensor_pad;
    for (int axis = 0; axis < array.rank; ++axis) {
      rows.size[axis] = array.size[axis];
      rows.stride[axis] = given.stride(axis);
    }
    launch({pad_rows_function(), blocks(rows.elements), threads, 0, stream_}, "pad_rows", rows);
    for (int level = 1; level <= array.levels; ++level)
      launch({build, blocks(array.cells_of(level)), threads, 0, stream_}, "build_cells", array,
             level);
  }

  const core::Geometry& geometry_;
  std::vector<DeviceBuffer>& buffers_;
  cudaStream_t stream_;
  mutable std::size_t next_ = 0;
};

std::vector<unsigned char> bytes_of(const any::FormulaPrograms& programs) {
  std::vector<unsigned char> bytes(sizeof programs);
  std::memcpy(bytes.data(), &programs, sizeof programs);
  return bytes;
}

unsigned formula_revision(const Problem& problem) {
  const score::MaskNode* mask = problem.options.mask.node();
  const score::ScoreNode* change = problem.options.score.node();
  return (mask == nullptr ? 0 : mask->revision()) + (change == nullptr ? 0 : change->revision());
}

}  // namespace

bool ForwardPlan::has_formula_of(const Problem& problem) const {
  return formula_revision(problem) == formula_revision_;
}
void ForwardPlan::renew_formula(const Execution& execution, void* stream) {
  const CurrentDevice current(device_);
  if (family_launch_ == nullptr) return;
  make_family_launch(execution, stream);
  // prepare() has no stream: runs on any may follow.
  if (stream == nullptr) require_success(cudaStreamSynchronize(nullptr), "waiting for uploads");
}

void ForwardPlan::make_family_launch(const Execution& execution, void* stream) {
  const core::Geometry& g = execution.geometry;
  formula_revision_ = formula_revision(execution.problem);
  std::vector<unsigned char> formula;
  const int* first_keys = nullptr;
  bool rising = false;
  if (kernel_.compiled != nullptr) {
    const PlanTensors tensors(g, formula_buffers_, stream);
    formula = run_time_ != nullptr ? formula_image(*run_time_, tensors)
                                   : formula_image(*kernel_.compiled, execution.problem, tensors);
    if (g.lengths_on_device && g.key_layout == core::KeyLayout::paged)
      programs_ = mask_programs(execution.problem, tensors);
    if (!g.lengths_on_device) {
      const score::MaskNode* mask = execution.problem.options.mask.node();
      rising = rises(g, kernel_.candidate.tile, mask);
      const std::vector<int> first = first_visible_keys(g, mask);
      first_keys = static_cast<const int*>(tensors.copy_of(first));
    }
  }
  if (kernel_.reading == FormulaReading::interpreted) {
    programs_ = formula_programs(execution.problem, PlanTensors(g, formula_buffers_, stream));
    formula = bytes_of(*programs_);
  }
  family_launch_ =
      kernel_.family_launch(kernel_, {params_, g, execution.problem, status_.data(),
                                      card(Device::cuda(device_)).figures.multiprocessors,
                                      shared_bytes_, formula, first_keys, rising});
}

void ForwardPlan::upload_formula(const core::Geometry& geometry, const Problem& problem) {
  const bool compiled = kernel_.compiled != nullptr;
  if (!compiled) upload_descriptions(problem);  // make_family_launch() brings a compiled formula
  params_.exact_below = exact_weights(geometry, problem.options.reproducibility,
                                      !compiled && params_.mask.program.everything());
}

/// A formula as data: its range, its program and its steps, side tensors on the device. What a
/// kernel interprets is left to make_family_launch().
void ForwardPlan::upload_descriptions(const Problem& problem) {
  std::string reason;
  FormulaRest interpreted;
  MaskImage mask = *mask_image(problem.options.mask.node(), reason, &interpreted);
  for (int i = 0; i < mask.data.program.tables_used; ++i) {
    score::Lookup& table = mask.data.program.tables[i];
    const std::size_t rows = std::size_t(mask.table_sequences[std::size_t(i)]);
    const std::size_t blocks =
        std::size_t((table.positions + score::Lookup::block - 1) / score::Lookup::block);
    std::vector<int> values;
    for (std::size_t row = 0; row < rows; ++row) {
      const int* first = table.values + std::int64_t(row) * table.batch_stride;
      values.insert(values.end(), first, first + table.positions);
    }
    table.low = keep(std::vector<int>(table.low, table.low + rows * blocks));
    table.high = keep(std::vector<int>(table.high, table.high + rows * blocks));
    table.values = keep(values);
    if (table.batch_stride != 0) table.batch_stride = table.positions;
  }
  params_.mask = mask.data;
  steps_ = *score_steps(problem, reason, &interpreted);
  params_.step_count = int(steps_.size());
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    ScoreStep& step = params_.steps[i];
    if (steps_[i].tensor == nullptr || steps_[i].of_problem) {
      step = step_of(steps_[i]);
      continue;
    }
    const float* copy = keep(packed(*steps_[i].tensor));
    const TensorView contiguous(copy, DType::f32, steps_[i].tensor->shape());
    ScoreStepImage image = steps_[i];
    image.tensor = &contiguous;
    step = step_of(image);
    step.data = copy;
  }
}

void ForwardPlan::upload_index(const TensorView& tensor, IndexArray& array) {
  array = {};
  if (!tensor.present()) return;
  array = {nullptr, tensor.stride(0), bytes_of(tensor.dtype())};
  if (tensor.device() != Device::cpu()) return;
  std::vector<long long> entries;
  for (std::int64_t i = 0; i < tensor.dim(0); ++i) entries.push_back(core::index_at(tensor, i));
  array = {keep(entries), 1, 8};
}

void ForwardPlan::upload_lengths(const Execution& execution) {
  const core::Geometry& g = execution.geometry;
  const Problem& problem = execution.problem;
  const Tensors& t = problem.tensors;
  const bool paged = g.key_layout == core::KeyLayout::paged;
  if (!g.lengths_on_device) {
    if (paged) pages_ = gather_page_ids(g, t.pages);
    params_.page_ids = keep(pages_.ids);
    params_.sequences = keep(sequence_infos(g, pages_));
    std::vector<ForwardWork> work = work_list(g, execution.schedule);
    if (kernel_.order != nullptr) kernel_.order(work, g, params_);
    params_.work = keep(work);
    return;
  }
  upload_index(t.cu_seqlens_q, lengths_.query_borders);
  upload_index(t.query_lengths, lengths_.query_lengths);
  upload_index(t.cu_seqlens_k, lengths_.key_borders);
  upload_index(t.key_lengths, lengths_.key_lengths);
  upload_index(t.pages.indptr, lengths_.page_borders);
  upload_index(t.pages.last_page_size, lengths_.last_page);
  upload_index(t.query_starts, lengths_.query_starts);
  upload_index(t.key_starts, lengths_.key_starts);
  lengths_.keys = !paged
                      ? (g.key_layout == core::KeyLayout::dense ? KeyForm::dense : KeyForm::ragged)
                      : (t.pages.table.present() ? KeyForm::page_table : KeyForm::page_list);
  lengths_.query_rows =
      g.query_layout == core::QueryLayout::dense ? t.query.dim(1) : t.query.dim(0);
  lengths_.key_rows = g.key_layout == core::KeyLayout::dense ? t.key.dim(1) : t.key.dim(0);
  lengths_.query_capacity = g.max_query_length;
  lengths_.key_capacity = g.max_key_length;
  if (problem.options.positions) {
    const Positions& positions = *problem.options.positions;
    lengths_.query_start = int(positions.query.start);
    lengths_.key_start = int(positions.key.start);
    lengths_.offset = int(positions.offset);
    lengths_.given_offset = 1;
  }
  if (!paged) return;
  const bool table = t.pages.table.present();
  const TensorView& ids = table ? t.pages.table : t.pages.indices;
  const int axis = table ? 1 : 0;
  lengths_.page_entries = ids.dim(axis);
  params_.page_id_stride = ids.stride(axis);
  // page_begin counts entries, so a table's rows must be whole multiples of its entry stride apart.
  lengths_.table_row_stride = table ? ids.stride(0) : 0;
  if (table && params_.page_id_stride != 1) {
    if (params_.page_id_stride == 0) params_.page_id_stride = 1;
    if (lengths_.table_row_stride % params_.page_id_stride != 0)
      throw Error(ErrorCode::stride_unsupported,
                  "page table is " + ids.to_string() +
                      ": on a device its rows must lie a multiple of its entries' stride apart");
    lengths_.table_row_stride /= params_.page_id_stride;
  }
  if (ids.device() != Device::cpu()) return;
  std::vector<int> copy;
  const std::int64_t rows = table ? ids.dim(0) : 1;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < ids.dim(axis); ++i)
      copy.push_back(
          ids.as<std::int32_t>()[(table ? row * ids.stride(0) : 0) + i * ids.stride(axis)]);
  params_.page_ids = keep(copy);
  params_.page_id_stride = 1;
  lengths_.table_row_stride = table ? ids.dim(1) : 0;
}

void ForwardPlan::allocate_workspace(std::size_t bytes) {
  const CurrentDevice current(device_);
  workspace_ = DeviceBuffer(bytes);
  // Counters start at zero and every run leaves them there.
  if (kernel_.counters > 0)
    require_success(
        cudaMemset(workspace_.data(), 0, std::size_t(kernel_.counters) * sizeof(unsigned)),
        "cudaMemset");
}

std::uint32_t ForwardPlan::status() const {
  const CurrentDevice current(device_);
  std::uint32_t bits = 0;
  require_success(cudaMemcpy(&bits, status_.data(), sizeof bits, cudaMemcpyDeviceToHost),
                  "reading the status word");
  return bits;
}

void ForwardPlan::check_page_ids(const Execution& execution, const Tensors& tensors) const {
  const core::Geometry& g = execution.geometry;
  if (g.lengths_on_device || g.key_layout != core::KeyLayout::paged) return;
  for (int b = 0; b < g.batch; ++b) {
    const int keys = g.sequences[std::size_t(b)].key_length;
    if (keys == 0) continue;
    const core::PageList list(tensors.pages, b);
    const int* planned = pages_.ids.data() + pages_.first[std::size_t(b)];
    for (int page = 0; page < (keys + g.page_size - 1) / g.page_size; ++page)
      if (list[page] != planned[page])
        throw Error(ErrorCode::plan_mismatch,
                    "page table entry " + std::to_string(page) + " of sequence " +
                        std::to_string(b) + " is " + std::to_string(list[page]) +
                        ": the plan was prepared with " + std::to_string(planned[page]) +
                        "; tables that change belong on the device");
  }
}

ForwardLaunch ForwardPlan::bind(const Execution& execution, const Tensors& t,
                                void* workspace) const {
  const core::Geometry& g = execution.geometry;
  ForwardLaunch launch{params_, std::nullopt, nullptr};
  ForwardParams& p = launch.params;
  p.query.data = t.query.data();
  p.query.scale = scale_data(t.query_descale);
  p.key.data = t.key.data();
  p.key.scale = scale_data(t.key_descale);
  p.value.data = value_data(t, execution.problem.options);
  p.value.scale = scale_data(value_descale(execution.problem, t));
  p.out = t.out.data();
  p.lse = t.lse.present() ? t.lse.as<float>() : nullptr;
  p.sinks = t.sinks.present() ? t.sinks.as<float>() : nullptr;
  for (std::size_t i = 0; i < steps_.size(); ++i)
    if (steps_[i].of_problem)
      p.steps[i].data =
          steps_[i].kind == ScoreStepKind::alibi ? t.alibi_slopes.data() : t.bias.data();
  char* base = static_cast<char*>(workspace);
  launch.counters = reinterpret_cast<unsigned*>(base + layout_.counters);
  p.part_max = reinterpret_cast<float*>(base + layout_.part_max);
  p.part_sum = reinterpret_cast<float*>(base + layout_.part_sum);
  p.part_out = reinterpret_cast<float*>(base + layout_.part_out);
  if (!g.lengths_on_device) return launch;

  LengthSources& lengths = launch.lengths.emplace(lengths_);
  lengths.sequences = reinterpret_cast<SequenceInfo*>(base + layout_.sequences);
  p.sequences = lengths.sequences;
  const auto point = [](IndexArray& array, const TensorView& tensor) {
    if (tensor.present() && tensor.device() != Device::cpu()) array.data = tensor.data();
  };
  point(lengths.query_borders, t.cu_seqlens_q);
  point(lengths.query_lengths, t.query_lengths);
  point(lengths.key_borders, t.cu_seqlens_k);
  point(lengths.key_lengths, t.key_lengths);
  point(lengths.page_borders, t.pages.indptr);
  point(lengths.last_page, t.pages.last_page_size);
  point(lengths.query_starts, t.query_starts);
  point(lengths.key_starts, t.key_starts);
  const TensorView& ids = t.pages.table.present() ? t.pages.table : t.pages.indices;
  if (ids.present() && ids.device() != Device::cpu()) p.page_ids = ids.as<std::int32_t>();
  return launch;
}

void ForwardPlan::enqueue_lengths(const ForwardLaunch& launch, void* stream) const {
  if (!launch.lengths || launch.params.batch == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  require_success(cudaMemsetAsync(status_.data(), 0, status_.bytes(), on), "cudaMemsetAsync");
  const ForwardParams& p = launch.params;
  if (programs_)
    tilefold::cuda::launch({any_read_lengths_function(), p.batch, 128, 0, on},
                           "launching read_lengths_interpreted", p, *launch.lengths, *programs_);
  else
    tilefold::cuda::launch({read_lengths_function(), p.batch, 128, 0, on}, "launching read_lengths",
                           p, *launch.lengths);
}

void ForwardPlan::enqueue_forward(const ForwardLaunch& launch, void* stream) const {
  const auto on = static_cast<cudaStream_t>(stream);
  const ForwardParams& p = launch.params;
  if (clears_)
    tilefold::cuda::launch({clear_rows_function(), (output_rows_.total + 3) / 4, 128, 0, on},
                           "launching clear_rows", p, output_rows_);
  if (kernel_.counters > 0 && launch.counters != workspace_.as<unsigned>())
    require_success(
        cudaMemsetAsync(launch.counters, 0, std::size_t(kernel_.counters) * sizeof(unsigned), on),
        "cudaMemsetAsync");
  if (family_launch_ == nullptr)
    tilefold::cuda::launch({kernel_.function, p.shape.items, kernel_.threads, shared_bytes_, on},
                           kernel_.candidate.name, p);
  else
    family_launch_->enqueue(p, launch.counters, stream);
  if (p.shape.splits > 1)
    tilefold::cuda::launch({merge_function(), p.shape.items * p.shape.merge_blocks(), 128, 0, on},
                           "launching merge_parts", p);
}

}  // namespace tilefold::cuda
