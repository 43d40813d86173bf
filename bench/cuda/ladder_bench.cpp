// Times the rungs and compares sampled rows with float64.
#include "bench/cuda/ladder_bench.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bench/cuda/device.hpp"
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

/// Attention of one query row in float64.
std::vector<double> exact_row(const Shape& shape, const double* query, int row,
                              const std::vector<double>& key, const std::vector<double>& value) {
  const std::size_t columns = std::size_t(shape.head_dim);
  const std::size_t seen = std::size_t(shape.keys_seen(row));
  std::vector<double> weights(seen), out(columns);
  double largest = -INFINITY, sum = 0;
  for (std::size_t k = 0; k < seen; ++k) {
    for (std::size_t d = 0; d < columns; ++d) weights[k] += query[d] * key[k * columns + d];
    weights[k] *= double(shape.scale);
    largest = std::max(largest, weights[k]);
  }
  for (double& weight : weights) sum += weight = std::exp(weight - largest);
  for (std::size_t k = 0; k < seen; ++k)
    for (std::size_t d = 0; d < columns; ++d) out[d] += weights[k] / sum * value[k * columns + d];
  return out;
}

/// Largest error over 24 rows of the first and of the last head, first and last row among them.
void compare_with_float64(const BufferSet& set, LadderRow& row) {
  constexpr int sampled = 24;
  const Shape& shape = row.shape;
  const Element element = row.rung.element;
  const std::size_t columns = std::size_t(shape.head_dim);
  for (const int head : {0, shape.heads_in_all() - 1}) {
    const auto query = head_on_host(set.query, shape, element, head, shape.query_length);
    const auto key = head_on_host(set.key, shape, element, head, shape.key_length);
    const auto value = head_on_host(set.value, shape, element, head, shape.key_length);
    const auto out = head_on_host(set.out, shape, element, head, shape.query_length);
    for (int i = 0; i < sampled; ++i) {
      const int at = int(std::int64_t(shape.query_length - 1) * i / (sampled - 1));
      const auto exact = exact_row(shape, query.data() + std::size_t(at) * columns, at, key, value);
      for (std::size_t d = 0; d < columns; ++d) {
        const double error = std::abs(out[std::size_t(at) * columns + d] - exact[d]);
        // A NaN must not slip past the comparison.
        row.max_error = error <= row.max_error ? row.max_error : error;
        row.max_reference = std::max(row.max_reference, std::abs(exact[d]));
      }
    }
  }
}

double flops_of(const Shape& shape) {
  const double all = double(shape.heads_in_all()) * shape.query_length * shape.key_length;
  const bool square = shape.query_length == shape.key_length;
  const double pairs = shape.visible == ladder::Visible::all_keys ? all
                       : square                                   ? all / 2
                                : double(ladder::visible_pairs(shape));
  return 4.0 * shape.head_dim * pairs;
}

void measure(LadderRow& row, const std::vector<BufferSet>& sets, int runs) {
  row.workspace_bytes = row.rung.workspace_bytes(row.shape);
  if (row.workspace_bytes > free_device_bytes())
    throw Error(ErrorCode::out_of_memory,
                "the workspace is " + std::to_string(row.workspace_bytes) +
                    " bytes: the device has " + std::to_string(free_device_bytes()));
  DeviceMemory workspace(row.workspace_bytes);
  workspace.poison();
  const auto launch = [&](int run) {
    const BufferSet& set = sets[std::size_t(run) % sets.size()];
    ladder::run(
        row.rung, row.shape,
        {set.query.data(), set.key.data(), set.value.data(), set.out.data(), workspace.data()},
        nullptr);
  };
  const std::vector<double> times = queued_milliseconds(runs, launch);
  row.milliseconds = median(times);
  row.fastest = *std::min_element(times.begin(), times.end());
  row.slowest = *std::max_element(times.begin(), times.end());
  compare_with_float64(sets[0], row);
}

std::vector<Shape> shapes_of(const LadderOptions& options) {
  std::vector<Shape> shapes;
  for (const int head_dim : options.head_dims)
    for (const ladder::Visible visible : options.masks)
      for (const int length : options.sequences)
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
  if (chosen.empty()) chosen.assign(ladder::rungs().begin(), ladder::rungs().end());
  return chosen;
}

/// Rungs of one element type share their buffers.
void measure_shape(const Shape& shape, const std::vector<Rung>& rungs, LadderReport& report) {
  std::vector<LadderRow> rows;
  for (const Rung& rung : rungs) {
    LadderRow& row = rows.emplace_back();
    row.rung = rung;
    row.shape = shape;
    row.flops = flops_of(shape);
    row.traffic = rung.traffic(shape);
  }
  for (const Element element : {Element::float32, Element::float16, Element::bfloat16}) {
    std::vector<BufferSet> sets;
    for (LadderRow& row : rows) {
      if (row.rung.element != element) continue;
      try {
        if (sets.empty()) sets = make_sets(shape, element);
        for (BufferSet& set : sets) set.out.poison();
        measure(row, sets, report.options.runs);
      } catch (const Error& error) {
        row.refused = error.what();
      }
    }
  }
  report.rows.insert(report.rows.end(), rows.begin(), rows.end());
}

}  // namespace

LadderReport measure_ladder(const LadderOptions& options, const LadderProgress& progress) {
  LadderReport report{describe_device().name, options, {}};
  const std::vector<Rung> rungs = chosen_rungs(options);
  const std::vector<Shape> shapes = shapes_of(options);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (progress)
      progress(double(i) / double(shapes.size()),
               "head_dim " + std::to_string(shapes[i].head_dim) + ", " +
                   std::to_string(shapes[i].query_length) + " tokens");
    measure_shape(shapes[i], rungs, report);
  }
  return report;
}

void launch_each_rung(const LadderOptions& options) {
  describe_device();
  const Shape shape = shapes_of(options).at(0);
  for (const Rung& rung : chosen_rungs(options)) {
    try {
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
