// A formula's text becomes a kernel without a GPU: for every tile shape and both types, as the
// ahead-of-time kernel would be, and with errors that a user can read.
#include "cuda/jit/forward.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "cuda/jit/compile_log.hpp"
#include "cuda/jit/forward_layout.hpp"
#include "cuda/jit/nvrtc_places.hpp"
#include "cuda/jit/temporary_folder.hpp"
#include "cuda/kernels/sm80/registry.hpp"
#include "cuda/kernels/sm90/forward/registry.hpp"
#include "tilefold/error.hpp"

namespace tilefold::cuda::jit {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::Variable;

const score::FormulaCode unchanged{{}, "::tilefold::score::Unchanged", 1, 1};
const score::FormulaCode causal_type{{}, "::tilefold::score::Causal", 1, 1};
const score::FormulaCode causal_text{
    "struct Mine {\n  template <class N> auto keep(N q, N k, Place at) const {\n"
    "    return k <= q + N(at.offset);\n  }\n};",
    "Mine", 1, 1};

/// A mask over one int, `step`.
score::FormulaCode mask_returning(const std::string& expression) {
  return {
      "struct Mine {\n  int step;\n  template <class N> auto keep(N q, N k, Place at) const {\n"
      "    return " +
          expression + ";\n  }\n};",
      "Mine", 4, 4};
}

ForwardRequest sm90(const score::FormulaCode& mask, const score::FormulaCode& change,
                    HalfType type = HalfType::bf16, int row = 0, bool plain = false) {
  return {mask, change, {Family::sm90, type, row, plain}, "sm_90a"};
}

/// Compiled anew: nothing is kept on a disk.
std::string failure_of(const ForwardRequest& request) {
  KernelCache cache({"", "a test", 0});
  try {
    compile_forward(request, nvrtc(), cache);
  } catch (const Error& error) {
    return error.what();
  }
  return "compiled";
}

#define SKIP_WITHOUT_NVRTC() \
  if (!nvrtc().found()) GTEST_SKIP() << nvrtc().absence()

class EveryShape : public ::testing::TestWithParam<int> {};

// bf16 by its text, plain; f16, at 128 only, by its type, with every option: eight compilations.
TEST_P(EveryShape, CompilesCausalAsNvccDoes) {
  SKIP_WITHOUT_NVRTC();
  const int shape = GetParam();
  const sm90::TileChoice& tile = sm90::compiled_tiles[shape];
  KernelCache cache({"", "a test", 0});
  for (const HalfType type : {HalfType::bf16, HalfType::f16}) {
    if (type == HalfType::f16 && tile.head_dim != 128) continue;
    const score::FormulaCode& mask = type == HalfType::bf16 ? causal_text : causal_type;
    const JitForward made =
        compile_forward(sm90(mask, unchanged, type, shape, type == HalfType::bf16), nvrtc(), cache);
    EXPECT_EQ(made.origin, Origin::compiled);
    EXPECT_EQ(made.cubin->code.substr(0, 4),
              "\x7f"
              "ELF");
    EXPECT_THAT(made.cubin->kernel, HasSubstr("forward_kernel"));
    EXPECT_THAT(made.cubin->code, HasSubstr(made.cubin->kernel));
    // What nvcc 13.0's kernels of the same formula keep in memory: nothing but at 64, where three
    // consumers share the registers and leave the scout 32, outside of all loops over key tiles.
    const int at_64 = nvrtc().version().rfind("13.", 0) == 0 ? 320 : 480;
    EXPECT_LE(spilled_bytes(made.cubin->report), shape == 0 ? at_64 : 0) << made.cubin->report;
    EXPECT_THAT(made.cubin->report, HasSubstr("sm_90a"));
    EXPECT_GT(made.shared_bytes, 2 * tile.head_dim * 64 * tile.consumers);
    RecordProperty(type == HalfType::bf16 ? "text_ms" : "type_ms", int(1e3 * made.seconds));
  }
}
INSTANTIATE_TEST_SUITE_P(JitForward, EveryShape, ::testing::Range(0, sm90::compiled_shapes));

// Of the sm80 family the tile of the most registers, for the oldest card and for Hopper, which
// reads pages by it; with a score change on the one and without on the other.
TEST(JitForward, Sm80TakesFormulasToo) {
  SKIP_WITHOUT_NVRTC();
  KernelCache cache({"", "a test", 0});
  const score::FormulaCode cap{{}, "::tilefold::score::SoftCap", 8, 8};
  const int at_128 = 3;
  for (const auto& [architecture, change] :
       {std::pair{"sm_80", unchanged}, std::pair{"sm_90", cap}}) {
    const JitForward made =
        compile_forward({causal_text, change, {Family::sm80, HalfType::bf16, at_128}, architecture},
                        nvrtc(), cache);
    EXPECT_THAT(made.cubin->kernel, HasSubstr("compiled_forward_kernel"));
    EXPECT_EQ(spilled_bytes(made.cubin->report), 0) << made.cubin->report;
    EXPECT_EQ(made.shared_bytes, sm80::registry(sm80::plain_count + at_128).shared_bytes());
  }
}

TEST(JitForward, ArgumentsLieWhereTheTextSaysTheyDo) {
  const score::FormulaCode wide{"struct Wide { double a; char b; };", "Wide", 16, 8};
  const score::FormulaCode narrow = mask_returning("k <= q");
  const Translation t = forward_translation(sm90(narrow, wide, HalfType::f16, 2));
  EXPECT_THAT(t.source, HasSubstr("sizeof(Compiled) == 24"));
  EXPECT_THAT(t.source, HasSubstr("change) == 8"));
  EXPECT_THAT(t.source, HasSubstr("HalfType::f16"));
  EXPECT_THAT(t.source, HasSubstr("compiled_tiles[2]"));
  for (std::size_t alignment = 1; alignment <= most_alignment; alignment *= 2) {
    const ForwardLayout layout = forward_layout({Family::sm90, HalfType::bf16, 0}, alignment);
    EXPECT_EQ(layout.formula_at % alignment, 0u);
    EXPECT_GE(layout.formula_at, layout.first_keys_at + sizeof(void*));
    const ForwardLayout other = forward_layout({Family::sm80, HalfType::bf16, 0}, alignment);
    EXPECT_EQ(other.formula_at % alignment, 0u);
  }
}

TEST(JitForward, AFunctorOfAnotherSizeIsRefusedByTheCompiler) {
  SKIP_WITHOUT_NVRTC();
  score::FormulaCode mask = mask_returning("k <= q + N(step)");
  mask.size = 8;
  EXPECT_THAT(failure_of(sm90(mask, unchanged)), HasSubstr("sizeof(Mask) == 8"));
  mask.size = 6;
  EXPECT_THAT(failure_of(sm90(mask, unchanged)),
              HasSubstr("arguments of 6 bytes on multiples of 4"));
}

TEST(JitForward, ErrorsNameTheLineOfTheUsersText) {
  SKIP_WITHOUT_NVRTC();
  const auto mask_failure = [](const std::string& expression) {
    return failure_of(sm90(mask_returning(expression), unchanged));
  };
  EXPECT_THAT(mask_failure("k <= query"),
              HasSubstr("options.mask, line 4: identifier \"query\" is undefined\n"
                        "      return k <= query;"));
  EXPECT_THAT(mask_failure("(k <= q"), HasSubstr("options.mask, line 4: expected a \")\""));
  const std::string no_operator = mask_failure("k <= q % step");
  EXPECT_THAT(no_operator, HasSubstr("options.mask, line 4: no operator \"%\""));
  EXPECT_THAT(no_operator, Not(HasSubstr("detected during")));
  const score::FormulaCode empty{"struct Mine { int step; };", "Mine", 4, 4};
  EXPECT_THAT(failure_of(sm90(empty, unchanged)), HasSubstr("options.mask has no keep(q, k, at)"));
  EXPECT_THAT(failure_of(sm90(causal_type, {"struct C {\n  float x\n};", "C", 4, 4})),
              HasSubstr("options.score, line 3: expected a \";\""));
}

TEST(CompileLog, OthersErrorsAreToldWhereTheTextHasNone) {
  const std::string log =
      "kernel.cuh(3): warning #1: dull\n  dull;\n\nkernel.cuh(7): error: bad\n  bad;\n  ^\n"
      "          detected during instantiation of nonsense\n\n1 error detected in the compilation "
      "of \"formula.cu\".\n";
  EXPECT_EQ(errors_in(log, "options."), "kernel.cuh, line 7: bad\n  bad;\n  ^");
  EXPECT_EQ(errors_in("nonsense", "options."), "nonsense");
}

TEST(KernelSources, AreTheHeadersOfThisTree) {
  if (!std::filesystem::exists(TILEFOLD_SOURCE_DIR)) GTEST_SKIP() << "staged: no tree is here";
  bool found = false;
  for (const KernelSource& source : kernel_sources()) {
    const std::string name = source.name;
    found = found || name == "cuda/kernels/sm90/forward/scout.cuh";
    std::ifstream file(std::string(TILEFOLD_SOURCE_DIR) +
                       (name.rfind("tilefold/", 0) == 0 ? "/include/" : "/src/") + name);
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_EQ(text.str(), source.text) << name;
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(kernel_sources_hash().text().size(), 32u);
}

TEST(Nvrtc, SaysWhereItLooked) {
  {
    const Variable wrong("TILEFOLD_NVRTC", "/nonexistent");
    const Nvrtc none = Nvrtc::look();
    EXPECT_FALSE(none.found());
    EXPECT_THAT(none.absence(), HasSubstr("TILEFOLD_NVRTC is '/nonexistent': it must be"));
    KernelCache cache({"", "a test", 0});
    EXPECT_THROW(compile_forward(sm90(causal_type, unchanged), none, cache), Error);
  }
  const Variable home("CUDA_HOME", "/a toolkit"), python("VIRTUAL_ENV", "/a venv");
  const Nvrtc looked = Nvrtc::look();
  if (looked.found()) return;
  EXPECT_THAT(looked.absence(), HasSubstr("/a toolkit"));
  EXPECT_THAT(looked.absence(), HasSubstr("/a venv/lib/python3*"));
}

TEST(Nvrtc, IsLookedForInPythonsPackages) {
  const testing::TemporaryFolder venv;
  const std::string folder = venv.inner("lib/python3.11/site-packages/nvidia/cu13/lib");
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/libnvrtc.so.13") << "not a library";
  const Variable python("VIRTUAL_ENV", venv.path().c_str());
  std::vector<std::string> files;
  for (const NvrtcPlace& place : nvrtc_places())
    files.insert(files.end(), place.files.begin(), place.files.end());
  EXPECT_THAT(files, ::testing::Contains(folder + "/libnvrtc.so.13"));
  EXPECT_EQ(files.front(), "libnvrtc.so.13") << "the loader's path comes first";
  Nvrtc::look();  // what cannot be opened is passed over
}

TEST(Nvrtc, CompilesForManyThreadsAtOnce) {
  SKIP_WITHOUT_NVRTC();
  const Translation small{"template <int n> __global__ void store(int* x) { *x = n; }", "store<3>",
                          "sm_90a"};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < 5; ++n) {
        const Compilation made = nvrtc().compile(small, {});
        ASSERT_TRUE(made.cubin.has_value()) << made.log;
        EXPECT_EQ(made.cubin->kernel, "_Z5storeILi3EEvPi");
        EXPECT_EQ(made.log, "");
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Nvrtc, IsFoundByItsPath) {
  SKIP_WITHOUT_NVRTC();
  const Variable path("TILEFOLD_NVRTC", nvrtc().path().c_str());
  const Nvrtc again = Nvrtc::look();
  EXPECT_TRUE(again.found());
  EXPECT_EQ(again.version(), nvrtc().version());
}

TEST(Nvrtc, ReadsSpillsFromTheReport) {
  EXPECT_EQ(spilled_bytes("  8 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads"), 20);
  EXPECT_EQ(spilled_bytes("nothing"), -1);
}

}  // namespace
}  // namespace tilefold::cuda::jit
