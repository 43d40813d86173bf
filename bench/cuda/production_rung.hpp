// The production kernels as rungs: the top of the ladder, reached through the public plan().
#pragma once

namespace tilefold::bench {

/// Adds sm80_f16 and sm80_bf16 to the ladder's table, and sm80_f16_plain_rows, which has no
/// swizzle, once. Each is a kernel of its family, whatever faster one plan() would choose.
void add_production_rungs();

}  // namespace tilefold::bench
