#include "device_copy.hpp"

#include <algorithm>
#include <vector>

#include "cuda/backend.hpp"
#include "cuda/runtime/buffer.hpp"
#include "support/device_description.hpp"
#include "tilefold/error.hpp"

namespace tilefold::cli {

namespace {

using cuda::DeviceBuffer;
using cuda::require_success;

Device current_device() {
  if (const cuda::Presence here = cuda::presence(); !here.absence.empty())
    throw Error(ErrorCode::unsupported, here.absence);
  int index = 0;
  require_success(cudaGetDevice(&index), "cudaGetDevice");
  return Device::cuda(index);
}

/// The bytes of one tensor there and here.
struct Twin {
  explicit Twin(const TensorView& host) {
    const TensorView::ByteSpan span = host.byte_span();
    bytes = std::size_t(span.last - span.first);
    first = static_cast<const char*>(host.data()) + span.first;
    buffer = DeviceBuffer(std::max(bytes, std::size_t{1}));
    data = buffer.as<char>() - span.first;
  }
  void upload() const {
    require_success(cudaMemcpy(buffer.data(), first, bytes, cudaMemcpyHostToDevice),
                    "cudaMemcpy to the device");
  }
  void download() const {
    require_success(
        cudaMemcpy(const_cast<char*>(first), buffer.data(), bytes, cudaMemcpyDeviceToHost),
        "cudaMemcpy from the device");
  }

  const char* first = nullptr;
  std::size_t bytes = 0;
  DeviceBuffer buffer;
  char* data = nullptr;
};

template <class View> View moved(const View& host, void* data, Device device) {
  return View(data, host.dtype(), host.shape(), host.strides(), device);
}

}  // namespace

struct DeviceCopy::Memory {
  Problem problem;
  std::vector<Twin> inputs, outputs;

  Memory(const Problem& host, Device device) : problem(host) {
    testing::each_moved_tensor(problem, testing::LengthHome::host,
                               [&](auto& tensor) { move(tensor, device); });
  }
  void move(TensorView& tensor, Device device) {
    if (!tensor.present()) return;
    inputs.emplace_back(tensor);
    inputs.back().upload();
    tensor = moved(tensor, inputs.back().data, device);
  }
  void move(OutputView& tensor, Device device) {
    if (!tensor.present()) return;
    outputs.emplace_back(tensor);
    // Rows that belong to no sequence of a ragged batch are written too, so nothing is uploaded.
    tensor = moved(tensor, outputs.back().data, device);
  }
};

Problem described_on_current_device(const Problem& host) {
  const Device device = current_device();
  Problem described = host;
  testing::each_moved_tensor(described, testing::LengthHome::host, [&](auto& tensor) {
    if (tensor.present())
      tensor = moved(tensor, const_cast<void*>(static_cast<const void*>(tensor.data())), device);
  });
  return described;
}

DeviceCopy::DeviceCopy(const Problem& host)
    : memory_(std::make_unique<Memory>(host, current_device())) {}
DeviceCopy::~DeviceCopy() = default;

const Problem& DeviceCopy::problem() const { return memory_->problem; }

void DeviceCopy::wait() const { require_success(cudaDeviceSynchronize(), "the run"); }

void DeviceCopy::download() const {
  wait();
  for (const Twin& output : memory_->outputs) output.download();
}

}  // namespace tilefold::cli
