// What the points of the set `choice` say of the cost model: how far its times are off, and what a
// choice by it costs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "bench/cuda/forward_figures.hpp"

namespace tilefold::bench {

namespace {

using Figures = std::vector<const ForwardFigure*>;

bool same_problem(const ForwardPoint& a, const ForwardPoint& b) {
  return a.lengths == b.lengths && a.queries == b.queries && a.query_heads == b.query_heads &&
         a.kv_heads == b.kv_heads && a.head_dim == b.head_dim && a.dtype == b.dtype;
}

/// Figures of the same problem stand together.
std::vector<Figures> by_problem(const std::vector<ForwardFigure>& figures) {
  std::vector<Figures> groups;
  for (const ForwardFigure& f : figures) {
    if (!of_choice(f.point) || !f.refusal.empty() || f.predicted_ms <= 0) continue;
    if (groups.empty() || !same_problem(groups.back().front()->point, f.point))
      groups.push_back({});
    groups.back().push_back(&f);
  }
  return groups;
}

/// Predicted over measured time of one family.
struct Deviation {
  int points = 0;
  double sum_of_logs = 0, least = 1e30, most = 0;

  void add(double ratio) {
    ++points;
    sum_of_logs += std::log(ratio);
    least = std::min(least, ratio);
    most = std::max(most, ratio);
  }
};

std::string wrong_choice(const ForwardFigure& chosen, const ForwardFigure& fastest) {
  const ForwardPoint& p = chosen.point;
  return fmt::format(
      "D {} heads {}/{} batch {} {}x{}: {} at {:.4f} ms ({:.4f} predicted), {} at {:.4f} "
      "({:.4f})\n",
      p.head_dim, p.query_heads, p.kv_heads, p.lengths.size(), p.queries, p.lengths[0], p.family,
      chosen.median_ms, chosen.predicted_ms, fastest.point.family, fastest.median_ms,
      fastest.predicted_ms);
}

}  // namespace

std::string choice_summary(const std::vector<ForwardFigure>& figures) {
  const std::vector<Figures> groups = by_problem(figures);
  if (groups.empty()) return "";
  std::map<std::string, Deviation> families;
  std::string wrong;
  double lost = 1;
  int right = 0;
  for (const Figures& group : groups) {
    for (const ForwardFigure* f : group)
      families[f->point.family].add(f->predicted_ms / f->median_ms);
    const auto& chosen = **std::min_element(group.begin(), group.end(), [](auto* a, auto* b) {
      return a->predicted_ms < b->predicted_ms;
    });
    const auto& fastest = **std::min_element(
        group.begin(), group.end(), [](auto* a, auto* b) { return a->median_ms < b->median_ms; });
    lost = std::max(lost, chosen.median_ms / fastest.median_ms);
    if (&chosen == &fastest)
      ++right;
    else
      wrong += wrong_choice(chosen, fastest);
  }
  std::string text;
  for (const auto& [family, d] : families)
    text += fmt::format("{}: predicted / measured {:.2f} in the mean, {:.2f} to {:.2f}, of {}\n",
                        family, std::exp(d.sum_of_logs / d.points), d.least, d.most, d.points);
  return text +
         fmt::format(
             "the model chooses the fastest of {} of {} problems, at worst {:.2f} of its "
             "time\n",
             right, groups.size(), lost) +
         wrong;
}

}  // namespace tilefold::bench
