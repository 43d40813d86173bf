// Device copies of a build without CUDA: there are none.
#include "cuda/backend.hpp"
#include "device_copy.hpp"
#include "tilefold/error.hpp"

namespace tilefold::cli {

namespace {
[[noreturn]] void refuse() { throw Error(ErrorCode::unsupported, cuda::presence().absence); }
}  // namespace

struct DeviceCopy::Memory {};

Problem described_on_current_device(const Problem&) { refuse(); }
DeviceCopy::DeviceCopy(const Problem&) { refuse(); }
DeviceCopy::~DeviceCopy() = default;
const Problem& DeviceCopy::problem() const { refuse(); }
void DeviceCopy::wait() const { refuse(); }
void DeviceCopy::download() const { refuse(); }

}  // namespace tilefold::cli
