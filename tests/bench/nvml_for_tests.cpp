// NVML's functions that the power meter calls, for two cards: "0000:01:00.0" draws 512.5 W and
// tells it as a field, "0000:02:00.0" draws 300 W and has no field.
#include <cstring>

namespace {

constexpr int success = 0, not_supported = 3, not_found = 6, power_instant = 186;
int with_field, without_field;

struct FieldValue {
  unsigned field, scope;
  long long timestamp, latency;
  int type, result;
  unsigned long long value;
};

}  // namespace

extern "C" {

int nvmlInit_v2() { return success; }
int nvmlShutdown() { return success; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** card) {
  *card = nullptr;
  if (std::strcmp(address, "0000:01:00.0") == 0) *card = &with_field;
  if (std::strcmp(address, "0000:02:00.0") == 0) *card = &without_field;
  return *card != nullptr ? success : not_found;
}
int nvmlDeviceGetFieldValues(void* card, int count, FieldValue* values) {
  for (int i = 0; i < count; ++i) {
    const bool known = card == &with_field && values[i].field == power_instant;
    values[i].result = known ? success : not_supported;
    values[i].type = 1;  // unsigned int
    values[i].value = 512500;
  }
  return success;
}
int nvmlDeviceGetPowerUsage(void* card, unsigned* milliwatts) {
  *milliwatts = card == &with_field ? 100000 : 300000;
  return success;
}
}
