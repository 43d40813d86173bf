/* tilefold's stable C ABI: the same problems, plans and refusals as the C++ headers beside it.
 *
 *   tilefold_problem problem;
 *   tilefold_problem_init(&problem);
 *   problem.tensors.query = q; ... problem.mask = tilefold_mask_causal();
 *   if (tilefold_attend(&problem) != TILEFOLD_OK) puts(tilefold_last_error());
 *
 * Every function that can fail returns a status; the message of this thread's last failure is
 * tilefold_last_error(). After a refusal nothing has been written. Structs start with their size,
 * set by the *_init functions: fields are only ever added at the end. docs/semantics.md says what
 * each field means; shapes are those of include/tilefold/problem.hpp. */
#ifndef TILEFOLD_TILEFOLD_H
#define TILEFOLD_TILEFOLD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status ------------------------------------------------------------------------------------
 */

typedef enum tilefold_status {
  TILEFOLD_OK = 0,
  TILEFOLD_INVALID_ARGUMENT = 1,
  TILEFOLD_SHAPE_MISMATCH = 2,
  TILEFOLD_HEAD_MISMATCH = 3,
  TILEFOLD_DTYPE_MISMATCH = 4,
  TILEFOLD_DEVICE_MISMATCH = 5,
  TILEFOLD_STRIDE_UNSUPPORTED = 6,
  TILEFOLD_MISALIGNED = 7,
  TILEFOLD_LENGTH_INVALID = 8,
  TILEFOLD_CAPACITY_EXCEEDED = 9,
  TILEFOLD_PAGE_OUT_OF_RANGE = 10,
  TILEFOLD_OVERLAP = 11,
  TILEFOLD_MISSING_ARGUMENT = 12,
  TILEFOLD_CONFLICTING_ARGUMENT = 13,
  TILEFOLD_UNSUPPORTED = 14,
  TILEFOLD_NOT_PREPARED = 15,
  TILEFOLD_PLAN_MISMATCH = 16,
  TILEFOLD_FILE_IO = 17,
  TILEFOLD_FILE_FORMAT = 18,
  TILEFOLD_OUT_OF_MEMORY = 19,
  TILEFOLD_DEVICE_FAILED = 20,
  TILEFOLD_INTERNAL = 21 /* an exception that is no refusal: a fault of the library */
} tilefold_status;

/* One sentence about this thread's last failure; "" before any. Valid until the next call. */
const char* tilefold_last_error(void);
const char* tilefold_version(void);

/* ---- tensors -----------------------------------------------------------------------------------
 */

typedef enum tilefold_dtype {
  TILEFOLD_F64,
  TILEFOLD_F32,
  TILEFOLD_F16,
  TILEFOLD_BF16,
  TILEFOLD_E4M3,
  TILEFOLD_E5M2,
  TILEFOLD_I64,
  TILEFOLD_I32,
  TILEFOLD_I8,
  TILEFOLD_U8,
  TILEFOLD_BOOL
} tilefold_dtype;

typedef enum tilefold_device { TILEFOLD_CPU = 0, TILEFOLD_CUDA = 1 } tilefold_device;

#define TILEFOLD_MAX_RANK 6

/* A view. rank -1 is an absent tensor (tilefold_problem_init sets all to that); data may be null in
 * a problem that is only planned. Strides count elements. */
typedef struct tilefold_tensor {
  void* data;
  int32_t dtype;  /* tilefold_dtype */
  int32_t device; /* tilefold_device */
  int32_t device_index;
  int32_t rank;
  int64_t shape[TILEFOLD_MAX_RANK];
  int64_t strides[TILEFOLD_MAX_RANK];
} tilefold_tensor;

/* A contiguous tensor on the CPU. */
tilefold_tensor tilefold_contiguous(void* data, tilefold_dtype dtype, int rank,
                                    const int64_t* shape);

typedef enum tilefold_granularity {
  TILEFOLD_PER_TENSOR,
  TILEFOLD_PER_HEAD,
  TILEFOLD_PER_TOKEN,
  TILEFOLD_PER_PAGE
} tilefold_granularity;

typedef struct tilefold_tensors {
  tilefold_tensor query, key, value, out, lse;
  tilefold_tensor cu_seqlens_q, cu_seqlens_k, query_lengths, key_lengths;
  tilefold_tensor page_table, page_indptr, page_indices, last_page_size;
  tilefold_tensor query_descale, key_descale, value_descale;
  int32_t query_descale_per, key_descale_per, value_descale_per; /* tilefold_granularity */
  tilefold_tensor sinks, alibi_slopes, bias, query_starts, key_starts;
} tilefold_tensors;

/* ---- formulas: reference counted by copies inside problems and plans; free your own handle
 * --------- */

typedef struct tilefold_mask tilefold_mask;
typedef struct tilefold_score tilefold_score;

typedef struct tilefold_place {
  int32_t batch, query_head, kv_head, query_length, key_length, offset;
} tilefold_place;

/* Null on failure, with tilefold_last_error(). Null means "keeps every key" where a mask is taken.
 */
tilefold_mask* tilefold_mask_causal(void);
tilefold_mask* tilefold_mask_window(int32_t left, int32_t right);
tilefold_mask* tilefold_mask_prefix(const tilefold_tensor* lengths);
tilefold_mask* tilefold_mask_documents(const tilefold_tensor* ids);
tilefold_mask* tilefold_mask_and(const tilefold_mask* a, const tilefold_mask* b);
tilefold_mask* tilefold_mask_or(const tilefold_mask* a, const tilefold_mask* b);
tilefold_mask* tilefold_mask_not(const tilefold_mask* a);
/* keep: non-zero where query q sees key k; called from many threads. classify may be null; it
 * answers for all q in [q_low, q_high] and k in [k_low, k_high]: 0 none, 1 some, 2 all. */
tilefold_mask* tilefold_mask_custom(int (*keep)(void* user, int32_t q, int32_t k,
                                                const tilefold_place* at),
                                    int (*classify)(void* user, int32_t q_low, int32_t q_high,
                                                    int32_t k_low, int32_t k_high,
                                                    const tilefold_place* at),
                                    void* user);
void tilefold_mask_free(tilefold_mask* mask);

tilefold_score* tilefold_score_softcap(double cap);
tilefold_score* tilefold_score_alibi(const tilefold_tensor* slopes);
tilefold_score* tilefold_score_bias(const tilefold_tensor* bias);
tilefold_score* tilefold_score_chain(const tilefold_score* first, const tilefold_score* second);
void tilefold_score_free(tilefold_score* score);

/* ---- problems ----------------------------------------------------------------------------------
 */

typedef enum tilefold_page_layout { TILEFOLD_NHD = 0, TILEFOLD_HND = 1 } tilefold_page_layout;
typedef enum tilefold_output { TILEFOLD_FINISHED = 0, TILEFOLD_PARTIAL = 1 } tilefold_output;
typedef enum tilefold_backend {
  TILEFOLD_BACKEND_AUTOMATIC = 0,
  TILEFOLD_BACKEND_CPU = 1,
  TILEFOLD_BACKEND_CUDA = 2
} tilefold_backend;

typedef struct tilefold_problem {
  size_t struct_size;
  tilefold_tensors tensors;
  double scale;   /* NaN: 1 / sqrt(head_dim) */
  double softcap; /* 0: none */
  const tilefold_mask* mask;
  const tilefold_score* score;
  int32_t has_positions;
  int64_t query_start, query_stride, key_start, key_stride, offset;
  int32_t page_layout;     /* tilefold_page_layout */
  int64_t value_dim;       /* > 0: value is absent and reads the first columns of key */
  int32_t output;          /* tilefold_output */
  int32_t batch_invariant; /* 0 or 1 */
  int64_t query_capacity, key_capacity, page_capacity; /* -1: not given */
  int32_t backend;                                     /* tilefold_backend */
  int32_t threads;                                     /* 0: all cores */
} tilefold_problem;

/* Sets the size, absent tensors and the default of every option. */
void tilefold_problem_init(tilefold_problem* problem);

/* ---- computing ---------------------------------------------------------------------------------
 */

typedef struct tilefold_plan tilefold_plan;

tilefold_status tilefold_attend(const tilefold_problem* problem);

tilefold_status tilefold_plan_create(const tilefold_problem* problem, tilefold_plan** plan);
void tilefold_plan_free(tilefold_plan* plan);
size_t tilefold_plan_workspace_bytes(const tilefold_plan* plan);
tilefold_status tilefold_plan_prepare(tilefold_plan* plan);
/* workspace may be null: the plan's own. stream is a cudaStream_t, null for the CPU backend. */
tilefold_status tilefold_plan_run(const tilefold_plan* plan, const tilefold_tensors* tensors,
                                  void* workspace, size_t workspace_bytes, void* stream);
/* Writes at most `capacity` bytes with the final NUL; returns the bytes that the whole text needs.
 */
size_t tilefold_plan_explain(const tilefold_plan* plan, char* text, size_t capacity);
uint32_t tilefold_plan_status(const tilefold_plan* plan);

/* outs[i] and lses[i] are the parts; lse and sinks may be null. */
tilefold_status tilefold_merge(size_t parts, const tilefold_tensor* outs,
                               const tilefold_tensor* lses, const tilefold_tensor* out,
                               const tilefold_tensor* lse, const tilefold_tensor* sinks);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
