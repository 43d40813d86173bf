// The production kernels as rungs: the top of the ladder, reached through the public plan().
#pragma once

namespace tilefold::bench {

/// Adds the rungs sm80_f16 and sm80_bf16 to the ladder's table, once. A library without those
/// kernels refuses them when they are launched, with its reason.
void add_production_rungs();

}  // namespace tilefold::bench
