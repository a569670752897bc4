#include "tests/transforms/transform_case.h"

#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "core/fusion/group.h"
#include "core/kernel/geometry.h"
#include "core/language/language.h"
#include "core/lower/lower.h"
#include "core/nest/passes/nest_passes.h"
#include "core/passes/bind/bind.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/space/candidates.h"
#include "tests/support/schedule_kernels.h"

namespace tile::test {
namespace {

constexpr std::string_view kExpected = "==== after";
constexpr std::string_view kProgram = "==== program";

Target target_of(const std::string& name) {
  if (name == "cpu-256") return testing::small_target();
  if (name == "cpu-512") return testing::wide_target();
  if (name == "cpu-amx") return testing::tile_target();
  if (std::optional<Target> gpu = gpu_target(name)) {
    gpu->strict_skip = false;  // as engines have it
    return *gpu;
  }
  throw std::runtime_error("no target " + name);
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

// "f32[2,3]" or "i64[]".
InputType input_of(const std::string& text) {
  size_t open = text.find('[');
  std::optional<DType> type = parse_dtype(text.substr(0, open));
  if (open == std::string::npos || text.back() != ']' || !type) {
    throw std::runtime_error("an input that is no type and shape: " + text);
  }
  InputType input{*type, {}, std::nullopt};
  std::istringstream extents(text.substr(open + 1, text.size() - open - 2));
  for (std::string extent; std::getline(extents, extent, ',');) {
    input.shape.push_back(std::stoll(extent));
  }
  return input;
}

void set(TransformCase& c, const std::string& key, const std::string& value) {
  if (key == "pass") {
    c.pass = value;
  } else if (key == "language") {
    c.language = value;
  } else if (key == "target") {
    c.target = target_of(value);
  } else if (key == "threads") {  // behind the target
    c.target.threads = std::stoi(value);
  } else if (key == "inputs") {
    for (const std::string& word : words(value)) c.inputs.push_back(input_of(word));
  } else if (key == "constants") {
    for (const std::string& word : words(value)) c.constants.push_back(std::stoul(word));
  } else if (key == "skip") {
    c.skip = words(value);
  } else if (key == "fuse" && value == "always") {
    c.always = true;
  } else if (key == "unchanged" && value == "yes") {
    c.unchanged = true;
  } else if (key == "schedule" && value == "plain") {
    c.plain = true;
  } else {
    throw std::runtime_error("a line that is not known: " + key + ": " + value);
  }
}

// The text of one pass after the other; a nest of each kernel follows that of the one before.
class Watch final : public PassObserver {
 public:
  explicit Watch(std::string pass) : pass_(std::move(pass)) {}

  void ends(const PassInfo& pass, const PassText& print) override {
    std::string now = print();
    if (pass.name == pass_) {
      text += (text.empty() ? "" : "\n") + now;
      changed = changed || now != before_;
      ++runs;
    }
    before_ = std::move(now);
  }
  std::string text;
  bool changed = false;
  int runs = 0;

 private:
  const std::string pass_;
  std::string before_;
};

nest::Nest lowered(const Step& step, const BoundProgram& program, const TransformCase& c,
                   const PassOptions& passes, std::vector<nest::Nest>& copies) {
  if (const auto* scatter = std::get_if<Scatter>(&step)) {
    return lower_scatter(*scatter, program.tensors, c.target);
  }
  const auto& kernel = std::get<Kernel>(step);
  Schedule schedule;
  run_pass(
      kChooseSchedule, passes,
      [&] { schedule = c.plain ? plain_schedule(kernel) : analytic_schedule(kernel, c.target); },
      [&] { return print(schedule); });
  for (Prepacking& p : prepackings(kernel, schedule, c.target)) copies.push_back(std::move(p.nest));
  return lower(kernel, schedule, c.target);
}

void lower_steps(const std::vector<Step>& steps, const BoundProgram& program,
                 const TransformCase& c, const PassOptions& passes) {
  for (const Step& step : steps) {
    if (std::holds_alternative<Sort>(step)) continue;
    std::vector<nest::Nest> nests;
    nests.push_back(lowered(step, program, c, passes, nests));
    for (nest::Nest& nest : nests) {
      run_pass(kLower, passes, [] {}, [&] { return print(nest); });
      nest::run_passes(std::move(nest), c.target, passes);
    }
  }
}

BoundProgram bound(const TransformCase& c, const SourcePtr& source) {
  if (c.language == "bound") {
    BoundProgram program = parse_bound(source);
    verify(program);
    return program;
  }
  std::optional<Language> language = parse_language(c.language);
  if (!language) throw std::runtime_error("no language " + c.language);
  return tile::bind(parse(*language, source), c.inputs);
}

}  // namespace

TransformCase read_case(const std::filesystem::path& file) {
  TransformCase c;
  std::ifstream in(file);
  enum class Part : uint8_t { head, program, expected } part = Part::head;
  bool has_target = false;
  try {
    for (std::string line; std::getline(in, line);) {
      if (part == Part::expected) {
        c.expected += line + "\n";
        continue;
      }
      c.head += line + "\n";
      if (line == kExpected) {
        part = Part::expected;
      } else if (part == Part::program) {
        c.program += line + "\n";
      } else if (line == kProgram) {
        part = Part::program;
      } else if (!line.empty() && line[0] != '#') {
        size_t colon = line.find(": ");
        if (colon == std::string::npos) throw std::runtime_error("not KEY: VALUE: " + line);
        has_target = has_target || line.starts_with("target");
        set(c, line.substr(0, colon), line.substr(colon + 2));
      }
    }
    if (part != Part::expected || c.pass.empty() || !has_target) {
      throw std::runtime_error("it needs pass, target, \"==== program\" and \"==== after\"");
    }
  } catch (const std::exception& wrong) {
    throw std::runtime_error(file.filename().string() + ": " + wrong.what());
  }
  return c;
}

std::string transformed(const TransformCase& c) {
  Watch watch(c.pass);
  PassOptions passes{c.skip, &watch, true};
  auto source = std::make_shared<const Source>(Source{"case", c.program});
  BoundProgram program;
  run_pass(kBind, passes, [&] { program = bound(c, source); }, [&] { return print(program); });
  for (size_t i : c.constants) {
    program.tensors.edit(program.inputs.at(i)).fixed = true;
  }
  run_pipeline(program, c.target, {passes});
  if (watch.runs == 0) {
    bool all = c.always;
    GroupOptions options{
        .streams = all, .siblings = all, .pools = all, .rows = all, .passes = passes};
    std::vector<Step> steps = group(program, c.target, options);
    if (watch.runs == 0) lower_steps(steps, program, c, passes);
  }
  if (watch.runs == 0) throw std::runtime_error("the pass " + c.pass + " was not run");
  if (watch.changed == c.unchanged) {
    throw std::runtime_error("the pass " + c.pass +
                             (c.unchanged ? " changes the program" : " does nothing here"));
  }
  return std::move(watch.text);
}

}  // namespace tile::test
