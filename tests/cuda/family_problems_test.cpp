// Law: problems that are drawn for a family of kernels are ones that it computes. Without a device
// they are planned for the described one; with one, what its kernels are not built for is skipped.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "cuda/backend.hpp"
#include "support/only_kernels.hpp"
#include "support/verify.hpp"
#include "tilefold/error.hpp"

namespace tilefold::testing {
namespace {

constexpr int problems = 300;

GeneratorLimits limits_of(KernelFamily family) {
  GeneratorLimits limits;
  limits.work = 1e6;
  limits.family = family;
  return limits;
}

bool is_device_of(KernelFamily family) {
  const cuda::Presence here = cuda::presence();
  return family == KernelFamily::sm80 || here.devices.empty() ||
         here.devices[0].find("compute capability 9.0") != std::string::npos;
}

/// Why the problems are not planned on the family's kernels, whose names begin so -> how often.
std::map<std::string, int> refusals(KernelFamily family, const char* name) {
  const OnlyKernels only(name);
  std::map<std::string, int> reasons;
  for (std::uint64_t seed = 1; seed <= problems; ++seed) {
    RandomProblem drawn = make_random_problem(seed, limits_of(family));
    drawn.problem.options.backend = Backend::cuda;
    try {
      const Plan plan = plan_where_it_runs(drawn.problem, length_home(drawn));
      EXPECT_EQ(std::string(plan.kernel()).rfind(name, 0), 0u) << plan.kernel();
    } catch (const Error& error) {
      ++reasons[error.what()];
    }
  }
  return reasons;
}

void expect_few_refusals(KernelFamily family, const char* name) {
  if (!is_device_of(family)) GTEST_SKIP() << "the device has no " << name;
  int refused = 0;
  std::string reasons;
  for (const auto& [reason, count] : refusals(family, name)) {
    refused += count;
    reasons += std::to_string(count) + " times: " + reason + "\n";
  }
  EXPECT_LE(refused, problems / 20) << reasons;
}

TEST(FamilyProblems, Sm90PlansWhatIsDrawnForIt) { expect_few_refusals(KernelFamily::sm90, "sm90"); }
TEST(FamilyProblems, Sm80PlansWhatIsDrawnForIt) { expect_few_refusals(KernelFamily::sm80, "sm80"); }

// What the family computes is drawn, each option more than once in a hundred problems.
TEST(FamilyProblems, HoldTheOptionsOfTheirFamily) {
  for (const KernelFamily family : {KernelFamily::sm90, KernelFamily::sm80}) {
    std::map<std::string, int> times;
    std::set<std::int64_t> head_dims;
    for (std::uint64_t seed = 1; seed <= problems; ++seed) {
      const RandomProblem drawn = make_random_problem(seed, limits_of(family));
      const Tensors& t = drawn.problem.tensors;
      const Options& o = drawn.problem.options;
      head_dims.insert(t.query.dim(t.query.rank() - 1));
      times["f16"] += t.query.dtype() == DType::f16;
      times["bf16"] += t.query.dtype() == DType::bf16;
      times["dense keys"] += !t.pages.present() && t.key.rank() == 4;
      times["ragged keys"] += t.cu_seqlens_k.present();
      times["ragged queries, dense keys"] += t.query.rank() == 3 && !t.cu_seqlens_k.present();
      times["view of key"] += o.value_source == ValueSource::view_of_key;
      times["own value dimension"] +=
          t.value && t.value.dim(t.value.rank() - 1) != t.key.dim(t.key.rank() - 1);
      times["mask"] += o.mask.node() != nullptr;
      times["no mask"] += o.mask.node() == nullptr;
      times["score"] += o.score.node() != nullptr;
      times["softcap"] += o.softcap.has_value();
      times["ALiBi"] += t.alibi_slopes.present();
      times["bias"] += t.bias.present();
      times["sinks"] += t.sinks.present();
      times["lse"] += t.lse.present();
      times["scale"] += o.scale.has_value();
      times["positions"] += o.positions.has_value();
      times["partial"] += o.output == OutputKind::partial;
      times["batch-invariant"] += o.reproducibility == Reproducibility::batch_invariant;
      times["lengths on the device"] += length_home(drawn) == LengthHome::device;
      times["paged"] += t.pages.present() || family == KernelFamily::sm90;
    }
    for (const auto& [option, count] : times) EXPECT_GT(count, problems / 100) << option;
    EXPECT_GT(head_dims.size(), 20u);
  }
}

}  // namespace
}  // namespace tilefold::testing
