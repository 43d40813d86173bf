/* A C99 program outside the tree: the C ABI computes, explains and refuses.
 *
 * All keys are equal, so each query weighs its visible keys alike: query i of 4, causal, sees the
 * values 0 .. i, whose mean is i / 2. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <tilefold/tilefold.h>

enum { LENGTH = 4, DIM = 8 };

static float q[LENGTH * DIM], k[LENGTH * DIM], v[LENGTH * DIM], o[LENGTH * DIM];

static int failed(const char* what) {
  printf("%s: %s\n", what, tilefold_last_error());
  return 1;
}

static int rows_are_right(void) {
  for (int i = 0; i < LENGTH; ++i)
    if (fabsf(o[i * DIM] - (float)i / 2) > 1e-6f) {
      printf("row %d is %g, not %g\n", i, o[i * DIM], i / 2.0);
      return 0;
    }
  return 1;
}

int main(void) {
  const int64_t shape[4] = {1, LENGTH, 1, DIM};
  const int64_t wrong_heads[4] = {1, LENGTH, 3, DIM};
  char text[4096];
  tilefold_problem problem;
  tilefold_plan* plan = NULL;
  tilefold_mask* causal = tilefold_mask_causal();

  for (int i = 0; i < LENGTH * DIM; ++i) {
    q[i] = 0.5f;
    k[i] = 1.0f;
    v[i] = (float)(i / DIM);
  }
  tilefold_problem_init(&problem);
  problem.tensors.query = tilefold_contiguous(q, TILEFOLD_F32, 4, shape);
  problem.tensors.key = tilefold_contiguous(k, TILEFOLD_F32, 4, shape);
  problem.tensors.value = tilefold_contiguous(v, TILEFOLD_F32, 4, shape);
  problem.tensors.out = tilefold_contiguous(o, TILEFOLD_F32, 4, shape);
  problem.mask = causal;

  if (tilefold_attend(&problem) != TILEFOLD_OK) return failed("tilefold_attend");
  if (!rows_are_right()) return 1;

  memset(o, 0, sizeof o);
  if (tilefold_plan_create(&problem, &plan) != TILEFOLD_OK) return failed("tilefold_plan_create");
  if (tilefold_plan_prepare(plan) != TILEFOLD_OK) return failed("tilefold_plan_prepare");
  if (tilefold_plan_run(plan, &problem.tensors, NULL, 0, NULL) != TILEFOLD_OK)
    return failed("tilefold_plan_run");
  if (!rows_are_right()) return 1;
  if (tilefold_plan_explain(plan, text, sizeof text) < 2 || strlen(text) == 0)
    return failed("tilefold_plan_explain");
  tilefold_plan_free(plan);

  problem.tensors.key = tilefold_contiguous(k, TILEFOLD_F32, 4, wrong_heads);
  if (tilefold_attend(&problem) == TILEFOLD_OK || strlen(tilefold_last_error()) == 0) {
    printf("3 key heads for 1 query head were not refused\n");
    return 1;
  }
  printf("tilefold %s: rows right, misuse refused: %s\n", tilefold_version(),
         tilefold_last_error());
  tilefold_mask_free(causal);
  return 0;
}
