#include "tests/programs/subjects.h"

#include <memory>

#include "core/interpret/interpret.h"
#include "core/passes/bind/bind.h"
#include "tests/random/random_filter.h"
#include "tests/random/random_lift.h"
#include "tests/random/random_source.h"
#include "tests/random/random_whole.h"

namespace tile::test {
namespace {

// Points and rounds of folds of one evaluation by the reference, which has about a microsecond for
// each and is asked ten times where results are compared with perturbed ones.
constexpr int64_t kMostPoints = 2'000'000;
// Statements that are compiled within the seconds that one program may take.
constexpr size_t kMostStatements = 1000;

bool is_quick(const WholeCase& c) {
  if (c.program->statements.size() > kMostStatements) return false;
  InterpretOptions limits;
  limits.point_limit = kMostPoints;
  try {
    interpret(tile::bind(*c.program, c.drawn.types), c.drawn.inputs, limits);
    return true;
  } catch (const Failure& failure) {
    return failure.diagnostic().code != "limit";  // what else is wrong shows later
  }
}

Program parsed(Language language, const std::string& text) {
  return parse(language, std::make_shared<const Source>(Source{"random", text}));
}

// None, one or two gradients with respect to `wrt`; why one of them is refused, if it is.
std::string differentiate_some(Language language, WholeCase& c, RandomSource& random,
                               const std::vector<std::string>& wrt) {
  int64_t kind = random.in(0, 99);
  if (kind < 50) return "";
  const Program& p = *c.program;
  const std::string of =
      p.tensors[p.outputs[static_cast<size_t>(random.in(0, std::ssize(p.outputs) - 1))]].name;
  try {
    differentiate(c, {of, wrt});
    if (kind >= 80) differentiate(c, {"D" + random.pick(wrt), {random.pick(wrt)}});
  } catch (const Failure& failure) {  // `c` is as it was before that gradient
    if (!may_refuse_gradient(language, failure.diagnostic())) throw;
    return failure.what();
  }
  return "";
}

struct FilterCase {
  WholeCase whole;
  std::string refused;
};

FilterCase filter_case(uint64_t seed, const FilterPasses& filter, const Shape& picture) {
  RandomSource random(seed);
  Program program = with_outputs(parsed(Language::mfg, filter.text), filter.outputs);
  std::vector<HostTensor> inputs = filter_inputs(seed, program, picture, false);
  FilterCase c{case_of(std::move(program), std::move(inputs)), ""};
  c.whole.drawn.text = filter.text;
  c.refused = differentiate_some(Language::mfg, c.whole, random, {"input_f32", "p"});
  return c;
}

Drawn filter_cases(uint64_t seed, const Configuration& configuration) {
  static const std::vector<int64_t> kSides = {1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 40};
  RandomSource random(seed ^ 0x66696c74);
  FilterPasses filter{random_filter(seed), {"result_f32"}};
  if (random.percent(70)) filter = random_passes(seed);
  Drawn drawn;
  for (int i = configuration.classes ? 3 : 1; i > 0; --i) {
    Shape picture{random.pick(kSides), random.pick(kSides)};
    FilterCase c = filter_case(seed, filter, picture);
    while (!is_quick(c.whole) && picture != Shape{1, 1}) {
      for (int64_t& side : picture) side = (side + 1) / 2;
      c = filter_case(seed, filter, picture);
    }
    drawn.cases.push_back(std::move(c.whole));
    drawn.refused = c.refused;
  }
  return drawn;
}

HostTensor reals(RandomSource& random, const std::vector<int>& dims) {
  HostTensor t(DType::f32, Shape(dims.begin(), dims.end()));
  for (int64_t i = 0; i < t.count(); ++i) t.set(i, real_scalar(random.unit() * 4 - 2, DType::f32));
  return t;
}

Drawn lift_cases(uint64_t seed) {
  RandomSource random(seed ^ 0x6c696674);
  std::string text;
  std::vector<HostTensor> inputs;
  std::vector<std::string> wrt{"x"};
  if (random.percent(50)) {
    LiftPair pair = lift_pair(static_cast<unsigned>(seed));
    text = pair.text;
    inputs = {reals(random, pair.x), reals(random, pair.z)};
    wrt.emplace_back("z");
  } else {
    auto number = static_cast<unsigned>(seed);
    LiftTrial trial = random.percent(50) ? lift_trial(number) : lift_view_trial(number);
    text = trial.text;
    inputs = {reals(random, trial.dims)};
    for (size_t i = 0; i < trial.input.size() && random.percent(50); ++i) {
      inputs[0].set(static_cast<int64_t>(i), real_scalar(trial.input[i], DType::f32));
    }
  }
  WholeCase plain = case_of(parsed(Language::lift, text), inputs);
  plain.drawn.text = text;
  WholeCase c = plain;
  std::string refused = differentiate_some(Language::lift, c, random, wrt);
  return {{is_quick(c) ? c : plain}, refused};
}

}  // namespace

bool may_refuse_gradient(Language language, const Diagnostic& error) {
  if (error.code == "limit") return true;
  bool unknown = error.code == "derivative" || error.code == "gradient";
  return language != Language::tile && error.stage == Stage::bind && unknown;
}

Drawn drawn_cases(Language language, uint64_t seed, const Configuration& configuration) {
  if (language == Language::mfg) return filter_cases(seed, configuration);
  if (language == Language::lift) return lift_cases(seed);
  return {cases_of(random_whole(seed), configuration), ""};
}

}  // namespace tile::test
