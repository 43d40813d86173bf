// The table of rungs, and the checks that come before any launch.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cuda/launch/ladder.hpp"
#include "cuda/launch/ladder/entries.hpp"
#include "ladder_code_lines.hpp"
#include "tilefold/error.hpp"

namespace tilefold::cuda::ladder {

namespace {

std::vector<Rung>& table() {
  static std::vector<Rung> rungs = [] {
    std::vector<Rung> built = {naive_rung(),
                               v1_rung(),
                               tile_rung(),
                               v2_rung(),
                               half_f16_rung(),
                               half_bf16_rung(),
                               half_f16_accumulate_rung(),
                               sm90_minimal_f16_rung(),
                               sm90_minimal_bf16_rung()};
    for (Rung& rung : built) rung.code_lines = code_lines(rung.source);
    return built;
  }();
  return rungs;
}

void require(bool holds, const std::string& name, const std::string& value, const char* must) {
  if (!holds)
    throw Error(ErrorCode::invalid_argument, name + " is " + value + ": it must be " + must);
}

// Lengths stay far below what int products of length and head_dim / 4 can hold.
void check_length(const char* name, int length) {
  require(length >= 0 && length <= 1 << 24, name, std::to_string(length), "0 to 16777216");
}

void check_pointer(const char* name, const void* pointer, bool needed) {
  require(!needed || pointer != nullptr, name, "null", "device memory");
  require(reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0, name, "misaligned",
          "a multiple of 16 bytes");
}

void check(const Rung& rung, const Shape& shape, const Memory& memory) {
  require(shape.batch >= 0, "batch", std::to_string(shape.batch), "0 or more");
  require(shape.heads > 0, "heads", std::to_string(shape.heads), "1 or more");
  require(std::int64_t(shape.batch) * shape.heads <= 0x7fffffff, "batch * heads",
          std::to_string(std::int64_t(shape.batch) * shape.heads), "below 2147483648");
  check_length("query_length", shape.query_length);
  check_length("key_length", shape.key_length);
  require(shape.head_dim == 64 || shape.head_dim == 128, "head_dim", std::to_string(shape.head_dim),
          "64 or 128");
  require(std::isfinite(shape.scale) && shape.scale > 0, "scale", std::to_string(shape.scale),
          "finite and positive");
  const bool has_rows = shape.batch > 0 && shape.query_length > 0;
  const bool has_keys = has_rows && shape.key_length > 0;
  check_pointer("query", memory.query, has_rows);
  check_pointer("key", memory.key, has_keys);
  check_pointer("value", memory.value, has_keys);
  check_pointer("out", memory.out, has_rows);
  check_pointer("workspace", memory.workspace, rung.workspace_bytes(shape) > 0);
}

}  // namespace

std::span<const Rung> rungs() { return table(); }

const Rung& rung_named(std::string_view name) {
  std::string names;
  for (const Rung& rung : table()) {
    if (rung.name == name) return rung;
    names += (names.empty() ? "" : ", ") + std::string(rung.name);
  }
  throw Error(ErrorCode::invalid_argument,
              "rung is '" + std::string(name) + "': it must be one of " + names);
}

void add_rung(const Rung& rung, std::string_view before) {
  const auto at = std::find_if(table().begin(), table().end(),
                               [&](const Rung& other) { return other.name == before; });
  table().insert(at, rung);
}

void run(const Rung& rung, const Shape& shape, const Memory& memory, cudaStream_t stream) {
  check(rung, shape, memory);
  if (shape.batch > 0 && shape.query_length > 0) rung.launch(shape, memory, stream);
}

std::int64_t visible_pairs(const Shape& shape) {
  std::int64_t pairs = 0;
  for (int query = 0; query < shape.query_length; ++query) pairs += shape.keys_seen(query);
  return pairs * shape.heads_in_all();
}

std::int64_t bytes_once(const Shape& shape, Element element) {
  const std::int64_t rows = 2 * (std::int64_t(shape.query_length) + shape.key_length);
  return rows * shape.heads_in_all() * shape.head_dim * std::int64_t(bytes_of(element));
}

std::int64_t bytes_by_query_tiles(const Shape& shape, Element element, int tile, int key_tile) {
  std::int64_t rows = 2 * std::int64_t(shape.query_length);
  for (int first = 0; first < shape.query_length; first += tile) {
    const int seen = shape.keys_seen(std::min(first + tile, shape.query_length) - 1);
    rows += 2 * std::min(tiles_over(seen, key_tile) * key_tile, shape.key_length);
  }
  return rows * shape.heads_in_all() * shape.head_dim * std::int64_t(bytes_of(element));
}

}  // namespace tilefold::cuda::ladder
