// `tilefold attend`: attention from files to files.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/materialised.hpp"
#include "bench/peak_memory.hpp"
#include "bench/timing.hpp"
#include "bench/visible_pairs.hpp"
#include "command.hpp"
#include "device_copy.hpp"
#include "option_checks.hpp"
#include "problem_arguments.hpp"
#include "progress.hpp"
#include "reference_check.hpp"
#include "tilefold/attention.hpp"

namespace tilefold::cli {

namespace {

using nlohmann::ordered_json;

constexpr int most_runs = 5;
constexpr double seconds_of_runs = 1;  // short problems are repeated until this is spent

struct Arguments {
  std::string query, key, value, out, lse, out_dtype;
  ProblemArguments problem;
  bool explain = false, check = false, compare = false, json = false;
  std::int64_t check_rows = 256;
};

struct Measured {
  double seconds = 0;  // median
  int runs = 0;
  std::optional<std::int64_t> peak_bytes;  // of the first run
};

template <class F> Measured measure(const F& run) {
  Measured m;
  std::vector<double> seconds;
  m.peak_bytes = bench::peak_above([&] { seconds.push_back(bench::seconds_of(run)); });
  double spent = seconds.front();
  while (spent < seconds_of_runs && seconds.size() < most_runs) {
    seconds.push_back(bench::seconds_of(run));
    spent += seconds.back();
  }
  m.seconds = bench::median(seconds);
  m.runs = int(seconds.size());
  return m;
}

std::string bytes_text(const std::optional<std::int64_t>& bytes) {
  return bytes ? fmt::format("{:.2f} MB", double(*bytes) / 1e6) : "not measurable here";
}

std::string path_of(const std::string& spec) {
  const std::size_t end = spec.find(".safetensors:");
  return end == std::string::npos ? spec : spec.substr(0, end + 12);
}

// Told before the computation instead of after it.
void check_destination(const std::string& spec) {
  if (spec.empty()) return;
  const std::filesystem::path path = path_of(spec), folder = path.parent_path();
  if (path.extension() != ".npy" && path.extension() != ".safetensors")
    throw Error(ErrorCode::file_format,
                fmt::format("{}: its extension must be .npy or .safetensors", spec));
  std::error_code ignored;
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored))
    throw Error(ErrorCode::file_io,
                fmt::format("{}: there is no directory '{}'", spec, folder.string()));
  if (std::filesystem::is_directory(path, ignored))
    throw Error(ErrorCode::file_io, fmt::format("{}: it is a directory", spec));
  if (spec.ends_with(".safetensors:"))
    throw Error(ErrorCode::file_format,
                fmt::format("{}: a tensor's name must follow the colon", spec));
}

// However the two spell it.
bool same_file(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return false;
  std::error_code unknown;
  const auto whole = [&](const std::string& spec) {
    // Absolute first: of a relative path to nothing, weakly_canonical leaves "./x" and "x".
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path_of(spec)), unknown);
  };
  return whole(a) == whole(b);
}

// The name of a tensor in its .safetensors file; empty where none is given.
std::string name_in_file(const std::string& spec) {
  const std::size_t path = path_of(spec).size();
  return path < spec.size() ? spec.substr(path + 1) : "";
}

void check_npy_dtype(const std::string& spec, DType dtype) {
  if (std::filesystem::path(path_of(spec)).extension() != ".npy") return;
  if (dtype == DType::bf16 || is_fp8(dtype))
    throw Error(ErrorCode::file_format,
                fmt::format("{}: .npy has no code for {}; write .safetensors or ask for another "
                            "--out-dtype",
                            spec, name(dtype)));
}

class Attend {
 public:
  explicit Attend(const Arguments& arguments) : a_(arguments) {}

  void run() {
    check_destination(a_.out);
    check_destination(a_.lse);
    if (same_file(a_.out, a_.lse) && !same_container())
      throw UsageError(
          "--out and --lse name the same file: a .safetensors file holds both as "
          "FILE:out and FILE:lse");
    read();
    Plan plan = make_plan();
    if (a_.explain && !a_.json) fmt::print("{}\n", plan.explain());
    if (a_.explain && a_.json) report_["plan"] = ordered_json::parse(plan.explain_json());
    compute(plan);
    write();
    if (a_.compare) compare_materialised();
    const bool passed = !a_.check || check();
    if (a_.json) fmt::print("{}\n", report_.dump(2));
    if (!passed) throw Exit{ExitCode::check_failed};
  }

 private:
  void read() {
    Tensors& t = problem_.tensors;
    t.query = store_.read(a_.query);
    t.key = store_.read(a_.key);
    if (!a_.value.empty()) t.value = store_.read(a_.value);
    a_.problem.apply(problem_, store_);
  }

  Plan make_plan() {
    const OutputDescription d = describe_outputs(problem_, a_.out_dtype);
    const bool with_lse =
        !a_.lse.empty() || a_.check || problem_.options.output == OutputKind::partial;
    // A description plans as well as memory does: nothing is allocated for a refused problem.
    problem_.tensors.out = OutputView(nullptr, d.out_dtype, d.out_shape);
    if (with_lse) problem_.tensors.lse = OutputView(nullptr, d.lse_dtype, d.lse_shape);
    const bool on_cuda = problem_.options.backend == Backend::cuda;
    if (on_cuda) core::resolve(problem_);  // a wrong problem is wrong without a device, too
    tilefold::plan(on_cuda ? described_on_current_device(problem_) : problem_);
    check_npy_dtype(a_.out, d.out_dtype);
    problem_.tensors.out = store_.allocate(d.out_dtype, d.out_shape);
    if (with_lse) problem_.tensors.lse = store_.allocate(d.lse_dtype, d.lse_shape);
    if (on_cuda) device_ = std::make_unique<DeviceCopy>(problem_);
    const auto make = [&] { return tilefold::plan(device_ ? device_->problem() : problem_); };
    const double seconds = bench::seconds_of(make);
    report_["plan_seconds"] = seconds;
    return make();
  }

  void compute(Plan& plan) {
    Measured m;
    if (device_) {
      // Tensors and the plan's tables are on the device before the clock starts.
      plan.prepare();
      m = measure([&] {
        plan.run(device_->problem().tensors);
        device_->wait();
      });
      m.peak_bytes.reset();
      device_->download();
      report_["workspace_bytes"] = plan.workspace_bytes();
    } else {
      m = measure([&] { plan.run(problem_.tensors); });
    }
    flops_ = bench::visible_flops(core::resolve(problem_), problem_.options.mask);
    report_["kernel"] = plan.kernel();
    const std::string workspace =
        fmt::format("workspace on the device {:.2f} MB", double(plan.workspace_bytes()) / 1e6);
    tell("tilefold", plan.kernel(), m, device_ ? workspace : host_memory(m));
    ours_ = m;
  }

  static std::string host_memory(const Measured& m) {
    return "peak memory above inputs and outputs " + bytes_text(m.peak_bytes);
  }

  void tell(const char* what, const std::string& how, const Measured& m,
            const std::string& memory) {
    ordered_json figures{{"seconds", m.seconds},
                         {"runs", m.runs},
                         {"gflops", flops_ / m.seconds / 1e9},
                         {"peak_bytes", nullptr}};
    if (m.peak_bytes) figures["peak_bytes"] = *m.peak_bytes;
    report_[what] = figures;
    if (!a_.json)
      fmt::print("{:13} {:10.3f} ms  {:8.1f} GFLOPS  {}  ({}, median of {})\n", what,
                 m.seconds * 1e3, flops_ / m.seconds / 1e9, memory, how, m.runs);
  }

  bool same_container() const {
    const std::string out = name_in_file(a_.out), lse = name_in_file(a_.lse);
    return !out.empty() && !lse.empty() && out != lse;
  }

  void write() const {
    const Tensors& t = problem_.tensors;
    if (same_file(a_.out, a_.lse)) {
      files::write_tensors(path_of(a_.out),
                           {{name_in_file(a_.out), t.out}, {name_in_file(a_.lse), t.lse}});
      return;
    }
    if (!a_.out.empty()) files::write_tensor(a_.out, t.out);
    if (!a_.lse.empty()) files::write_tensor(a_.lse, t.lse);
  }

  void compare_materialised() {
    Problem other = problem_;
    const OutputView& out = problem_.tensors.out;
    other.tensors.out = store_.allocate(out.dtype(), out.shape());
    other.tensors.lse = {};
    const Measured m = measure([&] { bench::materialised(other); });
    tell("materialised", "float32, scores in memory", m, host_memory(m));
    if (a_.json || ours_.seconds <= 0) return;
    fmt::print("{:13} {:.2f} times the speed", "", m.seconds / ours_.seconds);
    if (m.peak_bytes && ours_.peak_bytes && *ours_.peak_bytes > 0)
      fmt::print(", {:.1f} times less memory", double(*m.peak_bytes) / double(*ours_.peak_bytes));
    fmt::print("\n");
  }

  bool check() {
    Progress progress("checking");
    const ReferenceCheck c = check_against_reference(problem_, a_.check_rows,
                                                     [&](double part) { progress.update(part); });
    report_["check"] = {{"rows", c.rows},
                        {"of_rows", c.of_rows},
                        {"out_error", c.out_error},
                        {"out_eager_error", c.out_eager_error},
                        {"lse_error", c.lse_error},
                        {"lse_eager_error", c.lse_eager_error},
                        {"not_finite", c.not_finite},
                        {"part_of_allowed", c.worst_ratio},
                        {"within", c.within()}};
    if (a_.json) return c.within();
    fmt::print("check         {} of {} rows against float64\n", c.rows, c.of_rows);
    fmt::print("  out         {:.3e} largest difference; eager attention in {}: {:.3e}\n",
               c.out_error, name(problem_.tensors.query.dtype()), c.out_eager_error);
    fmt::print("  lse         {:.3e} largest difference; eager attention: {:.3e}\n", c.lse_error,
               c.lse_eager_error);
    if (c.not_finite > 0)
      fmt::print(
          "  not finite  {} outputs, in float64 too: an input holds NaN or infinity, or a formula "
          "makes it\n",
          c.not_finite);
    fmt::print("  {}: {:.3f} of what the accuracy rule allows\n",
               c.within() ? "within the rule" : "BREACH", c.worst_ratio);
    return c.within();
  }

  const Arguments& a_;
  TensorStore store_;
  Problem problem_;
  std::unique_ptr<DeviceCopy> device_;  // with --backend cuda
  double flops_ = 0;
  Measured ours_;
  ordered_json report_;
};

}  // namespace

void add_attend(CLI::App& tool) {
  CLI::App* command = tool.add_subcommand("attend", "Attention from files to files");
  const auto a = std::make_shared<Arguments>();
  const char* file = "FILE.npy or FILE.safetensors:NAME";
  command->add_option("-q,--query", a->query, file)->required();
  command->add_option("-k,--key", a->key, file)->required();
  CLI::Option* const value =
      command->add_option("-v,--value", a->value, std::string(file) + "; absent with --value-dim");
  command->add_option("-o,--out", a->out, "Where the output goes; nowhere unless given");
  command->add_option("--lse", a->lse, "Where the rows' log-sum-exp goes");
  command->add_option("--out-dtype", a->out_dtype, "The query's unless given (bf16 for fp8)");
  command
      ->add_option("--value-dim", a->problem.value_dim, "The value is the first columns of the key")
      ->check(whole_number(1))
      ->excludes(value);
  a->problem.add_to(*command);
  command->add_flag("--explain", a->explain, "Prints the plan");
  CLI::Option* const check =
      command->add_flag("--check", a->check, "Compares with the float64 reference");
  command->add_option("--check-rows", a->check_rows, "At most this many rows, evenly spaced")
      ->capture_default_str()
      ->check(whole_number(1))
      ->needs(check);
  command->add_flag("--compare-materialised", a->compare,
                    "Also runs attention with the score matrix in memory");
  command->add_flag("--json", a->json, "Prints one JSON object");
  command->callback([a] { Attend(*a).run(); });
}

}  // namespace tilefold::cli
