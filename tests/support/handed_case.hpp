// The handed cases: small inputs distilled from faults of attention libraries, one JSON object a
// line.
//
//   for (const HandedCase& c : read_handed_cases("tests/cases/handed.jsonl")) ...
//
// Inputs are literal numbers or the output of a 64-bit linear congruential generator; "view" asks
// for a strided layout. Numbers are float64 here; whoever runs a case rounds them to a dtype.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tilefold::testing {

/// How a tensor is to lie in memory: element index i at offset + sum(i * strides) of a buffer of
/// `storage` elements that holds `fill` elsewhere.
struct CaseView {
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0, storage = 0;
  double fill = 0;
};

/// An array of numbers, row-major.
struct CaseArray {
  std::vector<std::int64_t> shape;
  std::vector<double> data;
  std::optional<CaseView> view;
  std::vector<std::int64_t> rows;  // of "out_rows" and the like: which rows the array holds
};

/// A pool of pages too large to write: `page_count` pages of zeros, a few of them filled.
struct CasePages {
  std::int64_t page_count = 0;
  std::vector<std::int64_t> page_shape;
  struct Placed {
    std::int64_t page, slots;
    CaseArray values;  // [slots, heads, columns]
  };
  std::vector<Placed> placed;
};

struct CaseDigest {
  double sum = 0, abs = 0, dot = 0;
};

/// One row of "out_at".
struct CasePoint {
  std::int64_t row = 0, head = 0;
  std::vector<double> data;
  double lse = 0;
};

struct HandedCase {
  std::string id, kind, why, op;
  std::map<std::string, double> numbers;                           // scalar parameters; true is 1
  std::map<std::string, std::vector<double>> lists;                // flat lists
  std::map<std::string, std::vector<std::vector<double>>> tables;  // lists of lists, each flattened
  std::map<std::string, std::string> texts;
  std::map<std::string, CaseArray> inputs;
  std::map<std::string, CasePages> pools;
  std::map<std::string, CaseArray> expected;
  std::map<std::string, CaseDigest> digests;
  std::vector<CasePoint> points;
  std::map<std::string, std::string> expected_texts;  // "error", "or_error", "property"
  std::map<std::string, double> tolerances;           // by dtype name: "fp64", "fp32", ...

  bool flag(const std::string& name) const {
    const auto found = numbers.find(name);
    return found != numbers.end() && found->second != 0;
  }
  bool has(const std::string& name) const {
    return numbers.count(name) || lists.count(name) || tables.count(name);
  }
};

/// Throws tilefold::Error(file_io, file_format) where the file is missing or no list of cases.
std::vector<HandedCase> read_handed_cases(const std::string& path);

/// The generator: element i is scale * (2 u - 1) of the state after i + 1 steps, rounded to a
/// multiple of 2^grid where a grid is given.
std::vector<double> generate(std::int64_t count, std::uint64_t seed, double scale,
                             std::optional<int> grid = {});

/// Sums over the finite elements; dot is with the generator's numbers of seed 12345.
CaseDigest digest_of(const std::vector<double>& values);

}  // namespace tilefold::testing
