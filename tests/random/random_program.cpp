#include "tests/random/random_program.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string_view>

#include "core/interpret/interpret.h"
#include "core/language/tile/tile.h"
#include "core/passes/bind/bind.h"
#include "tests/random/draw/draft.h"

namespace tile::test {
namespace {

const std::vector<DType> kTypes = {DType::bool_,  DType::i8,    DType::i16, DType::i32, DType::i64,
                                   DType::u8,     DType::u16,   DType::u32, DType::u64, DType::f16,
                                   DType::bf16,   DType::f32,   DType::f32, DType::f32, DType::f64,
                                   DType::f8e4m3, DType::f8e5m2};

void draw(Draft& draft) {
  RandomSource& random = draft.random;
  DType type = random.pick(kTypes);
  Known last;
  if (random.percent(25)) {
    Known before = draw_elementwise(draft, draft.input(type, {random.in(1, 6), random.in(1, 6)}));
    last = draw_contraction(draft, type, &before);
  } else {
    last = draw_contraction(draft, type, nullptr);
  }
  std::vector<std::string> outputs;
  if (random.percent(20)) outputs.push_back(last.name);
  if (random.percent(15)) last = draw_contraction(draft, type, &last);
  while (random.percent(40)) last = draw_elementwise(draft, last);
  if (random.percent(20)) last = draw_call(draft, last);
  if (random.percent(10)) last = draw_elementwise(draft, last);
  bool listed = !outputs.empty() && outputs[0] == last.name;
  if (!listed) outputs.push_back(last.name);
  draft.program(outputs);
}

// Whether a program is worth a test: most give mostly non-zero outputs.
bool worthwhile(RandomSource& random, const RandomCase& drawn) {
  auto source = std::make_shared<const Source>(Source{"random.tile", drawn.text});
  InterpretOptions limits;
  limits.point_limit = 100000;
  try {
    BoundProgram program = tile::bind(parse_tile(source), drawn.types);
    int64_t nonzero = 0, total = 0;
    for (const HostTensor& output : interpret(program, drawn.inputs, limits).outputs) {
      for (int64_t i = 0; i < output.count(); ++i) nonzero += is_true(output.at(i)) ? 1 : 0;
      total += output.count();
    }
    return 2 * nonzero > total || drawn.features.contains("empty set") || random.percent(8);
  } catch (const Failure&) {
    return false;
  }
}

}  // namespace

std::vector<bool> index_inputs(const Program& program) {
  std::vector<bool> keeps(program.inputs.size(), false);
  auto keep = [&](TensorId id) {
    auto at = std::find(program.inputs.begin(), program.inputs.end(), id);
    if (at != program.inputs.end()) keeps[static_cast<size_t>(at - program.inputs.begin())] = true;
  };
  for (const Statement& s : program.statements) {
    const auto* call = std::get_if<Call>(&s.what);
    if (call == nullptr) continue;
    bool second = call->function == Function::gather || call->function == Function::scatter;
    if (second) keep(call->tensors[1]);
    if (call->function == Function::prng_uniform) keep(call->tensors[0]);
  }
  return keeps;
}

std::vector<uint64_t> seeds(uint64_t first, uint64_t count) {
  const char* asked = std::getenv("TILE_TEST_SEEDS");
  if (asked != nullptr && std::string_view(asked) == "all") asked = nullptr;
  if (asked != nullptr && *asked == '/') {
    uint64_t parts = std::max<uint64_t>(1, std::strtoull(asked + 1, nullptr, 10));
    count = (count + parts - 1) / parts;
  } else if (asked != nullptr) {
    char* end = nullptr;
    first = std::strtoull(asked, &end, 10);
    count = *end == ':' ? std::strtoull(end + 1, nullptr, 10) : 1;
  }
  std::vector<uint64_t> list(count);
  std::iota(list.begin(), list.end(), first);
  return list;
}

RandomCase random_case(uint64_t seed, const RandomOptions& options) {
  RandomSource random(seed);
  while (true) {
    Draft draft(random, options);
    try {
      draw(draft);
    } catch (const Redraw&) {
      continue;
    }
    if (!options.large && !worthwhile(random, draft.result)) continue;
    return draft.result;
  }
}

}  // namespace tile::test
