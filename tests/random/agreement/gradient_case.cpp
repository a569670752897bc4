#include "tests/random/agreement/gradient_case.h"

#include <algorithm>
#include <cmath>

#include "core/autodiff/differentiate.h"
#include "core/interpret/interpret.h"
#include "core/language/tile/tile.h"
#include "core/passes/bind/bind.h"

namespace tile::test {
namespace {

HostTensor as_floats(const HostTensor& from) {
  HostTensor t(DType::f32, from.shape);
  for (int64_t i = 0; i < t.count(); ++i) t.set(i, convert(from.at(i), DType::f32));
  return t;
}

std::vector<InputType> types_of(const std::vector<HostTensor>& inputs) {
  std::vector<InputType> types;
  for (const HostTensor& t : inputs) types.push_back({t.type, t.shape});
  return types;
}

}  // namespace

bool gradient_case(uint64_t seed, RandomCase& result) {
  RandomCase drawn = random_case(seed);
  if (!drawn.exact) return false;
  Program program = parse_tile(std::make_shared<const Source>(Source{"random", drawn.text}));
  std::vector<bool> keeps = index_inputs(program);
  std::vector<std::string> wrt;
  for (size_t i = 0; i < keeps.size(); ++i) {
    result.inputs.push_back(keeps[i] ? drawn.inputs[i] : as_floats(drawn.inputs[i]));
    if (keeps[i]) continue;
    wrt.push_back(program.tensors[program.inputs[i]].name);
  }
  try {
    BoundProgram bound = tile::bind(program, types_of(result.inputs));
    HostTensor output = interpret(bound, result.inputs).outputs.back();
    if (output.type != DType::f32 || wrt.empty()) return false;
    for (int64_t i = 0; i < output.count(); ++i) {
      output.set(i, integer_scalar((i * 5 + 1) % 4 - 1, DType::f32));
    }
    result.inputs.push_back(std::move(output));
  } catch (const Failure&) {
    return false;  // an operation on integers only
  }
  std::string of = program.tensors[program.outputs.back()].name;
  result.text = print(differentiate(program, of, wrt));
  result.types = types_of(result.inputs);
  return true;
}

bool overflows(const std::vector<HostTensor>& outputs) {
  return std::any_of(outputs.begin(), outputs.end(), [](const HostTensor& t) {
    for (int64_t i = 0; i < t.count(); ++i) {
      if (!std::isfinite(convert(t.at(i), DType::f64).f)) return true;
    }
    return false;
  });
}

}  // namespace tile::test
