// The ladder: one attention, many kernels, each with one idea more than the one before it.
//
//   using namespace tilefold::cuda;
//   const ladder::Shape shape{.batch = 4, .heads = 32, .query_length = 4096, .key_length = 4096};
//   for (const ladder::Rung& rung : ladder::rungs())
//     ladder::run(rung, shape, {q, k, v, out, workspace}, stream);
//
// One table, which the tests, `tilefold ladder` and docs/ladder.md read. No toolkit header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "cuda/kernels/ladder/shape.cuh"

struct CUstream_st;
using cudaStream_t = CUstream_st*;

namespace tilefold::cuda::ladder {

/// Device pointers, 16-byte aligned: dense [batch, length, heads, head_dim]; workspace of
/// rung.workspace_bytes(shape), of any content.
struct Memory {
  const void* query;
  const void* key;
  const void* value;
  void* out;
  void* workspace;
};

/// Bytes that a rung moves, derived from its loops and not measured.
struct Traffic {
  std::int64_t compulsory;  // beyond an ideal L2: each tensor once, plus what outgrows the chip
  std::int64_t requested;   // by all SMs together: what device memory would see without an L2
};

/// Whether a rung is part of the story, or stands aside to show what one thing does.
enum class Part { story, aside };

struct Rung {
  std::string_view name;               // "v2"
  std::string_view adds;               // what it has and the rung before it has not
  std::string_view source;             // its kernel, a path in the repository
  int code_lines;                      // of that file, neither blank nor comment alone
  Element element;                     // of queries, keys, values and output
  Element weights = Element::float32;  // what P is rounded to before its product with V
  Part part = Part::story;
  std::size_t (*workspace_bytes)(const Shape&);
  Traffic (*traffic)(const Shape&);
  void (*launch)(const Shape&, const Memory&, cudaStream_t);
};

/// All rungs, in the story's order.
std::span<const Rung> rungs();

/// The rung of this name; throws Error(invalid_argument) that lists the names.
const Rung& rung_named(std::string_view name);

/// Adds a kernel of another family to the table, in front of the rung named `before` or at the end:
/// the production kernels, once, before anyone calls rungs().
void add_rung(const Rung& rung, std::string_view before = {});

/// Launches. Throws Error for shapes no rung takes (head_dim other than 64 and 128, negative
/// lengths), null or misaligned pointers, and failed launches. Nothing is allocated or waited for.
void run(const Rung& rung, const Shape& shape, const Memory& memory, cudaStream_t stream);

/// (query, key) pairs that the mask lets through, over all sequences and heads.
std::int64_t visible_pairs(const Shape& shape);

constexpr std::size_t bytes_of(Element element) { return element == Element::float32 ? 4 : 2; }

/// "f32", "f16", "bf16"
constexpr const char* name(Element element) {
  switch (element) {
    case Element::float32: return "f32";
    case Element::float16: return "f16";
    default: return "bf16";
  }
}

}  // namespace tilefold::cuda::ladder
