// The `tile` program.
#include <CLI/CLI.hpp>
#include <iostream>

#include "runtime/cli/commands.h"
#include "runtime/cli/conform.h"
#include "tile/tile.h"

namespace tile::cli {
namespace {

void add_common(CLI::App& app, Options& options) {
  app.add_option("--backend", options.backend,
                 "auto, cpu, cuda, cuda:N (GPU number N) or reference")
      ->capture_default_str();
  app.add_option("--features", options.features,
                 "a narrower CPU: avx512, avx2, sse; or a GPU to make code for: sm_80, sm_90a");
  app.add_option("--threads", options.threads, "worker threads (default: all)");
  app.add_flag("--strict-skip", options.strict_skip,
               "compute no skipped point with a zero factor (rule 4.12; the CPU never does)");
  app.add_option("--precision", options.precision,
                 "of f32 products on a GPU's tensor cores: f32 (none), tf32 or 3xtf32")
      ->capture_default_str();
  app.add_flag("!--no-warnings", options.warnings,
               "do not say what is valid in the program but surely not meant");
  app.add_flag("--verbose", options.verbose, "log cache events to standard error");
  app.add_option_function<std::string>(
         "--diagnostics",
         [&options](const std::string& form) { options.json_diagnostics = form == "json"; },
         "text or json")
      ->check(CLI::IsMember({"text", "json"}));
}

void pass_options(CLI::App& app, Options& options) {
  app.add_flag("--time-passes{text}", options.time_passes,
               "compile without the disk cache and print where the time went: text or =json")
      ->check(CLI::IsMember({"text", "json"}));
  app.add_flag("--print-changed", options.print_changed,
               "print the program, kernel or nest after every pass that changed it");
}
void skip_option(CLI::App& app, Options& options) {
  app.add_option("--skip-pass", options.skip_passes,
                 "leave out an optional pass (`tile passes` lists them)")
      ->allow_extra_args(false);
}

void mesh_options(CLI::App& app, MeshArguments& mesh) {
  app.add_option("--mesh", mesh.mesh, "ranks in a grid with named axes: x=2,y=4");
  app.add_option("--layout", mesh.layouts,
                 "which axes cut which dimensions, as in 'A[x,*] B[*,y]' (default: spread)");
}

struct Command {
  Options options;
  RunArguments run;
  std::vector<std::string> files;
  Inputs inputs;
  ExplainArguments explain;
  MeshArguments mesh;  // of emit and of conformance cases
  std::string stage = "program", filter, of, wrt, action = "show";
};

void file_option(CLI::App* sub, Command& c) {
  sub->add_option("file", c.run.file, "program text")->required();
  sub->add_option("--lang", c.options.language, "tile, mfg or lift (default: by suffix)");
  add_common(*sub, c.options);
  skip_option(*sub, c.options);
}
constexpr const char* kConstants = "an input that stays the same in every run: packed once";
void shape_option(CLI::App* sub, Command& c) {
  sub->add_option("--shape", c.inputs.shapes, "NAME=2x3:f32 for each input");
  sub->add_option("--constant", c.inputs.constants, kConstants);
  pass_options(*sub, c.options);
}

int report(const Options& options, const Diagnostic& diagnostic, const Source& source) {
  std::cerr << (options.json_diagnostics ? render_json(diagnostic, source) + "\n"
                                         : render(diagnostic, source));
  return 1;
}
int report_plain(const Options& options, const Diagnostic& d) {
  if (options.json_diagnostics) return report(options, d, Source{"tile", ""});
  std::cerr << "tile: " << d.message << "\n";
  if (!d.hint.empty()) std::cerr << " hint: " << d.hint << "\n";
  return 1;
}

template <class Work>
int reported(const Options& options, Work&& work) {
  try {
    return work();
  } catch (const Located& e) {
    if (e.diagnostic.code == "argument") return report_plain(options, e.diagnostic);
    return report(options, e.diagnostic, *e.source);
  } catch (const Failure& e) {
    return report_plain(options, e.diagnostic());
  } catch (const std::bad_alloc&) {
    return report_plain(options, {Stage::run, "memory", "out of memory", "", {}});
  } catch (const std::exception& e) {
    return report_plain(options, {Stage::run, "internal", e.what(), "", {}});
  }
}

std::string version() {
  return "tile " + std::to_string(TILE_VERSION_MAJOR) + "." + std::to_string(TILE_VERSION_MINOR) +
         "." + std::to_string(TILE_VERSION_PATCH);
}

// One function: a paragraph for each command, all over the same arguments.
int main_of(int argc, char** argv) {
  CLI::App app{"Tile JIT: tensor programs from text"};
  app.require_subcommand(1);
  app.set_version_flag("--version", version());
  Command c;
  std::function<int()> chosen;
  auto choose = [&](CLI::App* sub, std::function<int()> work) {
    sub->callback([&chosen, work] { chosen = work; });
  };

  CLI::App* check = app.add_subcommand("check", "parse, and with shapes bind and compile");
  file_option(check, c);
  shape_option(check, c);
  choose(check, [&] { return command_check(c.run.file, c.inputs, c.options); });

  CLI::App* run = app.add_subcommand("run", "run a program on files");
  file_option(run, c);
  run->add_option("--in", c.run.in, "NAME=a.npy|a.png|a.jpg|random:64x64[:f32]|iota:...");
  pass_options(*run, c.options);
  run->add_option("--param", c.run.param, "NAME=VALUE run-time parameters");
  run->add_option("--out", c.run.out, "NAME=o.npy|o.png|-");
  run->add_option("--constant", c.run.constants, kConstants);
  run->add_option("--repeat", c.run.repeat, "run N times and report times");
  run->add_flag("--profile", c.run.profile, "time each kernel and say what bounds it");
  run->add_option("--grad", c.run.gradient_of,
                  "OUTPUT:INPUT,... adds gradients; the seed is an input");
  mesh_options(*run, c.run.mesh);
  choose(run, [&] { return command_run(c.run, c.options); });

  CLI::App* emit = app.add_subcommand("emit", "print the program after a stage");
  file_option(emit, c);
  shape_option(emit, c);
  emit->add_option(
          "--stage", c.stage,
          "program, bound, reduced, kernels, schedule, nest, llvm, asm, cuda, ptx, sass, or "
          "after:PASS")
      ->capture_default_str();
  mesh_options(*emit, c.mesh);
  choose(emit, [&] { return command_emit(c.run.file, c.inputs, c.stage, c.mesh, c.options); });

  CLI::App* explain = app.add_subcommand(
      "explain", "say what each kernel became, why, and what the cost model counts");
  file_option(explain, c);
  shape_option(explain, c);
  explain->add_flag("--json", c.explain.json, "the cost model's terms as JSON");
  explain->add_flag("--measure", c.explain.measure,
                    "run on random inputs, and tell the time of each kernel beside its estimate");
  mesh_options(*explain, c.explain.mesh);
  explain
      ->add_option("--latency", c.explain.mesh.link.latency_ns,
                   "of a message between ranks, in nanoseconds")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  explain
      ->add_option("--bandwidth", c.explain.mesh.link.bytes_per_ns, "of a rank's messages, in GB/s")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  choose(explain, [&] { return command_explain(c.run.file, c.inputs, c.explain, c.options); });

  CLI::App* grad = app.add_subcommand("grad", "print the program of gradients");
  file_option(grad, c);
  grad->add_option("--of", c.of, "output to differentiate")->required();
  grad->add_option("--wrt", c.wrt, "inputs, separated by commas")->required();
  choose(grad, [&] { return command_grad(c.run.file, c.of, c.wrt, c.options); });

  CLI::App* conformance = app.add_subcommand("conform", "run conformance cases");
  conformance->add_option("files", c.files, "JSON files of cases")->required();
  conformance->add_option("--filter", c.filter, "only cases whose name contains this");
  add_common(*conformance, c.options);
  skip_option(*conformance, c.options);
  conformance->add_option("--mesh", c.mesh.mesh, "run each case divided among these ranks");
  choose(conformance, [&] { return command_conform(c.files, c.filter, c.mesh, c.options); });

  CLI::App* passes = app.add_subcommand("passes", "list the passes of the compiler, in order");
  choose(passes, [&] { return command_passes(); });

  CLI::App* cache = app.add_subcommand("cache", "show or clear the disk cache");
  cache->add_option("action", c.action, "show or clear")->check(CLI::IsMember({"show", "clear"}));
  choose(cache, [&] { return command_cache(c.action); });

  CLI::App* devices = app.add_subcommand("devices", "list what programs can run on");
  add_common(*devices, c.options);
  devices->add_flag(
      "--measure", c.options.measure,
      "measure this CPU's rates, which the cost model counts with, where none are stored");
  choose(devices, [&] { return command_devices(c.options); });

  CLI11_PARSE(app, argc, argv);
  return reported(c.options, chosen);
}

}  // namespace
}  // namespace tile::cli

int main(int argc, char** argv) { return tile::cli::main_of(argc, argv); }
