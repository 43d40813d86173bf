// Formulas made of formulas, at compile time: A && B, A || B, !A for masks, chain(A, B) for
// changes.
//
//   constexpr auto mask = score::Causal{} && score::Window{4095, -1};
//
// The same operators on tilefold::Mask (formula.hpp) compose at run time.
#pragma once

#include "tilefold/score/changes.hpp"
#include "tilefold/score/masks.hpp"

namespace tilefold::score {

/// A type whose keep() answers for one element, read with int.
template <class M>
concept MaskFunctor = requires(const M m, int q, int k, Place at) {
  decided(m.keep(q, k, at));
};

/// A type whose change() maps one float32 score to another.
template <class C>
concept ChangeFunctor = requires(const C c, float s, int q, int k, Place at) {
  float(c.change(s, q, k, at));
};

/// Shows `visit` the side tensors that a functor reads, where it lists any: their pointers are
/// replaced by those of a device's copies.
template <class F, class Visit>
TILEFOLD_HOST void visit_side_tensors(F& functor, const Visit& visit) {
  if constexpr (requires { functor.side_tensors(visit); }) functor.side_tensors(visit);
}

template <class A, class B> struct And {
  A a;
  B b;
  template <class Visit> TILEFOLD_HOST void side_tensors(const Visit& visit) {
    visit_side_tensors(a, visit);
    visit_side_tensors(b, visit);
  }
  template <class N> TILEFOLD_HD auto keep(N q, N k, Place at) const {
    return a.keep(q, k, at) && b.keep(q, k, at);
  }
};
template <class A, class B> struct Or {
  A a;
  B b;
  template <class Visit> TILEFOLD_HOST void side_tensors(const Visit& visit) {
    visit_side_tensors(a, visit);
    visit_side_tensors(b, visit);
  }
  template <class N> TILEFOLD_HD auto keep(N q, N k, Place at) const {
    return a.keep(q, k, at) || b.keep(q, k, at);
  }
};
template <class A> struct Not {
  A a;
  template <class Visit> TILEFOLD_HOST void side_tensors(const Visit& visit) {
    visit_side_tensors(a, visit);
  }
  template <class N> TILEFOLD_HD auto keep(N q, N k, Place at) const { return !a.keep(q, k, at); }
};
/// First a, then b on what a gives.
template <class A, class B> struct Chain {
  A a;
  B b;
  template <class Visit> TILEFOLD_HOST void side_tensors(const Visit& visit) {
    visit_side_tensors(a, visit);
    visit_side_tensors(b, visit);
  }
  template <class S, class N> TILEFOLD_HD S change(S s, N q, N k, Place at) const {
    return b.change(a.change(s, q, k, at), q, k, at);
  }
};

template <MaskFunctor A, MaskFunctor B> TILEFOLD_HD constexpr And<A, B> operator&&(A a, B b) {
  return {a, b};
}
template <MaskFunctor A, MaskFunctor B> TILEFOLD_HD constexpr Or<A, B> operator||(A a, B b) {
  return {a, b};
}
template <MaskFunctor A> TILEFOLD_HD constexpr Not<A> operator!(A a) { return {a}; }
template <ChangeFunctor A, ChangeFunctor B> TILEFOLD_HD constexpr Chain<A, B> chain(A a, B b) {
  return {a, b};
}

}  // namespace tilefold::score
