#include "support/device_run.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cuda/backend.hpp"
#include "cuda/runtime/buffer.hpp"
#include "support/tensor_memory.hpp"
#include "tilefold/error.hpp"

namespace tilefold::testing {

namespace {

using cuda::DeviceBuffer;
using cuda::require_success;

constexpr std::int64_t guard_bytes = 512;
// Larger tensors are reservations of which little was ever touched.
constexpr std::int64_t sparse_bytes = std::int64_t{1} << 28, sparse_step = 1 << 21;

bool touched(const char* first, std::int64_t bytes) {
  const auto page = std::uintptr_t(sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(first) / page * page;
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(first) + std::uintptr_t(bytes);
  std::vector<unsigned char> resident((end - begin + page - 1) / page);
  if (mincore(reinterpret_cast<void*>(begin), end - begin, resident.data()) != 0) return true;
  return std::any_of(resident.begin(), resident.end(), [](unsigned char r) { return r & 1; });
}

/// One tensor's bytes on the device, at the host's alignment, between poisoned guards.
class Twin {
 public:
  explicit Twin(const TensorView& host) : host_(host) {
    const TensorView::ByteSpan span = host.byte_span();
    first_ = static_cast<const char*>(host.data()) + span.first;
    bytes_ = span.last - span.first;
    begin_ = guard_bytes + std::int64_t(reinterpret_cast<std::uintptr_t>(first_) % 256);
    buffer_ = DeviceBuffer(std::size_t(begin_ + bytes_ + guard_bytes));
    require_success(cudaMemset(buffer_.data(), poison, buffer_.bytes()), "cudaMemset");
    upload();
    data_ = buffer_.as<char>() + begin_ - span.first;
  }
  void* data() const { return data_; }

  void download() const {
    require_success(cudaMemcpy(const_cast<char*>(first_), buffer_.as<char>() + begin_,
                               std::size_t(bytes_), cudaMemcpyDeviceToHost),
                    "cudaMemcpy from the device");
  }
  /// Throws Error(overlap) where a guard lost its poison.
  void check_guards(const char* name) const {
    check_poison(name, 0, begin_);
    check_poison(name, begin_ + bytes_, std::int64_t(buffer_.bytes()));
  }

 private:
  void upload() {
    if (bytes_ <= sparse_bytes) {
      copy(0, bytes_);
      return;
    }
    for (std::int64_t at = 0; at < bytes_; at += sparse_step) {
      const std::int64_t step = std::min(sparse_step, bytes_ - at);
      if (touched(first_ + at, step)) copy(at, step);
    }
  }
  void copy(std::int64_t at, std::int64_t count) {
    require_success(cudaMemcpy(buffer_.as<char>() + begin_ + at, first_ + at, std::size_t(count),
                               cudaMemcpyHostToDevice),
                    "cudaMemcpy to the device");
  }
  void check_poison(const char* name, std::int64_t from, std::int64_t to) const {
    std::vector<unsigned char> bytes(std::size_t(to - from));
    require_success(
        cudaMemcpy(bytes.data(), buffer_.as<char>() + from, bytes.size(), cudaMemcpyDeviceToHost),
        "cudaMemcpy from the device");
    for (const unsigned char byte : bytes)
      if (byte != poison)
        throw Error(ErrorCode::overlap,
                    std::string(name) + ": the device wrote outside the tensor");
  }

  TensorView host_;
  const char* first_ = nullptr;
  std::int64_t bytes_ = 0, begin_ = 0;
  DeviceBuffer buffer_;
  char* data_ = nullptr;
};

class DeviceProblem {
 public:
  DeviceProblem(const Problem& host, LengthHome lengths) : problem(host) {
    if (lengths == LengthHome::device) state_capacities(problem);
    each_moved_tensor(problem, lengths, [&](auto& tensor) { move(tensor); });
  }

  void finish() {
    require_success(cudaDeviceSynchronize(), "the run");
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      outputs_[i]->check_guards(i == 0 ? "out" : "lse");
      outputs_[i]->download();
    }
  }

  Problem problem;

 private:
  static bool on_host(const TensorView& tensor) {
    return tensor.present() && tensor.device() == Device::cpu();
  }
  void move(TensorView& tensor) {
    if (!on_host(tensor)) return;
    twins_.push_back(std::make_unique<Twin>(tensor));
    tensor = TensorView(twins_.back()->data(), tensor.dtype(), tensor.shape(), tensor.strides(),
                        Device::cuda(0));
  }
  void move(OutputView& tensor) {
    if (!on_host(tensor)) return;
    twins_.push_back(std::make_unique<Twin>(tensor));
    outputs_.push_back(twins_.back().get());
    tensor = OutputView(twins_.back()->data(), tensor.dtype(), tensor.shape(), tensor.strides(),
                        Device::cuda(0));
  }

  std::vector<std::unique_ptr<Twin>> twins_;
  std::vector<Twin*> outputs_;
};

}  // namespace

void compute(const Problem& problem, LengthHome lengths) {
  if (problem.options.backend != Backend::cuda) {
    plan(problem).run(problem.tensors);
    return;
  }
  if (const cuda::Presence here = cuda::presence(); !here.absence.empty())
    throw Error(ErrorCode::unsupported, here.absence);
  plan_where_it_runs(problem, lengths);  // refusals come before any copy
  DeviceProblem device(problem, lengths);
  const Plan plan = tilefold::plan(device.problem);
  // Poison, so that a run that reads its workspace before it writes there is found out.
  const DeviceBuffer workspace(plan.workspace_bytes());
  RunOptions options;
  options.workspace = {workspace.data(), workspace.bytes()};
  if (workspace.bytes() != 0)
    require_success(cudaMemset(workspace.data(), poison, workspace.bytes()), "cudaMemset");
  plan.run(device.problem.tensors, options);
  device.finish();
}

}  // namespace tilefold::testing
