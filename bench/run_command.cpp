#include <fstream>
#include <iostream>

#include "bench/session.h"

namespace tile::bench {
namespace {

void write(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  if (path == "-") {
    std::cout << text;
    return;
  }
  std::ofstream file(path);
  file << text;
  if (!file.flush()) fail(Stage::run, "file", {}, "cannot write " + path);
}

// Where the table goes: standard output, unless the JSON goes there.
std::ostream& table(const Request& request) { return request.json == "-" ? std::cerr : std::cout; }

// A case that fails does not stop the others: what went wrong is its result.
template <class Work>
void attempt(const Request& request, const Case& c, std::vector<Result>& results, Work&& work) {
  try {
    work();
  } catch (const std::exception& error) {
    Result r;
    r.name = c.name;
    r.error = error.what();
    print_row(table(request), r);
    results.push_back(std::move(r));
  }
}

int finish(const Request& request, const Context& context, const std::vector<Result>& results) {
  write(request.json, to_json(context, results));
  bool failed = false;
  for (const Result& r : results) failed = failed || !r.error.empty();
  return failed ? 1 : 0;
}

void show(const Request& request, const Result& result, std::vector<Result>& results) {
  print_row(table(request), result);
  results.push_back(result);
}

}  // namespace

int command_list(const Request& request) {
  for (const Case& c : chosen(read_cases(request.folder), request.names, request.filter)) {
    std::cout << c.name;
    for (const auto& [name, type] : c.shapes) {
      std::cout << " " << name << "=" << to_string(type.type) << "[";
      for (size_t i = 0; i < type.shape.size(); ++i) std::cout << (i ? "," : "") << type.shape[i];
      std::cout << "]";
    }
    std::cout << "\n";
  }
  return 0;
}

int command_run(const Request& request) {
  Session session(request);
  session.progress().show("measuring the ceilings");
  Context context = session.context();
  std::vector<Result> results;
  print_header(table(request), context);
  session.progress().clear();
  print_columns(table(request));
  for (const Case& c : session.cases()) {
    attempt(request, c, results, [&] {
      session.progress().show(c.name + ": compiling");
      Prepared prepared = session.prepare(c);
      if (request.tune_ms > 0) session.tune(prepared, request.tune_ms);
      show(request, session.time(prepared, c.name), results);
    });
  }
  return finish(request, context, results);
}

int command_tune(const Request& request) {
  Session session(request);
  Context context = session.context();
  std::vector<Result> results;
  print_header(table(request), context);
  print_columns(table(request));
  for (const Case& c : session.cases()) {
    attempt(request, c, results, [&] {
      Prepared prepared = session.prepare(c);
      show(request, session.time(prepared, c.name), results);
      session.tune(prepared, request.tune_ms);
      show(request, session.time(prepared, c.name + "/tuned"), results);
      if (request.schedules) table(request) << emit(prepared.executable(), "schedule");
    });
  }
  return finish(request, context, results);
}

}  // namespace tile::bench
