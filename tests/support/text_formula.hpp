// Functors that are also text, as a node of the formula tree gives them: read on the host as they
// are, on a GPU by way of NVRTC.
//
//   TILEFOLD_AS_TEXT(Odd, struct Odd { template <class N> TILEFOLD_HD auto keep(...) const {...}
//   };) options.mask = text_mask(score::as_text::Odd{}, score::as_text::Odd_text);
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "score/code_source.hpp"

/// Defines a functor, and its text as NAME_text.
#define TILEFOLD_AS_TEXT(name, ...)                          \
  namespace tilefold::score::as_text {                       \
  __VA_ARGS__                                                \
  inline const FormulaText name##_text{#name, #__VA_ARGS__}; \
  }

namespace tilefold::score::as_text {
struct FormulaText {
  const char *type, *definitions;
};
}  // namespace tilefold::score::as_text

namespace tilefold::testing {

using score::as_text::FormulaText;

/// `Node`: a FunctorMask or a FunctorChange of the functor.
template <class Base, class Node, class Functor> class TextNode : public Base,
                                                                  public score::CodeSource {
 public:
  TextNode(Functor functor, const FormulaText& text)
      : functor_(functor), text_(text), inner_(functor, text.type) {}
  std::string text() const override { return text_.type; }
  score::FormulaCode code() const override {
    return {text_.definitions, text_.type, sizeof(Functor), alignof(Functor)};
  }
  void write_arguments(void* bytes, const score::DeviceCopies& copies) const override {
    Functor copy = functor_;
    score::visit_side_tensors(copy, copies);
    std::memcpy(bytes, &copy, sizeof copy);
  }

 protected:
  const Node& inner() const { return inner_; }

 private:
  Functor functor_;
  FormulaText text_;
  Node inner_;
};

template <class M> class TextMask final
    : public TextNode<score::MaskNode, score::FunctorMask<M, Reading::tiles>, M> {
 public:
  using TextNode<score::MaskNode, score::FunctorMask<M, Reading::tiles>, M>::TextNode;
  void keep(const score::TilePositions& tile, unsigned char* flags, int row) const override {
    this->inner().keep(tile, flags, row);
  }
  score::Truth classify(score::Interval queries, score::Interval keys,
                        const score::Place& place) const override {
    return this->inner().classify(queries, keys, place);
  }
};

template <class C> class TextChange final
    : public TextNode<score::ScoreNode, score::FunctorChange<C>, C> {
 public:
  using TextNode<score::ScoreNode, score::FunctorChange<C>, C>::TextNode;
  void change(const score::TilePositions& tile, float* scores, int row) const override {
    this->inner().change(tile, scores, row);
  }
  void change(const score::TilePositions& tile, double* scores, int row) const override {
    this->inner().change(tile, scores, row);
  }
  void differentiate(const score::TilePositions& tile, double* scores, double* slopes,
                     int row) const override {
    this->inner().differentiate(tile, scores, slopes, row);
  }
};

template <class M> Mask text_mask(M functor, const FormulaText& text) {
  return Mask(std::make_shared<TextMask<M>>(functor, text));
}
template <class C> ScoreChange text_change(C functor, const FormulaText& text) {
  return ScoreChange(std::make_shared<TextChange<C>>(functor, text));
}

}  // namespace tilefold::testing

// A query sees every `step`-th key back from its own, and none later.
TILEFOLD_AS_TEXT(
    Dilated, struct Dilated {
      int step;
      template <class N> TILEFOLD_HD auto keep(N q, N k, Place at) const {
        const auto behind = q + N(at.offset) - k;
        return N(0) <= behind && floor_mod(behind, step) == N(0);
      }
    };)

TILEFOLD_AS_TEXT(
    SameDocument, struct SameDocument {
      Lookup ids;
      template <class Visit> TILEFOLD_HOST void side_tensors(const Visit& visit) { visit(ids); }
      template <class N> TILEFOLD_HD auto keep(N q, N k, Place at) const {
        return ids.at(at.batch, q + N(at.offset)) == ids.at(at.batch, k);
      }
    };)

TILEFOLD_AS_TEXT(
    ByDistance, struct ByDistance {
      Table table;
      int reach;
      template <class Visit> TILEFOLD_HOST void side_tensors(const Visit& visit) { visit(table); }
      template <class S, class N> TILEFOLD_HD S change(S s, N q, N k, Place at) const {
        using F = typename Plain<S>::type;
        return s + S(F(table.at(at.query_head, k - (q + N(at.offset)) + N(reach))));
      }
    };)
