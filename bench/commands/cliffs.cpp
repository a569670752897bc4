// tile-bench cliffs: whether one more row, column or depth of a product costs more than its share.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/commands/commands.h"
#include "bench/report/json_file.h"
#include "bench/report/progress.h"
#include "runtime/cli/files.h"
#include "runtime/engine/tuning/kernel_timer.h"

namespace tile::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kCliff = 1.25;
constexpr int64_t kOther = 128;  // the sizes that stay
constexpr int kRuns = 20;        // of each size, each the least of a few
constexpr int kTurns = 60;       // of a suspicious pair
constexpr int kTimes = 5;        // that it must be one
constexpr const char* kAxes[] = {"M", "N", "K"};

// One product and its timer.
struct Product {
  Product(const std::shared_ptr<Engine>& engine, int axis, int64_t n) {
    int64_t size[3] = {kOther, kOther, kOther};
    size[axis] = n;
    auto source = std::make_shared<Source>(Source{
        "cliffs", "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"});
    LoadedProgram program(engine, std::make_shared<Program>(parse(Language::tile, source)));
    executable = program.executable(std::vector<InputLayout>{
        {{DType::f32, {size[0], size[2]}}, {}}, {{DType::f32, {size[2], size[1]}}, {}}});
    if (executable->restored) executable = compile_stages(*executable);
    timer.emplace(*executable, executable->launches.at(0));
  }
  double least(int runs) {
    double ns = timer->as_compiled();
    for (int i = 1; i < runs; ++i) ns = std::min(ns, timer->as_compiled());
    return ns;
  }
  std::shared_ptr<const Executable> executable;
  std::optional<KernelTimer> timer;
};

class Cliffs {
 public:
  Cliffs(const Request& request, int64_t from, int64_t to)
      : request_(request), engine_(cli::make_engine(request.engine)), from_(from), to_(to) {
    json_["context"] = {{"device", engine_->device()}, {"other", kOther}};
    const std::string& path = request.json;
    if (request.resume && path != "-" && std::filesystem::exists(path)) {
      Json before = Json::parse(cli::read_text(path), nullptr, false);
      if (!before.is_object() || before["context"] != json_["context"]) {
        fail(Stage::run, "file", {}, path + ": not the cliffs of this machine");
      }
      json_ = std::move(before);
    }
  }

  int run() {
    for (int axis = 0; axis < 3; ++axis) {
      for (int64_t n = from_; n <= to_; ++n) step(axis, n);
      write();
    }
    progress_.clear();
    std::printf("%zu cliffs above %.2f among sizes %lld to %lld; the steepest step %.3f (%s)\n",
                cliffs_, kCliff, static_cast<long long>(from_), static_cast<long long>(to_),
                steepest_, where_.c_str());
    if (request_.json == "-") write();
    return cliffs_ > 0 ? 1 : 0;
  }

 private:
  void step(int axis, int64_t n) {
    Json& times = json_["times"][kAxes[axis]];
    std::string key = std::to_string(n);
    if (!times.contains(key)) times[key] = Product(engine_, axis, n).least(kRuns);
    double time = times[key];
    progress_.show(std::string(kAxes[axis]) + " = " + key + ": " + time_text(time));
    if (n == from_) return;
    double before = times[std::to_string(n - 1)];
    double ratio = time / before;
    for (int i = 0; i < kTimes && ratio > kCliff; ++i) ratio = in_turns(axis, n);
    if (ratio > steepest_) {
      steepest_ = ratio;
      where_ = std::string(kAxes[axis]) + " = " + key;
    }
    if (ratio <= kCliff) return;
    progress_.clear();
    std::printf("%s = %s takes %.2f times as long as %lld\n", kAxes[axis], key.c_str(), ratio,
                static_cast<long long>(n - 1));
    ++cliffs_;
  }

  // What looks like a cliff may be a disturbance of one of the two, or since the other was timed:
  // the two anew, in turns.
  double in_turns(int axis, int64_t n) {
    Product smaller(engine_, axis, n - 1), larger(engine_, axis, n);
    double before = smaller.least(1), time = larger.least(1);
    for (int i = 1; i < kTurns; ++i) {
      before = std::min(before, smaller.least(1));
      time = std::min(time, larger.least(1));
    }
    return time / before;
  }

  void write() const {
    if (!request_.json.empty()) replace_file(request_.json, json_.dump(1) + "\n");
  }

  const Request& request_;
  std::shared_ptr<Engine> engine_;
  int64_t from_, to_;
  Progress progress_;
  Json json_;
  size_t cliffs_ = 0;
  double steepest_ = 0;
  std::string where_;
};

}  // namespace

int command_cliffs(const Request& request, int64_t from, int64_t to) {
  check_request(request);
  return Cliffs(request, from, to).run();
}

}  // namespace tile::bench
