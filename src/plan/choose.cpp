#include "plan/choose.hpp"

#include <algorithm>
#include <cstring>

#include "tilefold/error.hpp"

namespace tilefold::planner {

namespace {

// What the dot products of a problem may be computed in without changing an input's value: the
// types whose numbers are all numbers of the compute type.
bool exact_in(DType compute, const core::Geometry& g, const Tensors& t) {
  if (compute == DType::f64) return g.computes_in_double();
  if (g.computes_in_double()) return false;
  if (compute == DType::f32) return true;
  // 16 bits: its own numbers, and fp8 codes whose descale factor is 1 (8 bits fit, a product may
  // not).
  const bool descaled = t.key_descale.scale.present() || t.value_descale.scale.present();
  const auto fits = [&](DType type) { return type == compute || is_fp8(type); };
  return g.query_dtype == compute && fits(g.key_dtype) && fits(g.value_dtype) && !descaled;
}

std::string asks_for(Backend wanted) {
  return std::string("options.backend asks for ") + (wanted == Backend::cpu ? "cpu" : "cuda");
}

}  // namespace

std::optional<std::string> refusal(const Candidate& candidate, const core::Geometry& geometry,
                                   const Problem& problem) {
  const Backend wanted = problem.options.backend;
  if (wanted != Backend::automatic && wanted != candidate.backend) return asks_for(wanted);
  const bool on_host = problem.tensors.query.device() == Device::cpu();
  if (on_host != (candidate.backend == Backend::cpu))
    return "the tensors are on " + to_string(problem.tensors.query.device());
  if (candidate.backend == Backend::cpu && geometry.lengths_on_device)
    return "lengths or tables are on a device: the CPU backend reads them on the host";
  // Their sums run over pairs and chunks of keys that are counted from the first key a block loads.
  if (candidate.compute == DType::bf16 && candidate.backend == Backend::cpu &&
      problem.options.reproducibility == Reproducibility::batch_invariant)
    return "its order of summation depends on the block: not batch-invariant";
  if (!exact_in(candidate.compute, geometry, problem.tensors)) {
    std::string inputs = name(geometry.query_dtype);
    if (geometry.key_dtype != geometry.query_dtype)
      inputs += std::string(" over ") + name(geometry.key_dtype);
    if (problem.tensors.key_descale.scale.present() ||
        problem.tensors.value_descale.scale.present())
      inputs += ", descaled";
    return "it multiplies in " + std::string(name(candidate.compute)) + ": the inputs are " +
           inputs;
  }
  return candidate.limits ? candidate.limits(candidate, geometry, problem) : std::nullopt;
}

std::vector<GroupedRefusal> grouped(std::span<const KernelRefusal> refusals) {
  struct Group {
    const KernelRefusal* first;
    int count;
  };
  std::vector<Group> groups;
  for (const KernelRefusal& r : refusals) {
    const auto same = [&](const Group& g) {
      return std::strcmp(g.first->kernel->family, r.kernel->family) == 0 &&
             g.first->reason == r.reason;
    };
    const auto found = std::find_if(groups.begin(), groups.end(), same);
    if (found != groups.end())
      ++found->count;
    else
      groups.push_back({&r, 1});
  }
  std::vector<GroupedRefusal> all;
  for (const Group& g : groups) {
    const Candidate& kernel = *g.first->kernel;
    all.push_back({g.count == 1 ? std::string(kernel.name)
                                : kernel.family + (" (" + std::to_string(g.count)) + " kernels)",
                   g.first->reason});
  }
  return all;
}

bool order_decides(const Problem& problem) {
  return problem.options.reproducibility == Reproducibility::batch_invariant;
}

std::vector<Contender> contenders(std::span<const Candidate> candidates,
                                  const core::Geometry& geometry, const Problem& problem) {
  std::vector<Contender> found;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    const auto same_family = [&](const Contender& c) {
      return std::strcmp(candidates[std::size_t(c.kernel)].family, candidate.family) == 0;
    };
    if (std::any_of(found.begin(), found.end(), same_family)) continue;
    if (refusal(candidate, geometry, problem)) continue;
    found.push_back({int(i), std::nullopt});
    if (candidate.predict != nullptr)
      found.back().prediction = candidate.predict(candidate, geometry, problem);
  }
  return found;
}

const Contender& fastest(std::span<const Contender> contenders) {
  const Contender* best = &contenders.front();
  for (const Contender& c : contenders)
    if (best->prediction && c.prediction && c.prediction->seconds() < best->prediction->seconds())
      best = &c;
  return *best;
}

namespace {

/// -1 where none can.
int first_that_can(std::span<const Candidate> candidates, const core::Geometry& geometry,
                   const Problem& problem) {
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (!refusal(candidates[i], geometry, problem)) return int(i);
  return -1;
}

[[noreturn]] void refuse(std::span<const Candidate> candidates, const core::Geometry& geometry,
                         const Problem& problem) {
  // What the caller ruled out is no news, unless there is nothing else.
  std::vector<KernelRefusal> asked, others;
  for (const Candidate& candidate : candidates) {
    const bool wanted = problem.options.backend == Backend::automatic ||
                        problem.options.backend == candidate.backend;
    (wanted ? asked : others).push_back({&candidate, *refusal(candidate, geometry, problem)});
  }
  std::string reasons;
  for (const GroupedRefusal& group : grouped(asked.empty() ? others : asked))
    reasons += (reasons.empty() ? "" : "; ") + group.who + ": " + group.reason;
  const bool chosen = problem.options.backend != Backend::automatic && !asked.empty();
  throw Error(ErrorCode::unsupported,
              (chosen ? asks_for(problem.options.backend) + ": " : std::string()) +
                  "no kernel computes this problem: " + reasons);
}

}  // namespace

int choose(std::span<const Candidate> candidates, const core::Geometry& geometry,
           const Problem& problem) {
  const int first = first_that_can(candidates, geometry, problem);
  if (first < 0) refuse(candidates, geometry, problem);
  if (order_decides(problem) || candidates[std::size_t(first)].predict == nullptr) return first;
  const auto rest = candidates.subspan(std::size_t(first));
  return first + fastest(contenders(rest, geometry, problem)).kernel;
}

}  // namespace tilefold::planner
