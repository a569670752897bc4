#include "tests/programs/finding.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/programs/processes.h"
#include "tests/random/agreement/shrink.h"

namespace tile::test {
namespace {

using Json = nlohmann::ordered_json;

// What a run in a process of its own says; empty: it agrees.
std::string tried(const WholeProgram& program, const Configuration& configuration, int seconds) {
  std::string wrong;
  in_processes(
      {1, seconds, 1}, 0, 1,
      [&](uint64_t) {
        std::string text = ProgramRunner().run(program, configuration).wrong;
        std::replace(text.begin(), text.end(), '\n', ' ');
        return ItemResult{text};
      },
      [&](uint64_t, const std::string& line, const std::string& ended) {
        wrong = ended.empty() ? line : ended;
      });
  return wrong;
}

std::vector<Configuration> plainer(const Configuration& c) {
  std::vector<Configuration> list;
  auto add = [&](auto change) {
    Configuration other = c;
    change(other);
    if (other.text() != c.text()) list.push_back(other);
  };
  add([](Configuration& o) { o.warm = false; });
  add([](Configuration& o) { o.tuned = false; });
  add([](Configuration& o) { o.classes = false; });
  add([](Configuration& o) { o.constants = false; });
  add([](Configuration& o) { o.nests = false; });
  add([](Configuration& o) { o.strided = false; });
  add([](Configuration& o) { o.threads = 1; });
  return list;
}

Json value_json(const Scalar& value) {
  if (!is_float(value.type)) {
    return value.type == DType::u64 ? Json(static_cast<uint64_t>(value.i)) : Json(value.i);
  }
  if (std::isnan(value.f)) return "nan";
  if (std::isinf(value.f)) return value.f > 0 ? "inf" : "-inf";
  return value.f;
}

Json tensor_json(const HostTensor& t) {
  Json data = Json::array();
  for (int64_t i = 0; i < t.count(); ++i) data.push_back(value_json(t.at(i)));
  return {{"dtype", to_string(t.type)}, {"shape", t.shape}, {"data", data}};
}

}  // namespace

std::string kind_of(const std::string& wrong) {
  if (wrong.find(": expected ") != std::string::npos) return "values";
  std::string kind;
  for (char c : wrong) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) kind += c;
  }
  return kind.substr(0, 60);
}

Finding shrunk_finding(const Finding& finding, int seconds) {
  Finding best = finding;
  std::string kind = kind_of(finding.wrong);
  auto fails = [&](const WholeProgram& program, const Configuration& configuration) {
    std::string wrong = tried(program, configuration, seconds);
    if (wrong.empty() || kind_of(wrong) != kind) return false;
    best.wrong = wrong;
    return true;
  };
  for (bool plain = false; !plain;) {
    plain = true;
    for (const Configuration& c : plainer(best.configuration)) {
      if (!fails(best.program, c)) continue;
      best.configuration = c;
      plain = false;
      break;
    }
  }
  best.program = shrunk(best.program, [&](const WholeProgram& program) {
    return fails(program, best.configuration);
  });
  return best;
}

std::string conformance_file(const Finding& finding, const std::string& name) {
  WholeCase c = case_of(finding.program);
  Expectation expected(c);
  Json inputs = Json::object(), outputs = Json::object();
  for (size_t i = 0; i < c.names.size(); ++i) inputs[c.names[i]] = tensor_json(c.drawn.inputs[i]);
  for (size_t o = 0; o < expected.outputs().size(); ++o) {
    const Tensor& t = c.program->tensors[c.program->outputs[o]];
    outputs[t.name] = tensor_json(expected.outputs()[o]);
  }
  Json one{{"name", name},
           {"lang", "tile"},
           {"program", c.drawn.text},
           {"inputs", inputs},
           {"outputs", outputs},
           {"rtol", 1e-4},
           {"atol", 1e-4},
           {"wrong", finding.wrong},
           {"configuration", finding.configuration.text()}};
  return Json{{"format", 1}, {"cases", {one}}}.dump();
}

}  // namespace tile::test
