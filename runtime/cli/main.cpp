// The `tile` program.
#include <CLI/CLI.hpp>
#include <iostream>

#include "runtime/cli/commands.h"
#include "runtime/cli/conform.h"
#include "runtime/cli/error_text.h"
#include "runtime/cli/lsp/server.h"
#include "runtime/cli/records_command.h"
#include "runtime/cli/table/table_commands.h"
#include "runtime/cli/tools/tools.h"
#include "runtime/cli/tune_command.h"
#include "tile/tile.h"

namespace tile::cli {
namespace {

void add_common(CLI::App& app, Options& options) {
  app.add_option("--backend", options.backend,
                 "auto, cpu, cuda, cuda:N (GPU number N) or reference")
      ->capture_default_str();
  app.add_option("--features", options.features,
                 "a narrower CPU: avx512, avx2, sse; or a GPU to make code for: sm_80, sm_90a");
  app.add_option("--threads", options.threads, "worker threads, 1 to 1024 (default: all)");
  app.add_flag("--strict-skip", options.strict_skip,
               "compute no skipped point with a zero factor (rule 4.12; the CPU never does)");
  app.add_option("--precision", options.precision,
                 "of f32 products on a GPU's tensor cores: f32 (none), tf32 or 3xtf32")
      ->capture_default_str();
  app.add_option("--memory-limit", options.memory_limit,
                 "bytes that a run may take beside its tensors; what would need more stores less "
                 "and computes it again (default: the machine's memory)");
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
               "compile without the disk cache and print where the time went, a table or JSON")
      ->check(CLI::IsMember({"text", "json"}))
      ->option_text("[=text|json]");
  app.add_flag("--print-changed", options.print_changed,
               "print the program, kernel or nest after every pass that changed it");
}
void skip_option(CLI::App& app, Options& options) {
  app.add_option("--skip-pass", options.skip_passes,
                 "leave out an optional pass (`tile passes` lists them)")
      ->delimiter(',')
      ->allow_extra_args(false);
}

constexpr const char* kMesh = "ranks in a grid with named axes: x=2,y=4";
void overlap_option(CLI::App& app, MeshArguments& mesh, CLI::Option* mesh_option) {
  app.add_option("--overlap", mesh.overlap,
                 "whether ranks compute while parts travel: auto (where that is expected to take "
                 "less time), always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str()
      ->needs(mesh_option);
}
// `without`: options that say nothing of a program on a mesh.
CLI::Option* mesh_options(CLI::App& app, MeshArguments& mesh,
                          std::initializer_list<const char*> without) {
  CLI::Option* option = given(app.add_option("--mesh", mesh.mesh, kMesh));
  given(app.add_option(
            "--layout", mesh.layouts,
            "which axes cut which dimensions, as in 'A[x,*] B[*,y]'; others are chosen, "
            "or, with `follow` in it, divided alike (default: spread; `auto`: all chosen)"))
      ->join(' ')
      ->needs(option);
  for (const char* name : without) option->excludes(app.get_option(name));
  overlap_option(app, mesh, option);
  return option;
}
CLI::Option* transport_options(CLI::App& app, MeshArguments& mesh, CLI::Option* mesh_option) {
  CLI::Option* option = given(app.add_option(
      "--transport", mesh.transport,
      "ranks that are processes: mpi (the plug-in that TILE_MPI names), or the path of a "
      "plug-in (default: threads of this process)"));
  option->needs(mesh_option);
  app.add_option("--rank-timeout", mesh.timeout_seconds, "seconds that a silent rank is waited for")
      ->check(positive())
      ->capture_default_str()
      ->needs(option);
  return option;
}

struct Command {
  Options options;
  RunArguments run;
  FormatArguments format;
  WatchArguments watch;
  bool json = false;
  std::vector<std::string> files;
  Inputs inputs;
  ExplainArguments explain;
  MeshArguments mesh;  // of emit and of conformance cases
  std::string stage = "program", filter, of, wrt, action = "show", language;
  TableRequest table;
  TuneArguments tune;
  RecordsArguments records;
};

void file_option(CLI::App* sub, Command& c) {
  given(sub->add_option("file", c.run.file, "program text")->required());
  given(sub->add_option("--lang", c.options.language, "tile, mfg or lift (default: by suffix)"));
  add_common(*sub, c.options);
  skip_option(*sub, c.options);
}
// What the values of --in, --out and --shape are: shown behind the options.
constexpr const char* kValues =
    R"(Shapes are extents with x between them, and behind a colon the element type:
  A=64x32:f32   two dimensions, 64 by 32       A=8      one dimension of 8
  A=scalar      no dimension: one element      A=scalar:i32
Values are files, random:SHAPE, iota:SHAPE, or numbers: A=0.5, A=[1, 2, 3], A=[[1, 2], [3, 4]]:i32
Without a type the elements are f32. Types: bool, i8 to i64, u8 to u64, f8e4m3, f8e5m2, f16, bf16,
f32, f64.)";
constexpr uint64_t kMostSteps = 1'000'000'000'000'000'000;  // fewer than 64 bits count
constexpr uint64_t kMostRuns = 1'000'000'000;               // of one program, in one call
constexpr const char* kConstants = "an input that stays the same in every run: packed once";
void shape_option(CLI::App* sub, Command& c) {
  sub->add_option("--shape", c.inputs.shapes, "NAME=2x3:f32 for each input");
  sub->add_option("--constant", c.inputs.constants, kConstants)->delimiter(',');
  pass_options(*sub, c.options);
  sub->footer(kValues);
}

constexpr const char* kRunValues =
    R"(Inputs are files, or made here:
  A=a.npy            an array of NumPy, with its shape and type
  A=a.png, A=a.jpg   a picture: u8 [height, width, channels], or as an MFG filter takes it
  A=random:64x32     numbers in [-1, 1), small integers for an integer type: each time the same
                     for an input of this name, others for another name
  A=iota:2x3:i32     0, 1, 2, ...
  A=ones:2x3         1, 1, 1, ...; zeros:2x3 is 0, 0, 0, ...
  A=iota:scalar      one element without a dimension
  A=picture:48x64    colours and squares, as a picture file of 48 rows and 64 columns gives them
Outputs go to o.npy, o.png, o.jpg, or as text to - (standard output), where a line with the name
stands above each if there are several. Without --out each output's name, type, shape and range of
values are printed. A picture's u8 values are written as they are;
others are mapped from --range, else from 0:1, to black and white, and stay at the ends outside.

--grad O:A,B adds the outputs DA and DB, gradients by A and B, and an input DO, the seed: the gradient
of the final result with respect to each cell of O, of O's shape. Where the final result is the sum
of O's cells the seed is ones: --in DO=ones:4x2.)";

void run_options(CLI::App* run, Command& c) {
  file_option(run, c);
  run->add_option("--in", c.run.in, "NAME=a.npy|a.png|a.jpg|random:64x64[:f32]|iota:...");
  pass_options(*run, c.options);
  run->add_option("--param", c.run.param, "NAME=VALUE run-time parameters");
  run->add_option("--out", c.run.out, "NAME=o.npy|o.png|o.jpg|-");
  run->add_option("--range", c.run.ranges,
                  "[NAME=]LOW:HIGH or auto: the values that are black and white in a picture");
  run->add_option("--constant", c.run.constants, kConstants)->delimiter(',');
  given(run->add_option("--grad", c.run.gradient_of,
                        "OUTPUT:INPUT,... adds the gradients of the final result by these inputs, "
                        "given that by OUTPUT: the seed, an input DOUTPUT"))
      ->join(',');
  run->footer(kRunValues);
}

constexpr const char* kSeed =
    R"(The program that is printed has one more input, the seed: DO for --of O, of O's shape. It is the
gradient of the final result with respect to each cell of O: ones where the final result is the sum
of O's cells, as in `tile run gradients.tile --in DO=ones:4x2 ...`; for another final result what
its own program has as the gradient by O.)";

using Choose = std::function<void(CLI::App*, std::function<int()>)>;

void add_tune(CLI::App& app, Command& c, const Choose& choose) {
  CLI::App* tune = app.add_subcommand("tune", "race schedules of a program's kernels");
  file_option(tune, c);
  shape_option(tune, c);
  tune->add_option("--seconds", c.tune.seconds,
                   "time for it (default: 10, or with --share until all is done)")
      ->check(positive());
  CLI::Option* share =
      given(tune->add_option("--share", c.tune.share,
                             "a directory in which many workers, on any machines, share the work"));
  tune->add_option("--candidates", c.tune.candidates, "of each kernel, with --share")
      ->capture_default_str()
      ->needs(share);
  tune->add_option("--confirm", c.tune.confirmations,
                   "machines that race each kernel's best in turns, with --share")
      ->capture_default_str()
      ->needs(share);
  tune->add_flag("--json", c.tune.json, "what was found, as JSON");
  choose(tune, [&c] { return command_tune(c.run.file, c.inputs, c.tune, c.options); });
}

void add_records(CLI::App& app, Command& c, const Choose& choose) {
  CLI::App* records = app.add_subcommand("records", "list, move and check what tuning left");
  records->require_subcommand(1);
  auto add = [&](const char* action, const char* what) {
    CLI::App* sub = records->add_subcommand(action, what);
    add_common(*sub, c.options);
    skip_option(*sub, c.options);
    choose(sub, [&c, action] {
      c.records.action = action;
      return command_records(c.records, c.options);
    });
    return sub;
  };
  constexpr const char* kHere = "of this machine's processor alone";
  constexpr const char* kNoRace = "race nothing again";
  CLI::App* list = add("list", "the best schedule of each kernel on record");
  list->add_option("files", c.records.files, "files of records (default: the store)");
  list->add_flag("--all", c.records.all, "every schedule on record");
  list->add_flag("--here", c.records.here, kHere);
  list->add_flag("--json", c.records.json, "as JSON");
  CLI::App* out = add("export", "write the store's records to a file");
  given(out->add_option("to", c.records.to, "the file, or -")->required());
  out->add_flag("--here", c.records.here, kHere);
  CLI::App* in = add("import", "add files of records to the store; near ties are raced again");
  in->add_option("files", c.records.files, "files of records")->required();
  in->add_flag("!--no-race", c.records.race, kNoRace);
  CLI::App* merge = add("merge", "make one file of several; near ties are raced again");
  given(merge->add_option("to", c.records.to, "the file that is written, or -")->required());
  merge->add_option("files", c.records.files, "files of records")->required();
  merge->add_flag("!--no-race", c.records.race, kNoRace);
  CLI::App* verify = add("verify", "race every record against the model's pick again");
  verify->add_option("files", c.records.files, "files of records (default: the store)");
  verify->add_flag("--json", c.records.json, "as JSON");
}

template <class Work>
int reported(const Options& options, Work&& work) {
  try {
    return work();
  } catch (...) {
    std::cerr << error_text(std::current_exception(), options).text;
    return 1;
  }
}

using Choose = std::function<void(CLI::App*, std::function<int()>)>;

// The commands for those who write programs.
void add_writing_tools(CLI::App& app, Command& c, const Choose& choose) {
  CLI::App* fmt = app.add_subcommand("fmt", "format programs in place");
  fmt->add_option("files", c.format.files, "programs; - formats standard input")->required();
  fmt->add_option("--lang", c.format.language, "tile, mfg or lift (default: by suffix)");
  fmt->add_flag("--check", c.format.check,
                "change nothing; print the names of files that are not formatted, status 1");
  choose(fmt, [&c] { return command_fmt(c.format); });

  CLI::App* fresh = app.add_subcommand("new", "write a commented program to start from");
  fresh->add_option("language", c.language, "of the program")
      ->required()
      ->check(CLI::IsMember({"tile", "mfg", "lift"}));
  given(fresh->add_option("file", c.run.file, "to be written (default: start.LANGUAGE)"));
  choose(fresh, [&c] { return command_new(c.language, c.run.file); });

  CLI::App* watch = app.add_subcommand("watch", "run a program, and again whenever it is saved");
  run_options(watch, c);
  given(watch->add_option("--html", c.watch.html,
                          "a page with the pictures before and after, for a browser"));
  watch->add_option("--runs", c.watch.runs, "end after so many runs (default: never)")
      ->check(whole_number(1, kMostRuns));
  choose(watch, [&c] { return command_watch(c.run, c.watch, c.options); });
}

void add_services(CLI::App& app, Command& c, const Choose& choose) {
  CLI::App* doctor = app.add_subcommand(
      "doctor", "say what is found on this machine, what is missing, what is slow, and why");
  doctor->add_flag("--json", c.json, "as JSON");
  choose(doctor, [&c] { return command_doctor(c.json); });

  CLI::App* server = app.add_subcommand(
      "lsp", "serve an editor by the Language Server Protocol, over standard input and output");
  server->add_flag_callback("--stdio", [] {}, "the only way, and the default");
  choose(server, [] { return lsp::serve(std::cin, std::cout); });
}

// Also a command line that cannot be read to its end asks for it.
bool asks_for_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i], next = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--diagnostics=json" || (word == "--diagnostics" && next == "json")) return true;
  }
  return false;
}

// Without the values that a flag stands for, which CLI11 shows in braces behind its name.
struct HelpText : CLI::Formatter {
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    std::string name = CLI::Formatter::make_option_name(option, is_positional);
    return name.substr(0, name.find('{'));
  }
};

// One function: a paragraph for each command, all over the same arguments.
int main_of(int argc, char** argv) {
  CLI::App app{"Tile JIT: tensor programs from text", "tile"};
  app.formatter(std::make_shared<HelpText>());
  app.require_subcommand(1);
  app.set_version_flag("--version", program_version());
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
  run_options(run, c);
  run->add_option("--repeat", c.run.repeat, "run N times and report times")
      ->check(whole_number(1, kMostRuns));
  CLI::Option* steps =
      run->add_option("--steps", c.run.steps,
                      "run N steps in time: each reads what --feed says of the step before")
          ->check(whole_number(0, kMostSteps));
  given(run->add_option("--feed", c.run.feeds,
                        "OUTPUT=INPUT,...: outputs that are the next step's inputs (with --steps)"))
      ->needs(steps);
  run->add_flag("--profile", c.run.profile,
                "time each kernel, the least of several runs, and say what bounds it");
  CLI::Option* trace = given(
      run->add_option("--trace", c.run.trace,
                      "write what happened when to a file, for Perfetto or chrome://tracing"));
  CLI::Option* mesh = mesh_options(
      *run, c.run.mesh, {"--constant", "--profile", "--time-passes", "--print-changed", "--steps"});
  transport_options(*run, c.run.mesh, mesh)->excludes(trace);
  choose(run, [&] { return command_run(c.run, c.options); });

  CLI::App* emit = app.add_subcommand("emit", "print the program after a stage");
  file_option(emit, c);
  shape_option(emit, c);
  emit->add_option(
          "--stage", c.stage,
          "program, bound, reduced, kernels, schedule, nest, llvm, asm, cuda, ptx, sass, or "
          "after:PASS")
      ->capture_default_str();
  mesh_options(*emit, c.mesh, {"--stage", "--constant", "--time-passes", "--print-changed"});
  choose(emit, [&] { return command_emit(c.run.file, c.inputs, c.stage, c.mesh, c.options); });

  CLI::App* explain =
      app.add_subcommand("explain", "say what each kernel became, what it takes, and why");
  file_option(explain, c);
  shape_option(explain, c);
  explain->add_flag("--all", c.explain.all,
                    "all that is known of each kernel: domains, schedules, the model's terms");
  CLI::Option* one =
      given(explain->add_option("--kernel", c.explain.kernels,
                                "the same of one kernel: its number, or a tensor that it makes"))
          ->delimiter(',')
          ->allow_extra_args(false)
          ->excludes("--all");
  explain->add_flag("--json", c.explain.json, "everything as JSON")->excludes(one);
  explain->add_flag("--measure", c.explain.measure,
                    "run on random inputs, and tell the time of each kernel beside its estimate");
  CLI::Option* explained = mesh_options(*explain, c.explain.mesh,
                                        {"--all", "--kernel", "--json", "--measure", "--constant",
                                         "--time-passes", "--print-changed"});
  explain
      ->add_option("--latency", c.explain.mesh.link.latency_ns,
                   "of a message between ranks, in nanoseconds")
      ->check(not_negative())
      ->capture_default_str()
      ->needs(explained);
  explain
      ->add_option("--bandwidth", c.explain.mesh.link.bytes_per_ns, "of a rank's messages, in GB/s")
      ->check(positive())
      ->capture_default_str()
      ->needs(explained);
  choose(explain, [&] { return command_explain(c.run.file, c.inputs, c.explain, c.options); });

  CLI::App* grad = app.add_subcommand("grad", "print the program of gradients");
  file_option(grad, c);
  given(grad->add_option("--of", c.of, "output to differentiate")->required());
  given(grad->add_option("--wrt", c.wrt, "inputs, separated by commas or each with its own --wrt"))
      ->join(',')
      ->required();
  grad->footer(kSeed);
  choose(grad, [&] { return command_grad(c.run.file, c.of, c.wrt, c.options); });

  CLI::App* conformance = app.add_subcommand("conform", "run conformance cases");
  conformance->add_option("files", c.files, "JSON files of cases")->required();
  conformance->add_option("--filter", c.filter, "only cases whose name contains this");
  add_common(*conformance, c.options);
  skip_option(*conformance, c.options);
  CLI::Option* ranks = given(
      conformance->add_option("--mesh", c.mesh.mesh, "run each case divided among these ranks"));
  conformance
      ->add_option("--layout", c.mesh.layouts,
                   "auto or follow: what tensors get in place of spread inputs and outputs")
      ->check(CLI::IsMember({"auto", "follow"}))
      ->needs(ranks);
  overlap_option(*conformance, c.mesh, ranks);
  transport_options(*conformance, c.mesh, ranks);
  choose(conformance, [&] { return command_conform(c.files, c.filter, c.mesh, c.options); });

  CLI::App* passes = app.add_subcommand("passes", "list the passes of the compiler, in order");
  choose(passes, [&] { return command_passes(); });

  CLI::App* cache = app.add_subcommand("cache", "show or clear the disk cache");
  cache->add_option("action", c.action, "show or clear")->check(CLI::IsMember({"show", "clear"}));
  cache->add_flag("--json", c.json, "as JSON");
  choose(cache, [&] { return command_cache(c.action, c.json); });

  add_tune(app, c, choose);
  add_records(app, c, choose);

  CLI::App* devices = app.add_subcommand("devices", "list what programs can run on");
  add_common(*devices, c.options);
  devices->add_flag(
      "--measure", c.options.measure,
      "measure this CPU's rates, which the cost model counts with, where none are stored");
  devices->add_flag("--json", c.json, "as JSON");
  choose(devices, [&] { return command_devices(c.options, c.json); });
  add_writing_tools(app, c, choose);
  add_services(app, c, choose);
  choose(add_completion(app, c.table), [&] { return print_completion(app, c.table); });
  choose(add_manual(app, c.table), [&] { return print_manual(app, c.table, examples_of); });

  c.options.json_diagnostics = asks_for_json(argc, argv);
  return reported(c.options, [&] {
    if (std::optional<int> done = parsed(app, argc, argv)) return *done;
    int status = chosen();
    if (std::cout.flush()) return status;
    fail(Stage::run, "file", {}, "standard output cannot be written", "is the disk full?");
  });
}

}  // namespace
}  // namespace tile::cli

// The whole program `tile`; start.c calls it. In the portable build it is a part of libtile.so,
// which exports it for that alone, so that LLVM is there once.
extern "C" [[gnu::visibility("default")]] int private_tile_main(int argc, char** argv) {
  return tile::cli::main_of(argc, argv);
}
