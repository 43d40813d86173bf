// The survey: which key tiles the rows of a query tile see, by questions to the mask about
// intervals of queries and keys, one a lane.
#pragma once

#include "cuda/kernels/sm90/forward/shared_plan.cuh"

namespace tilefold::cuda::sm90 {

/// Key tiles [begin, last), at most 32. Bit i is tile last - 1 - i.
struct Chunk {
  int begin, last;
  unsigned live, partial;  // live: some row sees some key; partial: not every row every key
  // Formula::compiled only:
  int first_key;         // no query of the sequence sees an earlier one
  unsigned seen, whole;  // where warpgroups pass by tiles. Lane w, of warpgroup w: some row sees
                         // some key; every row every key
};

/// The consumers' rows of a query tile, `work`, that are warpgroup `w`'s. One without any does as
/// the last that has some: all must mend the same tiles of V.
template <class Chosen> __device__ __forceinline__ bool has_rows(const ForwardWork& work, int w) {
  return w * Chosen::value.warpgroup_rows < work.rows;
}
template <class Chosen>
__device__ __forceinline__ ForwardWork rows_of(const ForwardWork& work, int w) {
  constexpr int warpgroup_rows = Chosen::value.warpgroup_rows;
  const int first = score::smaller(w, (work.rows - 1) / warpgroup_rows) * warpgroup_rows;
  ForwardWork part = work;
  part.first_row += first;
  part.rows = score::smaller(work.rows - first, warpgroup_rows);
  return part;
}

template <class Chosen> class Survey {
 public:
  static constexpr ForwardConfig config = Chosen::value;
  static constexpr bool compiled = config.formula == Formula::compiled;

  __device__ __forceinline__ Survey(const ParamsOf<Chosen>& params, const Assignment& assignment)
      : params_(params), a_(assignment), lane_(int(threadIdx.x % 32)) {}

  /// The last chunk of tiles [first, last) that has a live one; without, where there is none. By a
  /// whole warp.
  __device__ __forceinline__ Chunk find(int first, int last) {
    if constexpr (compiled) {
      first_ = first;
      look_below(last);
      // A mask's code is long: it stands here and nowhere else.
#pragma unroll 1
      while (about_ != About::nothing) hear(ask());
      return c_;
    } else {
      return find_tiles(first, last);
    }
  }

 private:
  /// For a formula as data, whose questions are about tiles and chunks alone: without what the
  /// rounds below keep between them, which would be spilled.
  __device__ __forceinline__ Chunk find_tiles(int first, int last) const {
    int width = width_of(first, last);
#pragma unroll 1
    for (;;) {
      const int end = last - width * lane_;
      const KeyRange keys = keys_of_tiles(a_.work, score::larger(first, end - width), end);
      const score::Truth answer = keys.begin < keys.end ? tile_answer(params_.problem, a_.sequence,
                                                                      a_.work, keys.begin, keys.end)
                                                        : score::Truth(score::Truth::none);
      const unsigned live = __ballot_sync(0xffffffffu, !answer.no());
      const unsigned partial = __ballot_sync(0xffffffffu, !answer.yes());
      const int begin = score::larger(first, last - 32 * width);
      if (live == 0) {
        if (begin == first) return {first, first, 0u, 0u, 0, 0u, 0u};
        last = begin;
        width = width_of(first, last);
      } else if (width > 1) {
        last -= width * (__ffs(int(live)) - 1);
        width = 1;
      } else {
        return {begin, last, live, partial, 0, 0u, 0u};
      }
    }
  }
  /// Tiles a question is about: of many tiles, 32 first, since most masks hide most of a long row.
  static __device__ __forceinline__ int width_of(int first, int last) {
    return last - first > 64 ? 32 : 1;
  }
  /// Of tiles [begin, end), those of the work.
  static __device__ __forceinline__ KeyRange keys_of_tiles(const ForwardWork& work, int begin,
                                                           int end) {
    return {score::larger(begin * config.tile_keys, work.first_key),
            score::smaller(end * config.tile_keys, work.last_key)};
  }

  // ---- rounds of questions to a compiled formula

  /// What a round of questions is about. Of many tiles, chunks first, 32 at once. Then a
  /// chunk's tiles; of those that are partial, each warpgroup's rows; and the keys of the lowest
  /// live tile, where the host does not know which is the first that is seen.
  enum class About { nothing, chunks, tiles, warpgroups, keys };

  __device__ __forceinline__ void look_below(int last) {
    c_ = {};
    c_.begin = c_.last = last;
    about_ = last == first_               ? About::nothing
             : width_of(first_, last) > 1 ? About::chunks
                                          : About::tiles;
  }

  __device__ __forceinline__ score::Truth ask() const {
    ForwardWork work = a_.work;
    KeyRange keys{0, 0};  // nothing to ask
    if (about_ == About::keys) {
      work.first_row = 0, work.rows = a_.sequence.query_length;
      keys = {c_.first_key + lane_, c_.first_key + lane_ + 1};
    } else if (config.passes_by() && about_ == About::warpgroups) {
      const int tile = c_.last - __ffs(int(tile_asked()));
      if (tile_asked() != 0 && has_rows<Chosen>(work, warpgroup_asked()))
        keys = keys_of_tiles(work, tile, tile + 1);
      work = rows_of<Chosen>(work, warpgroup_asked());
    } else {
      const int end = c_.last - width() * lane_;
      keys = keys_of_tiles(work, score::larger(first_, end - width()), end);
    }
    if (keys.begin >= keys.end) return score::Truth::none;
    return mask_answer(queries_of(a_.sequence, work), keys.begin, keys.end);
  }
  __device__ __forceinline__ int width() const { return about_ == About::chunks ? 32 : 1; }

  /// Questions about warpgroups are numbered tile by tile; lanes take 32 in a round.
  __device__ __forceinline__ unsigned asked_tiles() const { return c_.live & c_.partial; }
  __device__ __forceinline__ int warpgroup_asked() const {
    return (asked_ + lane_) % config.consumers;
  }
  /// As a bit of the chunk; 0: there are no more.
  __device__ __forceinline__ unsigned tile_asked() const {
    unsigned tiles = asked_tiles();
    for (int i = (asked_ + lane_) / config.consumers; i > 0; --i) tiles &= tiles - 1;
    return tiles & (0u - tiles);
  }
  /// What the compiled mask says of the queries against keys [first, last).
  __device__ __forceinline__ score::Truth mask_answer(QueryRange queries, int first,
                                                      int last) const {
    const ForwardParams& p = params_.problem;
    const SequenceInfo& s = a_.sequence;
    return params_.formula.mask.keep(
        positions_between(query_position(p, s, queries.first), query_position(p, s, queries.last)),
        positions_between(key_position(p, s, first), key_position(p, s, last - 1)),
        place_of(p, s, a_.work.sequence, a_.work.kv_head));
  }

  __device__ __forceinline__ void hear(score::Truth answer) {
    if constexpr (config.passes_by())
      if (about_ == About::warpgroups) return hear_warpgroups(answer);
    if (about_ == About::keys) return hear_keys(answer);
    const unsigned live = __ballot_sync(0xffffffffu, !answer.no());
    const unsigned partial = __ballot_sync(0xffffffffu, !answer.yes());
    if (live == 0) return look_below(score::larger(first_, c_.last - 32 * width()));
    if (about_ == About::chunks) {
      c_.last -= 32 * (__ffs(int(live)) - 1);
      about_ = About::tiles;
      return;
    }
    c_.begin = score::larger(first_, c_.last - 32);
    c_.live = live, c_.partial = partial;
    begin_with_warpgroups();
  }
  __device__ __forceinline__ void begin_with_warpgroups() {
    c_.seen = c_.whole = c_.live & ~c_.partial;
    asked_ = 0;
    if (config.passes_by() && asked_tiles() != 0)
      about_ = About::warpgroups;
    else
      begin_with_keys();
  }
  __device__ __forceinline__ void hear_warpgroups(score::Truth answer) {
#pragma unroll
    for (int w = 0; w < config.consumers; ++w) {
      const unsigned tile = w == warpgroup_asked() ? tile_asked() : 0u;
      const unsigned seen = __reduce_or_sync(0xffffffffu, answer.no() ? 0u : tile);
      const unsigned whole = __reduce_or_sync(0xffffffffu, answer.yes() ? tile : 0u);
      if (lane_ == w) c_.seen |= seen, c_.whole |= whole;
    }
    asked_ += 32;
    if (asked_ >= __popc(asked_tiles()) * config.consumers) begin_with_keys();
  }
  __device__ __forceinline__ void begin_with_keys() {
    if (lane_ < config.consumers && !has_rows<Chosen>(a_.work, lane_)) c_.seen = 0;
    const bool known = params_.first_keys != nullptr;
    c_.first_key = known ? params_.first_keys[a_.work.sequence] : lowest_tile() * config.tile_keys;
    about_ = known ? About::nothing : About::keys;
  }
  __device__ __forceinline__ int lowest_tile() const { return c_.last - 32 + __clz(int(c_.live)); }
  __device__ __forceinline__ void hear_keys(score::Truth answer) {
    const unsigned live = __ballot_sync(0xffffffffu, !answer.no());
    c_.first_key += live == 0 ? 32 : __ffs(int(live)) - 1;
    if (live != 0 || c_.first_key >= (lowest_tile() + 1) * config.tile_keys)
      about_ = About::nothing;
  }

  const ParamsOf<Chosen>& params_;
  const Assignment& a_;
  int lane_, first_ = 0, asked_ = 0;
  About about_ = About::nothing;
  Chunk c_{};
};

}  // namespace tilefold::cuda::sm90
