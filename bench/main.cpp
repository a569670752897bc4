// The `tile-bench` program.
#include <CLI/CLI.hpp>
#include <iostream>

#include "bench/commands/commands.h"
#include "bench/commands/program_file.h"
#include "bench/commands/study_shapes.h"
#include "bench/measure/workload.h"
#include "bench/peers/peer.h"
#include "runtime/cli/table/table_commands.h"

namespace tile::bench {
namespace {

void add_common(CLI::App& app, Request& r) {
  app.add_option("names", r.names, "benchmarks (default: all)");
  app.add_option("--filter", r.filter,
                 "only benchmarks whose name contains this, or whose folder it is");
  app.add_option("--workloads", r.folder, "folder of *.tile, *.lift and *.mfg files")
      ->capture_default_str();
}

void add_engine(CLI::App& app, Request& r) {
  app.add_option("--backend", r.engine.backend, "auto, cpu, cuda, cuda:N or reference")
      ->capture_default_str();
  app.add_option("--precision", r.engine.precision,
                 "of f32 products on a GPU's tensor cores: f32, tf32 or 3xtf32")
      ->capture_default_str();
  app.add_option("--features", r.engine.features, "a narrower CPU: avx512, avx2, sse");
  app.add_option("--threads", r.engine.threads, "worker threads (default: all)");
}

void add_file(CLI::App& app, Request& r) {
  auto* json =
      app.add_option("--json", r.json, "write the results to this file (-: standard output)");
  app.add_flag("--resume", r.resume, "keep what the file already holds and measure the rest")
      ->needs(json);
}

void add_peers(CLI::App& app, Request& r, const std::string& what) {
  app.add_flag("--peers", r.peers, what);
  app.add_option("--peer", r.peer_names, "the same, only this one")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->each([&r](const std::string&) { r.peers = true; });
  app.add_flag("--small", r.small, "networks at the sizes that tests compare at");
}

void add_timing(CLI::App& app, Request& r) {
  add_engine(app, r);
  add_peers(app, r, "time other libraries in turns with ours");
  app.add_flag("!--no-check", r.check, "do not compare values first");
  add_file(app, r);
  app.add_option("--html", r.html, "draw the results as a page of its own");
  app.add_option("--rounds", r.timing.rounds, "timed rounds")->capture_default_str();
  app.add_option("--round-ms", r.timing.round_ms, "length of a round")->capture_default_str();
  auto quick = [&r] {
    r.timing = {5, 5, 1500, 20};
    r.quick = true;
  };
  app.add_flag_callback("--quick", quick, "few and short rounds, no large cases");
}

// What the commands take beside a request.
struct Arguments {
  double budget_ms = 5000;
  std::string before, after;  // files of results
  double threshold = 0.05;
  std::string page;
  StudyOptions study;
  SizesOptions sizes;
  FileArguments file;
  StepsOptions steps;
  int64_t from = 64, to = 300;
};

void add_compare(CLI::App& app, Arguments& a) {
  app.add_option("before", a.before, "JSON of the earlier run")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("after", a.after, "JSON of the later run")->required()->check(CLI::ExistingFile);
  app.add_option("--threshold", a.threshold, "smaller changes are none")->capture_default_str();
}

void add_study(CLI::App& app, Request& request, StudyOptions& options) {
  add_engine(app, request);
  add_file(app, request);
  app.add_option("--filter", request.filter, "only shapes whose name contains this");
  app.add_option("--shapes", options.shapes, "random shapes")->capture_default_str();
  app.add_option("--seed", options.seed, "of the shapes")->capture_default_str();
  app.add_option("--race-ms", options.race_ms, "budget of a race")->capture_default_str();
  app.add_option("--scale", options.scale, "of every size; 1 suits two cores of a CPU, 3 a GPU")
      ->check(CLI::Range(kLeastScale, kMostScale))
      ->capture_default_str();
  app.add_option("--multiple", options.multiple, "that every size is; 8 is usual for networks")
      ->check(CLI::Range(int64_t{1}, kMostMultiple))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--type", [&](const std::string& type) { options.type = *parse_dtype(type); },
         "of all inputs: f32, bf16 or f16")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}))
      ->default_str("f32");
  app.add_flag("--trace", options.trace,
               "write every measured schedule, beside the model's estimate");
  app.add_option("--again", options.again,
                 "a file of an earlier study with --trace: what today's model would pick of it")
      ->check(CLI::ExistingFile);
  app.add_option("--least", options.least,
                 "with --again: status 1 where the picks' mean share of the best is below this");
  app.add_option("--seconds", options.seconds, "of measuring schedules, each kernel")
      ->capture_default_str();
}

void add_sizes(CLI::App& app, Request& request, SizesOptions& options) {
  add_engine(app, request);
  app.add_option("--json", request.json, "write the results to this file");
  app.add_option("--filter", request.filter, "only networks whose name contains this");
  app.add_option("--from", options.from, "first size")->capture_default_str();
  app.add_option("--to", options.to, "last size")->capture_default_str();
  app.add_option("--seed", options.seed, "of the order of sizes")->capture_default_str();
  app.add_flag("--kernels", options.kernels,
               "time each kernel at the size where shared and own code are farthest apart");
  app.add_flag("!--no-times", options.times, "do not time shared code beside a size's own");
}

CLI::App* add_accuracy(CLI::App& app, Request& request) {
  CLI::App* accuracy = app.add_subcommand(
      "accuracy", "how far results of f32 are from those of f64; exits 1 where they are too far");
  add_common(*accuracy, request);
  add_engine(*accuracy, request);
  add_peers(*accuracy, request, "other libraries' results too, of f32 and of f64");
  accuracy->add_flag("--quick", request.quick, "no large cases");
  accuracy->add_option("--json", request.json, "write the results to this file");
  return accuracy;
}

CLI::App* add_cliffs(CLI::App& app, Request& request, Arguments& a) {
  CLI::App* cliffs =
      app.add_subcommand("cliffs", "products whose sizes grow by one; exits 1 at a cliff");
  add_engine(*cliffs, request);
  add_file(*cliffs, request);
  cliffs->add_option("--from", a.from, "first size")->capture_default_str();
  cliffs->add_option("--to", a.to, "last size")->capture_default_str();
  return cliffs;
}

void add_tune(CLI::App& app, Request& request, Arguments& a) {
  CLI::App* tune = app.add_subcommand("tune", "time benchmarks before and after racing schedules");
  add_common(*tune, request);
  add_timing(*tune, request);
  tune->add_flag("--schedules", request.schedules, "print the schedules that were found");
  tune->add_option("--budget", a.budget_ms, "milliseconds of running candidates, each benchmark")
      ->capture_default_str();
}

CLI::App* add_steps(CLI::App& all, Request& request, Arguments& a) {
  CLI::App& app = *all.add_subcommand("steps", "loops of steps beside as many single runs");
  app.add_option("file", request.names, "a program: one step")->required()->expected(1);
  add_engine(app, request);
  app.add_option("--shape", a.file.shapes, "NAME=2x3:f32 for each input");
  app.add_option("--steps", a.steps.steps, "in one call")
      ->check(cli::positive())
      ->capture_default_str();
  app.add_option("--feed", a.steps.feeds,
                 "OUTPUT=INPUT: an output that is the next step's input (default: the first ones)");
  app.add_option("--loop", a.steps.loop, "a program that makes as many steps by itself");
  app.add_option("--rounds", request.timing.rounds, "timed rounds")->capture_default_str();
  return &app;
}

// Some options are for a program's file, some for named benchmarks.
void check_options(const Request& request, const FileArguments& own, bool is_file) {
  auto refuse = [](const std::string& option, const std::string& hint) {
    fail(Stage::run, "argument", {}, option, hint);
  };
  if (is_file && request.peers) {
    refuse("--peers: no other library has a program of one's own", "time another: --against FILE");
  }
  if (!is_file && (!own.shapes.empty() || !own.against.empty())) {
    refuse("--shape and --against are for the file of a program, not for named benchmarks",
           "tile-bench run FILE.tile --shape A=64x64");
  }
}

int main_of(int argc, char** argv) {
  CLI::App app(
      "Measures Tile programs: time, arithmetic or memory rate, share of what this "
      "machine can do.",
      "tile-bench");
  app.require_subcommand(1);
  Request request;
  request.engine.measure = true;
  request.folder = default_folder();
  Arguments a;
  CLI::App* list = app.add_subcommand("list", "names and shapes of the benchmarks");
  add_common(*list, request);
  CLI::App* run = app.add_subcommand("run", "time benchmarks");
  add_common(*run, request);
  add_timing(*run, request);
  run->add_option("--tune", request.tune_ms, "race schedules for so many milliseconds first");
  run->add_option("--kernels", request.kernels,
                  "print so many kernels of each benchmark, slowest first");
  run->add_option("--shape", a.file.shapes,
                  "NAME=2x3:f32 for each input: the name is then the file of any program");
  run->add_option("--against", a.file.against, "another program of the same inputs, in turns");
  add_tune(app, request, a);
  CLI::App* accuracy = add_accuracy(app, request);
  CLI::App* compare =
      app.add_subcommand("compare", "two files of results; exits 1 if a benchmark is slower");
  add_compare(*compare, a);
  CLI::App* report = app.add_subcommand("report", "draw a file of results as a page of its own");
  report->add_option("json", a.before, "JSON of a run")->required()->check(CLI::ExistingFile);
  report->add_option("html", a.page, "the page")->required();
  CLI::App* study =
      app.add_subcommand("study", "the picks of model and race against all schedules");
  add_study(*study, request, a.study);
  CLI::App* cliffs = add_cliffs(app, request, a);
  CLI::App* sizes = app.add_subcommand(
      "sizes", "networks at every size: codes, first calls; exits 1 where they are too many");
  add_sizes(*sizes, request, a.sizes);
  CLI::App* steps = add_steps(app, request, a);
  cli::TableRequest table;
  CLI::App *complete = cli::add_completion(app, table), *manual = cli::add_manual(app, table);
  if (std::optional<int> status = cli::parsed(app, argc, argv)) return *status;
  if (complete->parsed()) return cli::print_completion(app, table);
  if (manual->parsed()) return cli::print_manual(app, table, examples_of);
  if (steps->parsed()) return command_steps(request, a.file, a.steps);
  if (study->parsed()) return command_study(request, a.study);
  if (sizes->parsed()) return command_sizes(request, a.sizes);
  if (cliffs->parsed()) return command_cliffs(request, a.from, a.to);
  if (compare->parsed()) return command_compare(a.before, a.after, a.threshold);
  if (report->parsed()) return command_report(a.before, a.page);
  if (request.peers) settle_environment(argv);
  if (list->parsed()) return command_list(request);
  if (accuracy->parsed()) return command_accuracy(request);
  if (run->parsed()) {
    std::optional<std::string> file = program_file(request.names);
    check_options(request, a.file, file.has_value());
    return file ? command_run_file(request, *file, a.file) : command_run(request);
  }
  request.tune_ms = a.budget_ms;
  return command_tune(request);
}

int reported(int argc, char** argv) {
  try {
    return main_of(argc, argv);
  } catch (const cli::Located& e) {
    std::cerr << render(e.diagnostic, *e.source);
  } catch (const Failure& e) {
    std::cerr << "tile-bench: " << e.what() << "\n";
    if (!e.diagnostic().hint.empty()) std::cerr << " hint: " << e.diagnostic().hint << "\n";
  } catch (const std::exception& e) {
    std::cerr << "tile-bench: " << e.what() << "\n";
  }
  return 1;
}

}  // namespace
}  // namespace tile::bench

// The whole program `tile-bench`; start.c calls it. In the portable build it is a part of
// libtile.so, as `tile` is.
extern "C" [[gnu::visibility("default")]] int private_tile_bench_main(int argc, char** argv) {
  return tile::bench::reported(argc, argv);
}
