// The power that a card draws, as NVML tells it. NVML comes with the driver and is opened at run
// time: nothing is linked, and a machine without it has no readings.
//
//   const PowerMeter meter("0000:1b:00.0");
//   if (const std::optional<double> watts = meter.watts()) ...
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace tilefold::bench {

class PowerMeter {
 public:
  /// The card at this PCI address, as cudaDeviceGetPCIBusId writes it. Never throws for NVML's
  /// sake: a library that is absent, or does not know the card, reads nothing.
  explicit PowerMeter(const std::string& pci_address,
                      const std::string& library = "libnvidia-ml.so.1");
  ~PowerMeter();
  PowerMeter(const PowerMeter&) = delete;
  PowerMeter& operator=(const PowerMeter&) = delete;

  /// Of the whole card, now; where the driver has no such field, its mean over the last second.
  std::optional<double> watts() const;

 private:
  struct Nvml;
  std::unique_ptr<Nvml> nvml_;
};

}  // namespace tilefold::bench
