#include "bench/commands/program_file.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <thread>

#include "bench/commands/session.h"
#include "bench/measure/prepared.h"
#include "bench/measure/workload.h"
#include "bench/report/html_report.h"
#include "bench/report/kernel_table.h"
#include "bench/report/progress.h"
#include "bench/report/results.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/files.h"
#include "runtime/cli/tensor_file.h"
#include "runtime/engine/inspect/profile.h"

namespace tile::bench {
namespace {

// Two programs of the same meaning may round differently: of floats, relative to the largest.
constexpr double kTolerance = 1e-3;

Case case_of(const std::string& file, const std::vector<std::string>& shapes) {
  std::optional<Language> language = language_of_suffix(file);
  if (!language) {
    fail(Stage::run, "argument", {}, "cannot tell the language of " + file,
         "use the suffix .tile, .mfg or .lift");
  }
  auto workload = std::make_shared<Workload>();
  workload->source = std::make_shared<Source>(Source{file, cli::read_text(file)});
  workload->language = *language;
  Case c;
  c.name = file;
  for (const auto& [name, shape] : cli::named(shapes)) {
    for (const std::string& item : cli::items_of(shape)) {
      size_t at = item.find('=');
      if (at != std::string::npos) {
        cli::fail_for_several(name, shape, item.substr(0, at), "--shape");
      }
    }
    c.shapes[name] = cli::parse_shape(shape);
  }
  c.workload = std::move(workload);
  return c;
}

// The case with inputs that it names and none that the program does not have.
Prepared prepared(const std::shared_ptr<Engine>& engine, const Case& c) {
  return cli::located(c.workload->source, [&] {
    std::vector<std::string> names = input_names(program_of(c), c);
    for (const auto& [name, type] : c.shapes) {
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      fail(Stage::run, "argument", {}, c.name + " has no input " + name);
    }
    return Prepared(engine, c);
  });
}

std::string microseconds(double ns) {
  char text[48];
  std::snprintf(text, sizeof text, "%.3f us", ns / 1e3);
  return text;
}

// All of a program's kernels in the order of launches.
std::vector<KernelTime> kernel_times(const Prepared& p) {
  const std::vector<Launch>& launches = p.executable().launches;
  std::vector<KernelTime> list;
  for (const LaunchProfile& l : profile(p.executable(), p.launch_ns())) {
    const Launch& launch = launches[list.size()];
    // The ceiling of bytes is the memory's.
    bool cached = l.share > 1 && l.work.memory_ns > l.work.arithmetic_ns;
    list.push_back({l.name, l.ns, l.work.bytes, std::nullopt,
                    cached ? "from the caches" : share_text(l.share) + " of its ceiling",
                    launch.kernel ? print(launch.schedule) : ""});
    if (l.work.counted) list.back().operations = l.work.operations;
  }
  return list;
}

double sum_of_ns(const std::vector<KernelTime>& kernels) {
  double sum = 0;
  for (const KernelTime& k : kernels) sum += k.ns;
  return sum;
}

void print_program(const Prepared& p, const Times& times, const std::vector<KernelTime>& kernels) {
  const Executable& e = p.executable();
  std::cout << p.what().name << ": " << microseconds(times.least()) << " at least, "
            << microseconds(times.median()) << " in the median of " << times.iterations
            << " runs\n";
  char text[160];
  std::snprintf(text, sizeof text, "  compiled in %.2f ms; ", p.compile_ms());
  std::cout << text << quantity(p.work().bytes, "B") << " of inputs and outputs, "
            << quantity(static_cast<double>(e.arena_bytes + e.workspace_bytes), "B")
            << " of temporaries\n";
  for (const KernelTime& k : kernels) print_kernel(std::cout, k, sum_of_ns(kernels));
}

// The largest difference of two programs' outputs; throws Failure where they are not alike.
double largest_difference(Prepared& a, Prepared& b) {
  if (a.outputs().size() != b.outputs().size()) {
    fail(Stage::run, "argument", {}, "the two programs have different numbers of outputs");
  }
  for (Prepared* p : {&a, &b}) {
    p->run();
    p->fetch();
  }
  double worst = 0;
  for (size_t i = 0; i < a.outputs().size(); ++i) {
    const Tensor &x = a.outputs()[i], &y = b.outputs()[i];
    if (x.type() != y.type() || x.shape() != y.shape()) {
      fail(Stage::run, "argument", {}, "the outputs differ in type or shape");
    }
    worst = std::max(worst, difference(x, y));
  }
  return worst;
}

// How a program stands beside another.
struct Comparison {
  std::string text;
  bool same = true;  // within the tolerance
};
Comparison comparison(const Times& of, const Times& beside, double worst) {
  Between sure = surely_in_turns(of, beside);
  bool differs = sure.low > 1 || sure.high < 1;
  char text[200];
  std::snprintf(text, sizeof text,
                "takes %.3f times as long (%.3f to %.3f%s); largest difference of results %.2g",
                in_turns(of, beside), sure.low, sure.high,
                differs ? "" : ": no difference that the rounds show", worst);
  Comparison c{text, worst <= kTolerance};  // not of NaN
  if (c.same) return c;
  std::snprintf(text, sizeof text, ": the results differ by more than the tolerance, %.2g",
                kTolerance);
  c.text += text;
  return c;
}

// The file that named benchmarks leave, or its page, with what each program was seen to take.
void keep_results(const Request& request, std::vector<Prepared>& programs,
                  const std::vector<Times>& times,
                  const std::vector<std::vector<KernelTime>>& kernels, const std::string& beside) {
  Request of_machine = request;
  of_machine.names.clear();
  Session session(of_machine);
  ResultsFile file(request.json, request.resume, session.context());
  for (size_t i = 0; i < programs.size(); ++i) {
    Result result = session.time(programs[i], programs[i].what().name, &times[i]);
    result.launches = kernels[i];
    if (i > 0) result.beside = beside + programs[0].what().name;
    file.add(result);
  }
  file.finish();
  if (!request.html.empty()) write_html(file.results(), request.html);
}

}  // namespace

void print_kernels(std::ostream& out, const Prepared& p, size_t most) {
  std::vector<KernelTime> kernels = kernel_times(p);
  double sum = sum_of_ns(kernels);
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const KernelTime& a, const KernelTime& b) { return a.ns > b.ns; });
  kernels.resize(std::min(kernels.size(), most));
  for (const KernelTime& k : kernels) print_kernel(out, k, sum);
}

std::optional<std::string> program_file(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::error_code error;
    bool file = language_of_suffix(name) && std::filesystem::exists(name, error);
    bool path = language_of_suffix(name) || name.find('/') != std::string::npos;
    if (path && !file) fail(Stage::run, "argument", {}, "there is no file " + name);
    if (!file) continue;
    if (names.size() > 1) {
      fail(Stage::run, "argument", {}, "a program's file is measured alone",
           "another one beside it: --against FILE");
    }
    return name;
  }
  return std::nullopt;
}

Prepared prepared_file(const std::shared_ptr<Engine>& engine, const std::string& file,
                       const std::vector<std::string>& shapes) {
  return prepared(engine, case_of(file, shapes));
}

std::string disturbance(double processes, double processors) {
  if (processes < 1.5 * processors) return "";
  char text[160];
  std::snprintf(text, sizeof text,
                "%.1f processes want %.0f processors: other work has part of these times",
                processes, processors);
  return text;
}

int command_run_file(const Request& request, const std::string& file,
                     const FileArguments& arguments) {
  check_request(request);
  double load = 0;
  if (getloadavg(&load, 1) != 1) load = 0;
  std::shared_ptr<Engine> engine = cli::make_engine(request.engine);
  Progress progress;
  progress.show(file + ": compiling");
  std::vector<Prepared> all;
  all.push_back(prepared_file(engine, file, arguments.shapes));
  bool two = !arguments.against.empty();
  if (two) all.push_back(prepared_file(engine, arguments.against, arguments.shapes));
  double worst = two ? largest_difference(all[0], all[1]) : 0;
  for (Prepared& p : all) {
    if (request.tune_ms <= 0) continue;
    progress.show(p.what().name + ": tuning");
    p.tune(request.tune_ms, {});
  }
  std::vector<Contender> contenders;
  for (const Prepared& p : all) contenders.push_back({p.what().name, p.calls()});
  std::vector<Times> times = interleave(contenders, request.timing, [&](int round) {
    progress.show(file + ": round " + std::to_string(round + 1));
  });
  std::vector<std::vector<KernelTime>> kernels(all.size());
  for (size_t i = 0; i < all.size() && !engine->is_reference(); ++i) {
    progress.show(all[i].what().name + ": timing its kernels");
    kernels[i] = kernel_times(all[i]);
  }
  progress.clear();
  std::cout << engine->device() << "\n";
  for (size_t i = 0; i < all.size(); ++i) print_program(all[i], times[i], kernels[i]);
  std::string others = disturbance(load, std::thread::hardware_concurrency());
  if (!others.empty()) std::cerr << "tile-bench: " << others << "\n";
  Comparison beside = two ? comparison(times[1], times[0], worst) : Comparison{};
  if (!request.json.empty() || !request.html.empty()) {
    progress.show("measuring the ceilings");
    keep_results(request, all, times, kernels, beside.text + ", beside ");
  }
  progress.clear();
  if (two) std::cout << arguments.against << " " << beside.text << "\n";
  return beside.same ? 0 : 1;
}

}  // namespace tile::bench
