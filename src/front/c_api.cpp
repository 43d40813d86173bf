// The C ABI over the C++ front door: translation of structs, and of exceptions into statuses.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <vector>

#include "tilefold/attention.hpp"
#include "tilefold/tilefold.h"

struct tilefold_mask {
  tilefold::Mask mask;
};
struct tilefold_score {
  tilefold::ScoreChange change;
};
struct tilefold_plan {
  tilefold::Plan plan;
};

namespace {

using namespace tilefold;

static_assert(int(DType::boolean) == TILEFOLD_BOOL && int(DType::e4m3) == TILEFOLD_E4M3);
static_assert(int(Granularity::page) == TILEFOLD_PER_PAGE);
static_assert(int(ErrorCode::device_failed) + 1 == TILEFOLD_DEVICE_FAILED);

std::string& last_error() {
  thread_local std::string message;
  return message;
}

tilefold_status failed(tilefold_status status, const char* message) {
  last_error() = message;
  return status;
}

template <class Body> tilefold_status guarded(const Body& body) noexcept {
  try {
    body();
    return TILEFOLD_OK;
  } catch (const Error& e) {
    return failed(tilefold_status(int(e.code()) + 1), e.what());
  } catch (const std::bad_alloc&) {
    return failed(TILEFOLD_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return failed(TILEFOLD_INTERNAL, e.what());
  } catch (...) {
    return failed(TILEFOLD_INTERNAL, "an unknown exception");
  }
}

template <class Handle, class Make> Handle* guarded_handle(const Make& make) noexcept {
  Handle* handle = nullptr;
  guarded([&] { handle = new Handle{make()}; });
  return handle;
}

template <class View = TensorView> View view(const tilefold_tensor& t) {
  if (t.rank < 0) return View();
  if (t.dtype < 0 || t.dtype > TILEFOLD_BOOL)
    throw Error(ErrorCode::dtype_mismatch, "a tensor's dtype is " + std::to_string(t.dtype) +
                                               ": it is none of tilefold_dtype");
  if (t.device != TILEFOLD_CPU && t.device != TILEFOLD_CUDA)
    throw Error(ErrorCode::device_mismatch, "a tensor's device is " + std::to_string(t.device) +
                                                ": it is none of tilefold_device");
  return View(t.data, DType(t.dtype), Extents(t.shape, t.rank), Extents(t.strides, t.rank),
              {Device::Kind(t.device), t.device_index});
}

TensorView optional_view(const tilefold_tensor* t) {
  return t == nullptr ? TensorView() : view(*t);
}

template <class Enum> Enum checked(const char* name, std::int32_t value, Enum last) {
  if (value < 0 || value > std::int32_t(last))
    throw Error(ErrorCode::invalid_argument, std::string(name) + " is " + std::to_string(value) +
                                                 ": it must be 0 to " + std::to_string(int(last)));
  return Enum(value);
}

Tensors convert(const tilefold_tensors& t) {
  Tensors r;
  r.query = view(t.query);
  r.key = view(t.key);
  r.value = view(t.value);
  r.out = view<OutputView>(t.out);
  r.lse = view<OutputView>(t.lse);
  r.cu_seqlens_q = view(t.cu_seqlens_q);
  r.cu_seqlens_k = view(t.cu_seqlens_k);
  r.query_lengths = view(t.query_lengths);
  r.key_lengths = view(t.key_lengths);
  r.pages = {view(t.page_table), view(t.page_indptr), view(t.page_indices), view(t.last_page_size)};
  const auto descale = [](const char* name, const tilefold_tensor& scale, std::int32_t per) {
    return Descale{view(scale), checked(name, per, Granularity::page)};
  };
  r.query_descale = descale("query_descale_per", t.query_descale, t.query_descale_per);
  r.key_descale = descale("key_descale_per", t.key_descale, t.key_descale_per);
  r.value_descale = descale("value_descale_per", t.value_descale, t.value_descale_per);
  r.sinks = view(t.sinks);
  r.alibi_slopes = view(t.alibi_slopes);
  r.bias = view(t.bias);
  r.query_starts = view(t.query_starts);
  r.key_starts = view(t.key_starts);
  return r;
}

Problem convert(const tilefold_problem& p) {
  if (p.struct_size != sizeof(tilefold_problem))
    throw Error(ErrorCode::invalid_argument,
                "problem.struct_size is " + std::to_string(p.struct_size) + ": it must be " +
                    std::to_string(sizeof(tilefold_problem)) + "; call tilefold_problem_init()");
  Problem r;
  r.tensors = convert(p.tensors);
  Options& o = r.options;
  if (!std::isnan(p.scale)) o.scale = p.scale;
  if (p.softcap != 0) o.softcap = p.softcap;
  if (p.mask) o.mask = p.mask->mask;
  if (p.score) o.score = p.score->change;
  if (p.has_positions)
    o.positions = Positions{{p.query_start, p.query_stride}, {p.key_start, p.key_stride}, p.offset};
  o.page_layout = checked("page_layout", p.page_layout, PageLayout::hnd);
  if (p.value_dim != 0) {
    o.value_source = ValueSource::view_of_key;
    o.value_dim = p.value_dim;
  }
  o.output = checked("output", p.output, OutputKind::partial);
  o.reproducibility =
      checked("batch_invariant", p.batch_invariant, Reproducibility::batch_invariant);
  const auto capacity = [](std::int64_t value) {
    return value == -1 ? std::nullopt : std::optional<std::int64_t>(value);
  };
  o.capacity = {capacity(p.query_capacity), capacity(p.key_capacity), capacity(p.page_capacity)};
  o.backend = checked("backend", p.backend, Backend::cuda);
  o.threads = p.threads;
  return r;
}

tilefold_place c(const score::Place& at) {
  return {at.batch, at.query_head, at.kv_head, at.query_length, at.key_length, at.offset};
}

using KeepCallback = int (*)(void*, std::int32_t, std::int32_t, const tilefold_place*);
using ClassifyCallback = int (*)(void*, std::int32_t, std::int32_t, std::int32_t, std::int32_t,
                                 const tilefold_place*);

// A mask that C callbacks answer for.
class CallbackMask final : public score::MaskNode {
 public:
  CallbackMask(KeepCallback on_keep, ClassifyCallback on_classify, void* user)
      : keep_(on_keep), classify_(on_classify), user_(user) {}
  void keep(const score::TilePositions& tile, unsigned char* flags, int row) const override {
    const tilefold_place at = c(tile.place);
    for (int k = 0; k < tile.keys; ++k)
      for (int q = 0; q < tile.queries; ++q)
        flags[k * row + q] = keep_(user_, tile.query_first + q * tile.query_step,
                                   tile.key_first + k * tile.key_step, &at) != 0;
  }
  score::Truth classify(score::Interval queries, score::Interval keys,
                        const score::Place& place) const override {
    if (classify_ == nullptr) return score::Truth::some;
    const tilefold_place at = c(place);
    const int answer = classify_(user_, queries.low, queries.high, keys.low, keys.high, &at);
    return answer <= 0 ? score::Truth::none : answer == 1 ? score::Truth::some : score::Truth::all;
  }
  std::string text() const override { return "mask callback"; }

 private:
  KeepCallback keep_;
  ClassifyCallback classify_;
  void* user_;
};

Mask mask_of(const tilefold_mask* mask) { return mask ? mask->mask : Mask(); }
ScoreChange change_of(const tilefold_score* score) { return score ? score->change : ScoreChange(); }

const tilefold_tensor& required(const char* name, const tilefold_tensor* tensor) {
  if (tensor == nullptr)
    throw Error(ErrorCode::missing_argument, std::string(name) + " is a null pointer");
  return *tensor;
}

}  // namespace

extern "C" {

const char* tilefold_last_error(void) { return last_error().c_str(); }
const char* tilefold_version(void) { return version(); }

tilefold_tensor tilefold_contiguous(void* data, tilefold_dtype dtype, int rank,
                                    const int64_t* shape) {
  tilefold_tensor t{};
  t.data = data;
  t.dtype = dtype;
  t.rank = rank < 0 || rank > TILEFOLD_MAX_RANK ? -1 : rank;
  std::int64_t step = 1;
  for (int axis = t.rank - 1; axis >= 0; --axis) {
    t.shape[axis] = shape[axis];
    t.strides[axis] = step;
    step *= shape[axis] > 0 ? shape[axis] : 1;
  }
  return t;
}

tilefold_mask* tilefold_mask_causal(void) {
  return guarded_handle<tilefold_mask>([] { return causal(); });
}
tilefold_mask* tilefold_mask_window(int32_t left, int32_t right) {
  return guarded_handle<tilefold_mask>([&] { return window(left, right); });
}
tilefold_mask* tilefold_mask_prefix(const tilefold_tensor* lengths) {
  return guarded_handle<tilefold_mask>([&] { return prefix(view(required("lengths", lengths))); });
}
tilefold_mask* tilefold_mask_documents(const tilefold_tensor* ids) {
  return guarded_handle<tilefold_mask>([&] { return documents(view(required("ids", ids))); });
}
tilefold_mask* tilefold_mask_and(const tilefold_mask* a, const tilefold_mask* b) {
  return guarded_handle<tilefold_mask>([&] { return mask_of(a) && mask_of(b); });
}
tilefold_mask* tilefold_mask_or(const tilefold_mask* a, const tilefold_mask* b) {
  return guarded_handle<tilefold_mask>([&] { return mask_of(a) || mask_of(b); });
}
tilefold_mask* tilefold_mask_not(const tilefold_mask* a) {
  return guarded_handle<tilefold_mask>([&] { return !mask_of(a); });
}
tilefold_mask* tilefold_mask_custom(KeepCallback keep, ClassifyCallback classify, void* user) {
  return guarded_handle<tilefold_mask>([&] {
    if (keep == nullptr) throw Error(ErrorCode::missing_argument, "keep is a null pointer");
    return Mask(std::make_shared<CallbackMask>(keep, classify, user));
  });
}
void tilefold_mask_free(tilefold_mask* mask) { delete mask; }

tilefold_score* tilefold_score_softcap(double cap) {
  return guarded_handle<tilefold_score>([&] { return softcap(cap); });
}
tilefold_score* tilefold_score_alibi(const tilefold_tensor* slopes) {
  return guarded_handle<tilefold_score>([&] { return alibi(view(required("slopes", slopes))); });
}
tilefold_score* tilefold_score_bias(const tilefold_tensor* bias) {
  return guarded_handle<tilefold_score>(
      [&] { return additive_bias(view(required("bias", bias))); });
}
tilefold_score* tilefold_score_chain(const tilefold_score* first, const tilefold_score* second) {
  return guarded_handle<tilefold_score>([&] { return change_of(first).then(change_of(second)); });
}
void tilefold_score_free(tilefold_score* score) { delete score; }

void tilefold_problem_init(tilefold_problem* problem) {
  std::memset(problem, 0, sizeof *problem);
  problem->struct_size = sizeof *problem;
  tilefold_tensors& t = problem->tensors;
  for (tilefold_tensor* tensor :
       {&t.query,         &t.key,          &t.value,          &t.out,           &t.lse,
        &t.cu_seqlens_q,  &t.cu_seqlens_k, &t.query_lengths,  &t.key_lengths,   &t.page_table,
        &t.page_indptr,   &t.page_indices, &t.last_page_size, &t.query_descale, &t.key_descale,
        &t.value_descale, &t.sinks,        &t.alibi_slopes,   &t.bias,          &t.query_starts,
        &t.key_starts})
    tensor->rank = -1;
  problem->scale = std::nan("");
  problem->query_stride = problem->key_stride = 1;
  problem->query_capacity = problem->key_capacity = problem->page_capacity = -1;
}

tilefold_status tilefold_attend(const tilefold_problem* problem) {
  return guarded([&] {
    if (problem == nullptr) throw Error(ErrorCode::missing_argument, "problem is a null pointer");
    attend(convert(*problem));
  });
}

tilefold_status tilefold_plan_create(const tilefold_problem* problem, tilefold_plan** created) {
  return guarded([&] {
    if (problem == nullptr || created == nullptr)
      throw Error(ErrorCode::missing_argument, "problem or plan is a null pointer");
    *created = nullptr;
    *created = new tilefold_plan{plan(convert(*problem))};
  });
}
void tilefold_plan_free(tilefold_plan* plan) { delete plan; }
size_t tilefold_plan_workspace_bytes(const tilefold_plan* plan) {
  return plan->plan.workspace_bytes();
}
tilefold_status tilefold_plan_prepare(tilefold_plan* plan) {
  return guarded([&] { plan->plan.prepare(); });
}
tilefold_status tilefold_plan_run(const tilefold_plan* plan, const tilefold_tensors* tensors,
                                  void* workspace, size_t workspace_bytes, void* stream) {
  return guarded([&] {
    if (plan == nullptr || tensors == nullptr)
      throw Error(ErrorCode::missing_argument, "plan or tensors is a null pointer");
    RunOptions options;
    options.workspace = {workspace, workspace_bytes};
    options.stream = stream;
    plan->plan.run(convert(*tensors), options);
  });
}
size_t tilefold_plan_explain(const tilefold_plan* plan, char* text, size_t capacity) {
  std::string whole;
  if (guarded([&] { whole = plan->plan.explain(); }) != TILEFOLD_OK) whole = last_error();
  if (capacity > 0) {
    const std::size_t length = std::min(whole.size(), capacity - 1);
    std::memcpy(text, whole.data(), length);
    text[length] = '\0';
  }
  return whole.size() + 1;
}
uint32_t tilefold_plan_status(const tilefold_plan* plan) { return plan->plan.status(); }

tilefold_status tilefold_merge(size_t parts, const tilefold_tensor* outs,
                               const tilefold_tensor* lses, const tilefold_tensor* out,
                               const tilefold_tensor* lse, const tilefold_tensor* sinks) {
  return guarded([&] {
    if (parts > 0 && (outs == nullptr || lses == nullptr))
      throw Error(ErrorCode::missing_argument, "outs or lses is a null pointer");
    std::vector<PartialResult> list;
    for (std::size_t i = 0; i < parts; ++i) list.push_back({view(outs[i]), view(lses[i])});
    merge(list, view<OutputView>(required("out", out)),
          lse == nullptr ? OutputView() : view<OutputView>(*lse), optional_view(sinks));
  });
}

}  // extern "C"
