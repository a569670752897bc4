#include "bench/commands/program_file.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <numeric>
#include <sstream>

#include "bench/commands/session.h"
#include "bench/measure/prepared.h"
#include "bench/measure/workload.h"
#include "bench/report/html_report.h"
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

std::string quantity(double value, const char* unit) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T"};
  size_t prefix = 0;
  for (; value >= 1000 && prefix + 1 < std::size(kPrefixes); ++prefix) value /= 1000;
  char text[48];
  std::snprintf(text, sizeof text, "%.4g %s%s", value, kPrefixes[prefix], unit);
  return text;
}
std::string microseconds(double ns) {
  char text[48];
  std::snprintf(text, sizeof text, "%.3f us", ns / 1e3);
  return text;
}

// Each line of a text some columns to the right, without empty ones.
std::string indented(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) out += "    " + line + "\n";
  }
  return out;
}

void print_kernel(std::ostream& out, const LaunchProfile& l, double sum, const Launch& launch) {
  out << "  kernel " << l.name << ": " << microseconds(l.ns);
  char text[160];
  std::snprintf(text, sizeof text, ", %.0f %% of all, ", sum > 0 ? 100 * l.ns / sum : 0);
  out << text << quantity(l.work.bytes, "B") << ", ";
  out << (l.work.counted ? quantity(l.work.operations, "FLOP") : "operations not counted");
  std::snprintf(text, sizeof text, ", %.1f %% of its ceiling\n", 100 * l.share);
  out << text;
  if (launch.kernel) out << indented(print(launch.schedule));
}

void print_program(const Prepared& p, const Times& times) {
  const Executable& e = p.executable();
  std::cout << p.what().name << ": " << microseconds(times.least()) << " at least, "
            << microseconds(times.median()) << " in the median of " << times.iterations
            << " runs\n";
  char text[160];
  std::snprintf(text, sizeof text, "  compiled in %.2f ms; ", p.compile_ms());
  std::cout << text << quantity(p.work().bytes, "B") << " of inputs and outputs, "
            << quantity(static_cast<double>(e.arena_bytes + e.workspace_bytes), "B")
            << " of temporaries\n";
  if (e.engine->is_reference()) return;
  print_kernels(std::cout, p, e.launches.size(), false);
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

// The exit status: 1 where the results differ.
int print_comparison(const std::string& name, double ratio, double worst) {
  char text[160];
  std::snprintf(text, sizeof text, " takes %.3f times as long; largest difference of results %.2g",
                ratio, worst);
  std::cout << name << text;
  bool same = worst <= kTolerance;  // not of NaN
  if (!same) {
    std::snprintf(text, sizeof text, ": the results differ by more than the tolerance, %.2g",
                  kTolerance);
    std::cout << text;
  }
  std::cout << "\n";
  return same ? 0 : 1;
}

// The file that named benchmarks leave, or its page, with what each program was seen to take.
void keep_results(const Request& request, std::vector<Prepared>& programs,
                  const std::vector<Times>& times) {
  Request of_machine = request;
  of_machine.names.clear();
  Session session(of_machine);
  ResultsFile file(request.json, request.resume, session.context());
  for (size_t i = 0; i < programs.size(); ++i) {
    file.add(session.time(programs[i], programs[i].what().name, &times[i]));
  }
  file.finish();
  if (!request.html.empty()) write_html(file.results(), request.html);
}

}  // namespace

void print_kernels(std::ostream& out, const Prepared& p, size_t most, bool slowest_first) {
  std::vector<LaunchProfile> launches = profile(p.executable(), p.launch_ns());
  double sum = 0;
  for (const LaunchProfile& launch : launches) sum += launch.ns;
  std::vector<size_t> order(launches.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (slowest_first) {
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return launches[a].ns > launches[b].ns; });
  }
  order.resize(std::min(order.size(), most));
  for (size_t i : order) print_kernel(out, launches[i], sum, p.executable().launches[i]);
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

int command_run_file(const Request& request, const std::string& file,
                     const FileArguments& arguments) {
  check_request(request);
  std::shared_ptr<Engine> engine = cli::make_engine(request.engine);
  std::vector<Prepared> all;
  all.push_back(prepared_file(engine, file, arguments.shapes));
  bool two = !arguments.against.empty();
  if (two) all.push_back(prepared_file(engine, arguments.against, arguments.shapes));
  double worst = two ? largest_difference(all[0], all[1]) : 0;
  for (Prepared& p : all) {
    if (request.tune_ms > 0) p.tune(request.tune_ms, {});
  }
  std::vector<Contender> contenders;
  for (const Prepared& p : all) contenders.push_back({p.what().name, p.calls()});
  std::vector<Times> times = interleave(contenders, request.timing);
  std::cout << engine->device() << "\n";
  for (size_t i = 0; i < all.size(); ++i) print_program(all[i], times[i]);
  if (!request.json.empty() || !request.html.empty()) keep_results(request, all, times);
  if (!two) return 0;
  return print_comparison(arguments.against, in_turns(times[1], times[0]), worst);
}

}  // namespace tile::bench
