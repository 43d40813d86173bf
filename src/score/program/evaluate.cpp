#include "score/program/evaluate.hpp"

#include <algorithm>
#include <cstring>

#include "score/nodes.hpp"

namespace tilefold::score {

namespace {

constexpr int lanes = 64;
static_assert(max_tile_queries <= lanes && max_tile_keys <= lanes);

/// The values of one node for up to 64 elements: int, F or a byte that is 0 or 1.
template <class F> struct alignas(64) Row {
  unsigned char bytes[lanes * std::max(sizeof(F), sizeof(int))];
  template <class T> T* as() { return reinterpret_cast<T*>(bytes); }
  template <class T> const T* as() const { return reinterpret_cast<const T*>(bytes); }
};
using Flag = unsigned char;

/// Loops over elements. They are functions of their own so that compilers vectorise each.
template <class Operation, class T> void each(const T* a, T* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = Operation::of(a[i]);
}
template <class Operation, class T> void each(const T* a, const T* b, T* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = Operation::of(a[i], b[i]);
}
template <class Operation, class T> void compare(const T* a, const T* b, Flag* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = Operation::of(a[i], b[i]) ? 1 : 0;
}
template <class T> void choose(const Flag* c, const T* a, const T* b, T* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = c[i] != 0 ? a[i] : b[i];
}
inline void combine(op::Both, const Flag* a, const Flag* b, Flag* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = a[i] & b[i];
}
inline void combine(op::Either, const Flag* a, const Flag* b, Flag* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = a[i] | b[i];
}

template <class F> class Evaluation {
 public:
  Evaluation(const BoundProgram& bound, const TilePositions& tile)
      : bound_(bound), nodes_(bound.program().nodes), tile_(tile), rows_(arena(nodes_.size())) {
    widen_ = rows_ + nodes_.size();
    once(by_nothing, 1);
    once(by_query, tile.queries);
    once(by_key, tile.keys);
  }

  /// Computes what both change, for key `key` and all queries. Scores are of this key.
  void compute(int key, const F* scores) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].varies == by_both) {
        if (nodes_[i].op != Op::score)
          compute_node(i, tile_.queries);
        else if (scores != nullptr)
          std::copy(scores, scores + tile_.queries, rows_[i].template as<F>());
      } else if (nodes_[i].varies == by_key) {
        spread(rows_[i], key, widen_[i], nodes_[i].kind, tile_.queries);
      }
    }
  }
  template <class T> const T* result() const { return values_of<T>(nodes_.size() - 1); }
  /// Of a node, for the queries of the last key.
  template <class T> const T* values_of(std::size_t node) const {
    return (nodes_[node].varies == by_key ? widen_ : rows_)[node].template as<T>();
  }

 private:
  /// Rows for every node, and for the values of one key spread over the queries. A thread keeps its
  /// memory from tile to tile.
  static Row<F>* arena(std::size_t nodes) {
    thread_local std::vector<Row<F>> rows;
    if (rows.size() < 2 * nodes) rows.resize(2 * nodes);
    return rows.data();
  }
  void once(unsigned char varies, int count) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].varies != varies) continue;
      compute_node(i, count);
      // One value stands for all elements, of queries and of keys.
      if (varies == by_nothing) spread(rows_[i], 0, rows_[i], nodes_[i].kind, lanes);
    }
  }
  static void spread(const Row<F>& from, int at, Row<F>& to, Kind kind, int count) {
    switch (kind) {
      case Kind::integer: fill(from.template as<int>()[at], to.template as<int>(), count); break;
      case Kind::real: fill(from.template as<F>()[at], to.template as<F>(), count); break;
      case Kind::truth: fill(from.template as<Flag>()[at], to.template as<Flag>(), count); break;
    }
  }
  template <class T> static void fill(T value, T* to, int count) {
    std::fill(to, to + count, value);
  }

  template <class T> const T* operand(const ProgramNode& node, int i) const {
    const auto at = std::size_t(node.operand[i]);
    // A row of queries reads a key's value spread over them.
    const bool widened = node.varies == by_both && nodes_[at].varies == by_key;
    return (widened ? widen_ : rows_)[at].template as<T>();
  }
  void compute_node(std::size_t index, int count) {
    const ProgramNode& node = nodes_[index];
    if (is_operation(node.op))
      compute_operation(node, rows_[index], count);
    else if (node.op == Op::lookup)
      compute_entry(node, rows_[index], count);
    else
      compute_leaf(node, rows_[index], count);
  }
  void compute_leaf(const ProgramNode& node, Row<F>& to, int count);
  void compute_entry(const ProgramNode& node, Row<F>& to, int count);
  void compute_operation(const ProgramNode& node, Row<F>& to, int count);
  template <class Array, class T>
  void read_entries(const Array& array, const ProgramNode& node, T* to, int count) const;

  const BoundProgram& bound_;
  const std::vector<ProgramNode>& nodes_;
  const TilePositions& tile_;
  Row<F>* rows_;
  Row<F>* widen_;
};

template <class F>
void Evaluation<F>::compute_leaf(const ProgramNode& node, Row<F>& to, int count) {
  const ScoreProgram& program = bound_.program();
  const auto slot = std::size_t(node.integer);
  int* integers = to.template as<int>();
  F* reals = to.template as<F>();
  switch (node.op) {
    case Op::truth: *to.template as<Flag>() = Flag(node.integer); return;
    case Op::real: *reals = F(node.real); return;
    case Op::real_scalar: *reals = F(program.scalars[slot]->real); return;
    case Op::integer: *integers = node.integer; return;
    case Op::integer_scalar: *integers = program.scalars[slot]->integer; return;
    case Op::offset: *integers = tile_.place.offset; return;
    case Op::batch: *integers = tile_.place.batch; return;
    case Op::query_head: *integers = tile_.place.query_head; return;
    case Op::kv_head: *integers = tile_.place.kv_head; return;
    case Op::query_length: *integers = tile_.place.query_length; return;
    case Op::key_length: *integers = tile_.place.key_length; return;
    case Op::query:
      for (int i = 0; i < count; ++i) integers[i] = tile_.query_first + i * tile_.query_step;
      return;
    default:
      for (int i = 0; i < count; ++i) integers[i] = tile_.key_first + i * tile_.key_step;
  }
}

template <class F> template <class Array, class T>
void Evaluation<F>::read_entries(const Array& array, const ProgramNode& node, T* to,
                                 int count) const {
  const int* index[4] = {};
  for (int i = 0; i < node.operands; ++i) index[i] = operand<int>(node, i);
  const int *a = index[0], *b = index[1], *c = index[2], *d = index[3];
  switch (node.operands) {
    case 1:
      for (int i = 0; i < count; ++i) to[i] = T(array.at(a[i]));
      break;
    case 2:
      for (int i = 0; i < count; ++i) to[i] = T(array.at(a[i], b[i]));
      break;
    case 3:
      for (int i = 0; i < count; ++i) to[i] = T(array.at(a[i], b[i], c[i]));
      break;
    default:
      for (int i = 0; i < count; ++i) to[i] = T(array.at(a[i], b[i], c[i], d[i]));
  }
}
template <class F>
void Evaluation<F>::compute_entry(const ProgramNode& node, Row<F>& to, int count) {
  if (node.kind == Kind::real)
    read_entries(bound_.reals(node.integer), node, to.template as<F>(), count);
  else
    read_entries(bound_.integers(node.integer), node, to.template as<int>(), count);
}

template <class F>
void Evaluation<F>::compute_operation(const ProgramNode& node, Row<F>& to, int count) {
  const auto integers = [&](int i) { return operand<int>(node, i); };
  const auto reals = [&](int i) { return operand<F>(node, i); };
  const auto flags = [&](int i) { return operand<Flag>(node, i); };
  int* to_integers = to.template as<int>();
  F* to_reals = to.template as<F>();
  Flag* to_flags = to.template as<Flag>();
  const bool of_reals = nodes_[std::size_t(node.operand[0])].kind == Kind::real;
  with_operation<F>(node.op, [&](auto operation, auto constant) {
    using Operation = decltype(operation);
    constexpr Signature signature = decltype(constant)::signature;
    constexpr int operands = decltype(constant)::operands;
    if constexpr (signature == Signature::numbers && operands == 1) {
      of_reals ? each<Operation>(reals(0), to_reals, count)
               : each<Operation>(integers(0), to_integers, count);
    } else if constexpr (signature == Signature::numbers) {
      of_reals ? each<Operation>(reals(0), reals(1), to_reals, count)
               : each<Operation>(integers(0), integers(1), to_integers, count);
    } else if constexpr (signature == Signature::integers) {
      each<Operation>(integers(0), integers(1), to_integers, count);
    } else if constexpr (signature == Signature::reals && operands == 1) {
      each<Operation>(reals(0), to_reals, count);
    } else if constexpr (signature == Signature::reals) {
      each<Operation>(reals(0), reals(1), to_reals, count);
    } else if constexpr (signature == Signature::compare) {
      of_reals ? compare<Operation>(reals(0), reals(1), to_flags, count)
               : compare<Operation>(integers(0), integers(1), to_flags, count);
    } else if constexpr (signature == Signature::bit) {
      compare<Operation>(integers(0), integers(1), to_flags, count);
    } else if constexpr (signature == Signature::truths && operands == 1) {
      for (int i = 0; i < count; ++i) to_flags[i] = flags(0)[i] ^ 1;
    } else if constexpr (signature == Signature::truths) {
      combine(operation, flags(0), flags(1), to_flags, count);
    } else if constexpr (signature == Signature::choice) {
      if (node.kind == Kind::real) choose(flags(0), reals(1), reals(2), to_reals, count);
      if (node.kind == Kind::integer)
        choose(flags(0), integers(1), integers(2), to_integers, count);
      if (node.kind == Kind::truth) choose(flags(0), flags(1), flags(2), to_flags, count);
    } else if constexpr (signature == Signature::to_real) {
      for (int i = 0; i < count; ++i) to_reals[i] = operation.of(integers(0)[i]);
    } else {
      for (int i = 0; i < count; ++i) to_integers[i] = operation.of(reals(0)[i]);
    }
  });
}

template <class F> bool is_hidden(F score) { return score == -infinity<F>(); }

}  // namespace

void evaluate_mask(const BoundProgram& program, const TilePositions& tile, unsigned char* flags,
                   int row) {
  Evaluation<float> evaluation(program, tile);
  for (int c = 0; c < tile.keys; ++c) {
    evaluation.compute(c, nullptr);
    std::memcpy(flags + std::ptrdiff_t(c) * row, evaluation.result<Flag>(),
                std::size_t(tile.queries));
  }
}

std::vector<int> blunt_terms(const BoundProgram& program, const TilePositions& tile) {
  const std::vector<ProgramNode>& nodes = program.program().nodes;
  std::vector<Bound> bounds(nodes.size());
  program.bound(queries_of(tile), keys_of(tile), tile.place, bounds.data());
  std::vector<int> terms;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool joins =
        nodes[i].op == Op::both || nodes[i].op == Op::either || nodes[i].op == Op::negate;
    if (nodes[i].kind == Kind::truth && !joins && bounds[i].truth.maybe()) terms.push_back(int(i));
  }
  if (terms.empty()) return terms;
  Evaluation<float> evaluation(program, tile);
  std::vector<int> first(terms.size(), -1);
  std::vector<bool> alike(terms.size(), true);
  for (int c = 0; c < tile.keys; ++c) {
    evaluation.compute(c, nullptr);
    for (std::size_t t = 0; t < terms.size(); ++t) {
      const Flag* flags = evaluation.values_of<Flag>(std::size_t(terms[t]));
      if (first[t] < 0) first[t] = flags[0];
      alike[t] = alike[t] && flags[0] == first[t] && all_alike(flags, tile.queries, 1, lanes);
    }
  }
  std::vector<int> blunt;
  for (std::size_t t = 0; t < terms.size(); ++t)
    if (alike[t]) blunt.push_back(terms[t]);
  return blunt;
}

template <class F>
void evaluate_change(const BoundProgram& program, const TilePositions& tile, F* scores, int row) {
  Evaluation<F> evaluation(program, tile);
  for (int c = 0; c < tile.keys; ++c) {
    F* of_key = scores + std::ptrdiff_t(c) * row;
    evaluation.compute(c, of_key);
    const F* changed = evaluation.template result<F>();
    for (int r = 0; r < tile.queries; ++r)
      of_key[r] = is_hidden(of_key[r]) ? of_key[r] : changed[r];
  }
}
template void evaluate_change(const BoundProgram&, const TilePositions&, float*, int);
template void evaluate_change(const BoundProgram&, const TilePositions&, double*, int);

void evaluate_derivative(const BoundProgram& program, const TilePositions& tile, double* scores,
                         double* slopes, int row) {
  Evaluation<Dual<double>> evaluation(program, tile);
  Dual<double> given[lanes];
  for (int c = 0; c < tile.keys; ++c) {
    const std::ptrdiff_t at = std::ptrdiff_t(c) * row;
    for (int r = 0; r < tile.queries; ++r) given[r] = Dual<double>::variable(scores[at + r]);
    evaluation.compute(c, given);
    const Dual<double>* changed = evaluation.result<Dual<double>>();
    for (int r = 0; r < tile.queries; ++r) {
      const bool hidden = is_hidden(scores[at + r]);
      slopes[at + r] = hidden ? 0 : slopes[at + r] * changed[r].slope;
      if (!hidden) scores[at + r] = changed[r].value;
    }
  }
}

}  // namespace tilefold::score
