#include "runtime/cli/conform.h"

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/autodiff/differentiate.h"
#include "runtime/cli/files.h"
#include "runtime/cli/tensor_file.h"

namespace tile::cli {
namespace {

using Json = nlohmann::ordered_json;

// Why a case failed; what differed.
class Mismatch : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

Scalar number_of(const Json& value, DType type) {
  if (value.is_string()) {
    const std::string text = value;
    double special = text == "nan" ? NAN : text == "inf" ? INFINITY : -INFINITY;
    return real_scalar(special, type);
  }
  if (value.is_boolean()) return integer_scalar(value.get<bool>() ? 1 : 0, type);
  if (value.is_number_unsigned() && !is_float(type)) {
    return integer_scalar(static_cast<int64_t>(value.get<uint64_t>()), type);
  }
  if (value.is_number_unsigned()) return real_scalar(value.get<double>(), type);
  if (value.is_number_integer()) return integer_scalar(value.get<int64_t>(), type);
  return real_scalar(value.get<double>(), type);
}

DType type_named(const std::string& name) {
  std::optional<DType> type = parse_dtype(name);
  if (!type) throw Mismatch("the case has an unknown element type " + name);
  return *type;
}

HostTensor tensor_of(const Json& json, DType fallback) {
  DType type = json.contains("dtype") ? type_named(json["dtype"]) : fallback;
  HostTensor t(type, json["shape"].get<Shape>());
  const Json& data = json["data"];
  for (int64_t i = 0; i < t.count(); ++i) t.set(i, number_of(data[static_cast<size_t>(i)], type));
  return t;
}

double as_double(const Scalar& value) {
  if (is_float(value.type)) return value.f;
  return value.type == DType::u64 ? static_cast<double>(static_cast<uint64_t>(value.i))
                                  : static_cast<double>(value.i);
}

bool close(double a, double b, double rtol, double atol) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= atol + rtol * std::abs(b);
}

// Integers of 64 bits agree to the last bit, which a double does not show.
bool same_integer(const Scalar& got, const Json& expected) {
  if (is_float(got.type) || !expected.is_number_integer()) return true;
  return got.i == number_of(expected, got.type).i;
}

void compare(const std::string& name, const HostTensor& got, const Json& expected, double rtol,
             double atol) {
  auto shape = expected["shape"].get<Shape>();
  if (got.shape != shape) {
    throw Mismatch(name + " has shape " + Json(got.shape).dump() + ", expected " +
                   Json(shape).dump());
  }
  if (expected.contains("dtype") && type_named(expected["dtype"]) != got.type) {
    throw Mismatch(name + " has type " + std::string(to_string(got.type)) + ", expected " +
                   expected["dtype"].get<std::string>());
  }
  for (int64_t i = 0; i < got.count(); ++i) {
    const Json& value = expected["data"][static_cast<size_t>(i)];
    double want = as_double(number_of(value, DType::f64));
    double have = as_double(got.at(i));
    if (!close(have, want, rtol, atol) || (rtol == 0 && !same_integer(got.at(i), value))) {
      throw Mismatch(name + " element " + std::to_string(i) + " is " + std::to_string(have) +
                     ", expected " + std::to_string(want));
    }
  }
}

// Cases have infinities and NaN among their inputs.
Options strict(Options options) {
  options.strict_skip = true;
  return options;
}

class Runner {
 public:
  Runner(const Options& options, const std::string& file, RunProgram run)
      : options_(options),
        file_(file),
        engine_(make_engine(strict(options))),
        run_program_(std::move(run)) {}

  int passed = 0, failed = 0, skipped = 0;

  void run(const Json& c) {
    const std::string name = c["name"];
    std::string wrong;
    try {
      check(c);
    } catch (const Located& e) {
      wrong = "unexpected " + render(e.diagnostic, *e.source);
    } catch (const std::exception& e) {
      wrong = e.what();
    }
    if (wrong.empty()) {
      ++passed;
      return;
    }
    ++failed;
    std::cout << name << ": " << wrong << "\n  tile conform " << file_ << " --backend "
              << options_.backend << " --filter " << name << "\n";
  }

 private:
  std::shared_ptr<LoadedProgram> program_of(const Json& c) {
    auto source = std::make_shared<Source>(
        Source{c["name"].get<std::string>(), c["program"].get<std::string>()});
    std::optional<Language> language = parse_language(c["lang"].get<std::string>());
    if (!language) throw Mismatch("unknown language " + c["lang"].get<std::string>());
    return located(source, [&] {
      return std::make_shared<LoadedProgram>(engine_,
                                             std::make_shared<Program>(parse(*language, source)));
    });
  }

  static std::vector<std::string> output_names(const Json& c) {
    std::vector<std::string> names;
    for (const auto& [name, expected] : c["outputs"].items()) names.push_back(name);
    return names;
  }

  static HostTensor parameter_of(const LoadedProgram& program, size_t i, const Json& c) {
    const Tensor& input = input_tensor(program, i);
    if (!c.contains("params") || !c["params"].contains(input.name)) return *program.defaults()[i];
    const Json& given = c["params"][input.name];
    if (given.is_array()) return parameter_value(input, given.get<std::vector<double>>());
    return parameter_value(input, std::vector<double>{given.get<double>()});
  }

  std::vector<HostTensor> inputs_of(const LoadedProgram& program, const Json& c) {
    std::vector<HostTensor> inputs;
    for (size_t i = 0; i < program.program().inputs.size(); ++i) {
      const std::string& name = input_name(program, i);
      if (program.defaults()[i]) {
        inputs.push_back(parameter_of(program, i, c));
        continue;
      }
      if (!c.contains("inputs") || !c["inputs"].contains(name)) {
        throw Mismatch("the case has no input " + name);
      }
      inputs.push_back(tensor_of(c["inputs"][name], DType::f32));
    }
    return inputs;
  }

  void check(const Json& c) {
    if (c.contains("error")) {
      check_error(c);
      return;
    }
    std::shared_ptr<LoadedProgram> program = asking_for(program_of(c), output_names(c));
    std::vector<HostTensor> inputs = inputs_of(*program, c);
    located(program->program().source, [&] {
      check_outputs(*program, inputs, c);
      if (c.contains("gradient")) check_gradient(*program, inputs, c);
    });
  }

  void check_outputs(LoadedProgram& program, const std::vector<HostTensor>& inputs, const Json& c) {
    std::vector<HostTensor> got = run_program_(program, inputs);
    double rtol = c.value("rtol", 0.0), atol = c.value("atol", 0.0);
    for (const auto& [name, expected] : c["outputs"].items()) {
      bool found = false;
      for (size_t i = 0; i < got.size(); ++i) {
        if (output_name(program, i) != name) continue;
        found = true;
        compare(name, got[i], expected, rtol, atol);
      }
      if (!found) throw Mismatch("the program has no output " + name);
    }
  }

  void check_gradient(LoadedProgram& program, std::vector<HostTensor> inputs, const Json& c) {
    const Json& g = c["gradient"];
    std::vector<std::string> wrt;
    for (const auto& [name, expected] : g["wrt"].items()) wrt.push_back(name);
    auto derived = std::make_shared<Program>(
        differentiate(program.program(), g["of"].get<std::string>(), wrt));
    LoadedProgram gradient(engine_, derived);
    inputs.push_back(tensor_of(g["seed"], DType::f32));
    std::vector<HostTensor> got = run_program_(gradient, inputs);
    size_t first = got.size() - wrt.size();
    for (size_t i = 0; i < wrt.size(); ++i) {
      compare("gradient of " + wrt[i], got[first + i], g["wrt"][wrt[i]],
              c.value("grad_rtol", c.value("rtol", 0.0)),
              c.value("grad_atol", c.value("atol", 0.0)));
    }
  }

  void check_error(const Json& c) {
    const std::string stage = c["error"]["stage"];
    try {
      std::shared_ptr<LoadedProgram> program = program_of(c);
      std::vector<HostTensor> inputs = inputs_of(*program, c);
      located(program->program().source, [&] { run_program_(*program, inputs); });
    } catch (const Located& e) {
      std::string text = render(e.diagnostic, *e.source);
      if (to_string(e.diagnostic.stage) != stage) {
        throw Mismatch("expected an error of stage " + stage + ", got " + text);
      }
      for (const auto& word : c["error"].value("mentions", Json::array())) {
        if (text.find(word.get<std::string>()) == std::string::npos) {
          throw Mismatch("the error does not mention " + word.get<std::string>() + ": " + text);
        }
      }
      return;
    }
    throw Mismatch("expected an error of stage " + stage + ", but the program ran");
  }

  const Options& options_;
  std::string file_;
  std::shared_ptr<Engine> engine_;
  RunProgram run_program_;
};

constexpr size_t kLargestCases = size_t{1} << 28;  // bytes of a file

// What is in more brackets than any case is refused before memory is taken for it.
Json cases_of(const std::string& file) {
  constexpr int kMostDepth = 100;
  auto shallow = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > kMostDepth) {
      fail(Stage::run, "file", {},
           file + ": more than " + std::to_string(kMostDepth) + " brackets in each other");
    }
    return true;
  };
  Json json = Json::parse(read_text(file, kLargestCases), shallow);
  if (!json.is_object() || !json.contains("cases") || !json["cases"].is_array()) {
    fail(Stage::run, "file", {}, file + ": no cases",
         R"(a file of cases is {"cases": [{"name": ...}, ...]})");
  }
  return std::move(json["cases"]);
}

}  // namespace

int conform(const std::vector<std::string>& files, const std::string& filter,
            const Options& options, RunProgram run) {
  if (!run) {
    run = [](LoadedProgram& program, const std::vector<HostTensor>& inputs) {
      return run_once(program, inputs);
    };
  }
  int passed = 0, failed = 0, skipped = 0;
  for (const std::string& file : files) {
    Runner runner(options, file, run);
    try {
      for (const Json& c : cases_of(file)) {
        if (c.at("name").get<std::string>().find(filter) == std::string::npos) continue;
        runner.run(c);
      }
    } catch (const Json::exception& e) {
      fail(Stage::run, "file", {}, file + ": " + e.what());
    }
    passed += runner.passed;
    failed += runner.failed;
    skipped += runner.skipped;
  }
  std::cout << passed << " passed, " << failed << " failed, " << skipped << " skipped\n";
  return failed == 0 ? 0 : 1;
}

}  // namespace tile::cli
