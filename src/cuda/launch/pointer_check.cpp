// Whether a run's pointers are of the device that its tensors are said to be on. The driver is
// asked once for views of one buffer, as q, k and v often are.
#include <algorithm>
#include <array>

#include "cuda/backend.hpp"
#include "cuda/runtime/pointer.hpp"

namespace tilefold::cuda {

namespace {

class PointerCheck {
 public:
  PointerCheck(std::span<const core::PlannedTensor> planned, const core::TensorPointers& given)
      : planned_(planned), given_(given) {}

  void run() {
    for (std::size_t i = 0; i < planned_.size(); ++i)
      if (lies_on_device(i) && !is_known(i)) ask(i);
  }

 private:
  struct KnownMemory {
    AddressRange range;
    int device;
  };

  bool lies_on_device(std::size_t i) const {
    return !planned_[i].empty && planned_[i].view.device() != Device::cpu();
  }
  const void* data(std::size_t i) const { return given_[planned_[i].index]->data(); }
  std::uintptr_t address(std::size_t i) const { return reinterpret_cast<std::uintptr_t>(data(i)); }
  int device(std::size_t i) const { return planned_[i].view.device().index; }
  AddressRange bytes(std::size_t i) const {
    const TensorView::ByteSpan span = planned_[i].span;
    return {address(i) + std::uintptr_t(span.first), address(i) + std::uintptr_t(span.last)};
  }

  bool is_known(std::size_t i) const {
    for (std::size_t k = 0; k < known_count_; ++k)
      if (known_[k].device == device(i) && known_[k].range.holds(address(i))) return true;
    return false;
  }

  bool holds_a_later_pointer(std::size_t i) const {
    for (std::size_t later = i + 1; later < planned_.size(); ++later)
      if (bytes(i).holds(address(later))) return true;
    return false;
  }

  void ask(std::size_t i) {
    const bool shared = holds_a_later_pointer(i);
    const PointerPlace place =
        place_of(data(i), shared ? AskFor::place_and_allocation : AskFor::place);
    if (place.device != device(i)) return require_on_device(planned_[i].name, data(i), device(i));
    if (!shared) return;
    // The allocation alone will not do: a range of reserved addresses may map several devices.
    const AddressRange own = bytes(i), &all = place.allocation;
    known_[known_count_++] = {{std::max(own.first, all.first), std::min(own.last, all.last)},
                              device(i)};
  }

  std::span<const core::PlannedTensor> planned_;
  const core::TensorPointers& given_;
  std::array<KnownMemory, core::tensor_count> known_;
  std::size_t known_count_ = 0;
};

}  // namespace

void check_pointers(const core::PlannedTensors& planned, const core::TensorPointers& given) {
  PointerCheck(planned.present(), given).run();
}

}  // namespace tilefold::cuda
