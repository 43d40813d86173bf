// Times the rungs on the device and takes their outputs back to be compared.
#include "bench/cuda/ladder_bench.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>

#include "bench/cuda/device.hpp"
#include "bench/cuda/ladder_check.hpp"
#include "bench/cuda/production_rung.hpp"
#include "bench/timing.hpp"
#include "tilefold/dtype.hpp"
#include "tilefold/error.hpp"

namespace tilefold::bench {

namespace {

namespace ladder = cuda::ladder;
using ladder::Element;
using ladder::Rung;
using ladder::Shape;

std::size_t tensor_bytes(const Shape& shape, int length, Element element) {
  return std::size_t(shape.heads_in_all()) * std::size_t(length) * std::size_t(shape.head_dim) *
         ladder::bytes_of(element);
}

/// Inputs and output of one run.
struct BufferSet {
  DeviceMemory query, key, value, out;

  BufferSet(const Shape& shape, Element element, std::uint64_t seed)
      : query(tensor_bytes(shape, shape.query_length, element)),
        key(tensor_bytes(shape, shape.key_length, element)),
        value(tensor_bytes(shape, shape.key_length, element)),
        out(tensor_bytes(shape, shape.query_length, element)) {
    for (const DeviceMemory* memory : {&query, &key, &value})
      fill_normal(memory->data(), element,
                  std::int64_t(memory->bytes() / ladder::bytes_of(element)), seed++ << 40);
    out.poison();
  }
  std::size_t bytes() const { return query.bytes() + key.bytes() + value.bytes() + out.bytes(); }
};

/// Buffers in rotation: at least two sets and 512 MB, so that no run finds its inputs in the L2.
std::vector<BufferSet> make_sets(const Shape& shape, Element element) {
  constexpr std::size_t rotation = std::size_t(512) << 20;
  std::vector<BufferSet> sets;
  std::size_t bytes = 0;
  do {
    sets.emplace_back(shape, element, 1 + 4 * sets.size());
    bytes += sets.back().bytes();
  } while (sets.size() < 2 || (bytes < rotation && sets.size() < 64));
  return sets;
}

double element_at(const std::vector<unsigned char>& bytes, Element element, std::size_t index) {
  if (element == Element::float32) {
    float x;
    std::memcpy(&x, bytes.data() + 4 * index, 4);
    return x;
  }
  std::uint16_t bits;
  std::memcpy(&bits, bytes.data() + 2 * index, 2);
  return element == Element::float16 ? to_float(float16{bits}) : to_float(bfloat16{bits});
}

/// One head of a tensor on the host, as float64.
std::vector<double> head_on_host(const DeviceMemory& tensor, const Shape& shape, Element element,
                                 int head_index, int length) {
  const std::size_t size = ladder::bytes_of(element), columns = std::size_t(shape.head_dim);
  std::vector<unsigned char> bytes(std::size_t(length) * columns * size);
  copy_rows_to_host(bytes.data(),
                    static_cast<const unsigned char*>(tensor.data()) +
                        std::size_t(shape.head_offset(head_index, length)) * size,
                    std::size_t(shape.row_stride()) * size, columns * size, std::size_t(length));
  std::vector<double> numbers(std::size_t(length) * columns);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = element_at(bytes, element, i);
  return numbers;
}

constexpr int rows_a_head = 24;

/// Inputs of one element type for one shape, and what they should give. Sets are kept while tensors
/// stay as large.
struct Inputs {
  std::vector<BufferSet> sets;
  std::vector<ExactRow> exact;

  void prepare(const Shape& shape, Element element) {
    if (sets.empty() || sets[0].query.bytes() != tensor_bytes(shape, shape.query_length, element) ||
        sets[0].key.bytes() != tensor_bytes(shape, shape.key_length, element)) {
      sets.clear();
      sets = make_sets(shape, element);
    }
    std::vector<HostHead> heads;
    for (const int head : {0, shape.heads_in_all() - 1}) {
      const auto rows_of = [&](const DeviceMemory& tensor, int length) {
        return head_on_host(tensor, shape, element, head, length);
      };
      heads.push_back({head, rows_of(sets[0].query, shape.query_length),
                       rows_of(sets[0].key, shape.key_length),
                       rows_of(sets[0].value, shape.key_length)});
    }
    exact = exact_rows(shape, heads, rows_a_head);
  }
};

/// Largest error over the sampled rows of the first and of the last head.
void compare_with_float64(const Inputs& inputs, LadderRow& row) {
  const Shape& shape = row.shape;
  const std::size_t columns = std::size_t(shape.head_dim);
  Difference difference;
  int copied = -1;
  std::vector<double> out;
  for (const ExactRow& exact : inputs.exact) {
    if (exact.head_index != copied)
      out = head_on_host(inputs.sets[0].out, shape, row.rung.element, exact.head_index,
                         shape.query_length);
    copied = exact.head_index;
    difference.take(exact, {out.data() + std::size_t(exact.row) * columns, columns});
  }
  row.max_error = difference.error;
  row.max_reference = difference.reference;
}

double flops_of(const Shape& shape) {
  const double all = double(shape.heads_in_all()) * shape.query_length * shape.key_length;
  const bool square = shape.query_length == shape.key_length;
  const double pairs = shape.visible == ladder::Visible::all_keys ? all
                       : square                                   ? all / 2
                                : double(ladder::visible_pairs(shape));
  return 4.0 * shape.head_dim * pairs;
}

std::string gigabytes(double bytes) {
  const auto tenths = std::int64_t(bytes / 1e8);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GB";
}

void measure(LadderRow& row, const Inputs& inputs, const LadderOptions& options) {
  if (double(row.workspace_bytes) > options.most_workspace_bytes)
    throw Error(ErrorCode::out_of_memory,
                "skipped: needs " + gigabytes(double(row.workspace_bytes)) +
                    " of workspace, the bound is " + gigabytes(options.most_workspace_bytes));
  if (row.workspace_bytes > free_device_bytes())
    throw Error(ErrorCode::out_of_memory,
                "skipped: needs " + gigabytes(double(row.workspace_bytes)) +
                    " of workspace, the device has " + gigabytes(double(free_device_bytes())));
  DeviceMemory workspace(row.workspace_bytes);
  workspace.poison();
  const auto launch = [&](int run) {
    const BufferSet& set = inputs.sets[std::size_t(run) % inputs.sets.size()];
    ladder::run(
        row.rung, row.shape,
        {set.query.data(), set.key.data(), set.value.data(), set.out.data(), workspace.data()},
        nullptr);
  };
  const auto once = [&] {
    return 1000 * seconds_of([&] {
             launch(0);
             wait_for_device();
           });
  };
  // The first launch also loads the kernel, some milliseconds.
  double first_ms = once();
  if (first_ms < 100) first_ms = once();
  compare_with_float64(inputs, row);
  row.runs = timed_runs(first_ms, options.runs);
  const std::vector<double> times =
      queued_milliseconds(first_ms < 10 ? WarmUp::three : WarmUp::none, row.runs, launch);
  row.milliseconds = median(times);
  row.fastest = *std::min_element(times.begin(), times.end());
  row.slowest = *std::max_element(times.begin(), times.end());
}

std::vector<Shape> shapes_of(const LadderOptions& options) {
  std::vector<Shape> shapes;
  for (const int length : options.sequences)
    for (const int head_dim : options.head_dims)
      for (const ladder::Visible visible : options.masks)
        shapes.push_back({.batch = std::max(1, options.tokens / std::max(1, length)),
                          .heads = std::max(1, options.hidden / std::max(1, head_dim)),
                          .query_length = length,
                          .key_length = length,
                          .head_dim = head_dim,
                          .visible = visible,
                          .scale = 1 / std::sqrt(float(head_dim))});
  return shapes;
}

std::vector<Rung> chosen_rungs(const LadderOptions& options) {
  add_production_rungs();
  std::vector<Rung> chosen;
  for (const std::string& name : options.rungs) chosen.push_back(ladder::rung_named(name));
  if (!chosen.empty()) return chosen;
  chosen.assign(ladder::rungs().begin(), ladder::rungs().end());
  if (options.choice == RungChoice::story)
    std::erase_if(chosen, [](const Rung& rung) { return rung.part != ladder::Part::story; });
  return chosen;
}

/// Walks the shapes and, for each, the rungs. Rungs of one element type share their buffers.
class Sweep {
 public:
  Sweep(const LadderOptions& options, const LadderProgress& progress, const LadderSink& sink)
      : options_(options), progress_(progress), sink_(sink), rungs_(chosen_rungs(options)) {}

  LadderReport run() {
    LadderReport report{ladder_device(), options_, {}};
    const std::vector<Shape> shapes = shapes_of(options_);
    of_ = shapes.size() * rungs_.size();
    for (const Shape& shape : shapes) {
      for (Inputs& inputs : inputs_) inputs.exact.clear();
      for (const Rung& rung : rungs_) {
        report.rows.push_back(measured(rung, shape));
        if (sink_) sink_(report.rows.back());
        ++done_;
      }
    }
    return report;
  }

 private:
  LadderRow measured(const Rung& rung, const Shape& shape) {
    LadderRow row;
    row.rung = rung;
    row.shape = shape;
    row.flops = flops_of(shape);
    row.traffic = rung.traffic(shape);
    row.workspace_bytes = rung.workspace_bytes(shape);
    if (progress_)
      progress_(double(done_) / double(of_), std::string(rung.name) + ", head_dim " +
                                                 std::to_string(shape.head_dim) + ", " +
                                                 std::to_string(shape.query_length) + " tokens");
    const std::chrono::duration<double> since = Clock::now() - start_;
    if (options_.time_limit_s > 0 && since.count() > options_.time_limit_s) {
      row.refused = "skipped: the time limit has passed";
      return row;
    }
    try {
      Inputs& inputs = inputs_[std::size_t(rung.element)];
      if (inputs.exact.empty()) inputs.prepare(shape, rung.element);
      for (BufferSet& set : inputs.sets) set.out.poison();
      measure(row, inputs, options_);
    } catch (const Error& error) {
      row.refused = error.what();
    }
    return row;
  }

  using Clock = std::chrono::steady_clock;
  const LadderOptions& options_;
  const LadderProgress& progress_;
  const LadderSink& sink_;
  std::vector<Rung> rungs_;
  std::array<Inputs, 3> inputs_;  // by Element
  Clock::time_point start_ = Clock::now();
  std::size_t done_ = 0, of_ = 0;
};

}  // namespace

LadderReport measure_ladder(const LadderOptions& options, const LadderProgress& progress,
                            const LadderSink& sink) {
  require_device("the ladder");
  return Sweep(options, progress, sink).run();
}

std::string ladder_device() {
  require_device("the ladder");
  return describe_device().name;
}

std::vector<std::string> rung_names(const LadderOptions& options) {
  std::vector<std::string> names;
  for (const Rung& rung : chosen_rungs(options)) names.emplace_back(rung.name);
  return names;
}

void launch_each_rung(const LadderOptions& options) {
  require_device("the ladder");
  const Shape shape = shapes_of(options).at(0);
  for (const Rung& rung : chosen_rungs(options)) {
    mark_rung();
    try {
      if (double(rung.workspace_bytes(shape)) > options.most_workspace_bytes) continue;
      const BufferSet set(shape, rung.element, 1);
      DeviceMemory workspace(rung.workspace_bytes(shape));
      ladder::run(
          rung, shape,
          {set.query.data(), set.key.data(), set.value.data(), set.out.data(), workspace.data()},
          nullptr);
      wait_for_device();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported && error.code() != ErrorCode::out_of_memory) throw;
    }
  }
}

}  // namespace tilefold::bench
