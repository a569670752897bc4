#include <algorithm>
#include <iostream>
#include <optional>

#include "bench/commands/program_file.h"
#include "bench/commands/session.h"
#include "bench/report/html_report.h"
#include "bench/report/results.h"

namespace tile::bench {
namespace {

// Where the table goes: standard output, unless the JSON goes there.
std::ostream& table(const Request& request) { return request.json == "-" ? std::cerr : std::cout; }

// One benchmark's results, shown and kept as soon as they are there. A case that fails does not
// stop the others: what went wrong is its result.
template <class Measure>
void attempt(const Request& request, const std::string& name, ResultsFile& file,
             Measure&& measure) {
  if (file.has(name)) return;
  Result result;
  try {
    result = measure();
  } catch (const std::exception& error) {
    result.name = name;
    result.error = error.what();
  }
  print_row(table(request), result);
  file.add(result);
}

int finish(const Request& request, const ResultsFile& file) {
  file.finish();
  if (!request.html.empty()) write_html(file.results(), request.html);
  return file.failed() ? 1 : 0;
}

}  // namespace

int command_list(const Request& request) {
  for (const Case& c : chosen(read_cases(request.folder), request.names, request.filter)) {
    std::cout << c.name;
    std::vector<std::string> inputs = input_names(program_of(c), c);
    for (const auto& [name, type] : c.shapes) {
      if (std::find(inputs.begin(), inputs.end(), name) == inputs.end() && type.shape.size() == 1) {
        std::cout << " " << name << "=" << type.shape[0];
        continue;
      }
      std::cout << " " << name << "=" << to_string(type.type) << "[";
      for (size_t i = 0; i < type.shape.size(); ++i) std::cout << (i ? "," : "") << type.shape[i];
      std::cout << "]";
    }
    std::cout << "\n";
  }
  return 0;
}

int command_run(const Request& request) {
  check_request(request);
  Session session(request);
  session.progress().show("measuring the ceilings");
  Context context = session.context();
  ResultsFile file(request.json, request.resume, context);
  print_header(table(request), context);
  session.progress().clear();
  print_columns(table(request));
  for (const Case& c : session.cases()) {
    attempt(request, c.name, file, [&] {
      session.progress().show(c.name + ": compiling");
      Prepared prepared = session.prepare(c);
      std::vector<double> curve;
      if (request.tune_ms > 0) curve = session.tune(prepared, request.tune_ms);
      Result result = session.time(prepared, c.name);
      result.tuning = std::move(curve);
      if (request.kernels > 0) print_kernels(table(request), prepared, request.kernels);
      return result;
    });
  }
  return finish(request, file);
}

int command_tune(const Request& request) {
  check_request(request);
  Session session(request);
  Context context = session.context();
  ResultsFile file(request.json, request.resume, context);
  print_header(table(request), context);
  print_columns(table(request));
  for (const Case& c : session.cases()) {
    std::string tuned = c.name + "/tuned";
    if (file.has(c.name) && file.has(tuned)) continue;
    std::optional<Prepared> prepared;
    attempt(request, c.name, file,
            [&] { return session.time(prepared.emplace(session.prepare(c)), c.name); });
    attempt(request, tuned, file, [&] {
      if (!prepared) prepared.emplace(session.prepare(c));
      std::vector<double> curve = session.tune(*prepared, request.tune_ms);
      Result result = session.time(*prepared, tuned);
      result.tuning = std::move(curve);
      return result;
    });
    if (request.schedules && prepared) table(request) << emit(prepared->executable(), "schedule");
  }
  return finish(request, file);
}

}  // namespace tile::bench
