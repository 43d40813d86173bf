#include "support/device_description.hpp"

#include "core/geometry.hpp"

namespace tilefold::testing {

namespace {

bool on_host(const TensorView& tensor) {
  return tensor.present() && tensor.device() == Device::cpu();
}
void relabel(TensorView& t) {
  if (on_host(t)) t = TensorView(t.data(), t.dtype(), t.shape(), t.strides(), Device::cuda(0));
}
void relabel(OutputView& t) {
  if (on_host(t)) t = OutputView(t.data(), t.dtype(), t.shape(), t.strides(), Device::cuda(0));
}

}  // namespace

void state_capacities(Problem& problem) {
  const core::Geometry geometry = core::resolve(problem);
  problem.options.capacity.query_length = geometry.max_query_length;
  problem.options.capacity.key_length = geometry.max_key_length;
}

Problem described_on_device(const Problem& problem, LengthHome lengths) {
  Problem described = problem;
  if (lengths == LengthHome::device) state_capacities(described);
  each_moved_tensor(described, lengths, [](auto& tensor) { relabel(tensor); });
  return described;
}

Problem with_lengths_on_device(const Problem& problem) {
  Problem described = problem;
  state_capacities(described);
  each_length_tensor(described.tensors, [](auto& tensor) { relabel(tensor); });
  return described;
}

Plan plan_where_it_runs(const Problem& problem, LengthHome lengths) {
  if (problem.options.backend != Backend::cuda) return plan(problem);
  return plan(described_on_device(problem, lengths));
}

}  // namespace tilefold::testing
