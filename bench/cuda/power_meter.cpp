#include "bench/cuda/power_meter.hpp"

#include <dlfcn.h>

namespace tilefold::bench {

namespace {

// What is needed of nvml.h, which not every toolkit brings; names and values are NVML's own.
using Handle = struct nvmlDevice_st*;
constexpr int nvml_success = 0;                     // nvmlReturn_t
constexpr int nvml_value_double = 0;                // nvmlValueType_t; all others are whole numbers
constexpr unsigned nvml_field_power_instant = 186;  // milliwatts; drivers from 530 on
union Value {
  unsigned milliwatts;
  unsigned long long widest;
};
struct FieldValue {
  unsigned field, scope;  // scope 0: the GPU with its memory
  long long timestamp, latency_microseconds;
  int type, result;
  Value value;
};
static_assert(sizeof(FieldValue) == 40);

}  // namespace

struct PowerMeter::Nvml {
  void* library = nullptr;
  int (*shutdown)() = nullptr;
  int (*field_values)(Handle, int, FieldValue*) = nullptr;
  int (*power_usage)(Handle, unsigned*) = nullptr;
  Handle card = nullptr;

  ~Nvml() {
    if (shutdown != nullptr) shutdown();
    if (library != nullptr) dlclose(library);
  }

  template <class Function> bool find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
  }

  bool open(const std::string& name, const std::string& pci_address) {
    int (*init)() = nullptr;
    int (*card_at)(const char*, Handle*) = nullptr;
    int (*at_end)() = nullptr;
    library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr || !find("nvmlInit_v2", init) || !find("nvmlShutdown", at_end) ||
        !find("nvmlDeviceGetHandleByPciBusId_v2", card_at) ||
        !find("nvmlDeviceGetPowerUsage", power_usage))
      return false;
    find("nvmlDeviceGetFieldValues", field_values);  // absent from old drivers
    if (init() != nvml_success) return false;
    shutdown = at_end;
    return card_at(pci_address.c_str(), &card) == nvml_success;
  }
};

PowerMeter::PowerMeter(const std::string& pci_address, const std::string& library)
    : nvml_(std::make_unique<Nvml>()) {
  if (!nvml_->open(library, pci_address)) nvml_.reset();
}
PowerMeter::~PowerMeter() = default;

std::optional<double> PowerMeter::watts() const {
  if (nvml_ == nullptr) return std::nullopt;
  FieldValue now{};
  now.field = nvml_field_power_instant;
  if (nvml_->field_values != nullptr && nvml_->field_values(nvml_->card, 1, &now) == nvml_success &&
      now.result == nvml_success && now.type != nvml_value_double)
    return now.value.milliwatts / 1e3;
  unsigned milliwatts = 0;
  if (nvml_->power_usage(nvml_->card, &milliwatts) != nvml_success) return std::nullopt;
  return milliwatts / 1e3;
}

}  // namespace tilefold::bench
