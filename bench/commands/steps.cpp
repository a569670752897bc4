// `tile-bench steps FILE`: loops of steps beside as many single runs.
#include <cstdio>
#include <iostream>

#include "bench/commands/program_file.h"
#include "bench/measure/prepared.h"
#include "bench/report/progress.h"
#include "runtime/cli/arguments.h"
#include "runtime/engine/steps/time_steps.h"

namespace tile::bench {
namespace {

std::string name_of(const Executable& e, TensorId id) { return e.bound.tensors[id].name; }

// OUTPUT=INPUT by their numbers.
std::vector<Feed> feeds_of(const Executable& e, const std::vector<std::string>& given) {
  std::vector<Feed> feeds;
  for (const std::string& pair : cli::feed_pairs(given)) {
    size_t at = pair.find('=');
    std::optional<size_t> output, input;
    for (size_t i = 0; i < e.bound.outputs.size() && at != std::string::npos; ++i) {
      if (name_of(e, e.bound.outputs[i]) == pair.substr(0, at)) output = i;
    }
    for (size_t i = 0; i < e.bound.inputs.size() && at != std::string::npos; ++i) {
      if (name_of(e, e.bound.inputs[i]) == pair.substr(at + 1)) input = i;
    }
    if (!output || !input) {
      fail(Stage::run, "argument", {}, "\"" + pair + "\" is not OUTPUT=INPUT of the program");
    }
    feeds.push_back({*output, *input});
  }
  if (feeds.empty()) feeds.push_back({0, 0});
  check_feeds(e, feeds);
  return feeds;
}

// As many runs as there are steps, the way a host makes them: what is fed alternates between two
// tensors.
class SingleRuns {
 public:
  SingleRuns(const Prepared& p, std::vector<Feed> feeds, int64_t steps)
      : e_(p.executable()), feeds_(std::move(feeds)), steps_(steps) {
    for (const Tensor& t : p.inputs()) inputs_.push_back(t.view());
    for (const Tensor& t : p.outputs()) {
      memory_.emplace_back(InputType{t.type(), t.shape()});
      memory_.emplace_back(InputType{t.type(), t.shape()});
    }
  }
  void run() const {
    std::vector<TensorView> inputs = inputs_, outputs(memory_.size() / 2);
    for (int64_t step = 0; step < steps_; ++step) {
      for (size_t o = 0; o < outputs.size(); ++o) {
        outputs[o] = memory_[2 * o + static_cast<size_t>(step % 2)].view();
      }
      tile::run(e_, inputs, outputs);
      for (const Feed& feed : feeds_) inputs[feed.input] = outputs[feed.output];
    }
  }

 private:
  const Executable& e_;
  std::vector<Feed> feeds_;
  int64_t steps_;
  std::vector<TensorView> inputs_;
  std::vector<Tensor> memory_;
};

}  // namespace

int command_steps(const Request& request, const FileArguments& arguments,
                  const StepsOptions& options) {
  check_request(request);
  cli::Options on = request.engine;
  if (on.backend == "auto") on.backend = "cpu";
  std::shared_ptr<Engine> engine = cli::make_engine(on);
  if (engine->session() != nullptr) {
    fail(Stage::run, "argument", {}, "steps are timed on the CPU", "add --backend cpu");
  }
  std::optional<std::string> file = program_file(request.names);
  if (!file) fail(Stage::run, "argument", {}, "name the file of a program");
  Progress progress;
  progress.show(*file + ": compiling");
  std::vector<Prepared> all;
  all.push_back(prepared_file(engine, *file, arguments.shapes));
  const bool loop = !options.loop.empty();
  if (loop) all.push_back(prepared_file(engine, options.loop, arguments.shapes));
  const Executable& step = all[0].executable();
  std::vector<Feed> feeds = feeds_of(step, options.feeds);
  SingleRuns single(all[0], feeds, options.steps);
  std::vector<TensorView> inputs = views(all[0].inputs()), outputs = views(all[0].outputs());
  auto count = static_cast<uint64_t>(options.steps);
  std::vector<Contender> contenders = {
      {"single runs", timed([&] { single.run(); })},
      {"one call", timed([&] { run_steps(step, inputs, outputs, feeds, count); })}};
  if (loop) contenders.push_back({options.loop, timed([&] { all[1].run(); })});
  std::vector<Times> times = interleave(contenders, request.timing, [&](int round) {
    progress.show(*file + ": round " + std::to_string(round + 1));
  });
  progress.clear();
  std::cout << engine->device() << "\n";
  for (size_t i = 0; i < contenders.size(); ++i) {
    char text[160];
    std::snprintf(
        text, sizeof text, ": %.3f us a step at least, %.3f times as long as single runs\n",
        times[i].least() / 1e3 / static_cast<double>(options.steps), in_turns(times[i], times[0]));
    std::cout << contenders[i].name << text;
  }
  return 0;
}

}  // namespace tile::bench
