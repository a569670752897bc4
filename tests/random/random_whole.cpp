#include "tests/random/random_whole.h"

#include <algorithm>
#include <set>

#include "core/interpret/interpret.h"
#include "core/language/tile/tile.h"
#include "core/passes/bind/bind.h"
#include "tests/random/draw/workshop.h"

namespace tile::test {
namespace {

constexpr int kMostAttempts = 400;  // of statements, before another program is drawn

void draw_statement(CompilerContext& shop) {
  int64_t kind = shop.random.in(0, 99);
  if (kind < 30) return draw_cells(shop);
  if (kind < 55) return draw_sums(shop);
  if (kind < 72) return draw_windows(shop);
  if (kind < 87) return draw_whole_tensor(shop);
  draw_chain(shop);
}

void draw_inputs(CompilerContext& shop) {
  int64_t count = shop.random.in(1, 3);
  for (int64_t i = 0; i < count; ++i) {
    std::vector<std::string> dims;
    int64_t rank = shop.random.percent(70) ? 2 : shop.random.in(1, 4);
    for (int64_t d = 0; d < rank; ++d) dims.push_back(shop.any_dim());
    shop.input(shop.any_type(), dims);
  }
}

void draw_statements(CompilerContext& shop) {
  int64_t wanted = shop.random.percent(75) ? shop.random.in(5, 16) : shop.random.in(12, 40);
  draw_inputs(shop);
  for (int attempt = 0; std::ssize(shop.program.statements) < wanted; ++attempt) {
    if (attempt >= kMostAttempts) throw Redraw();
    CompilerContext::Mark mark = shop.mark();
    try {
      draw_statement(shop);
    } catch (const Redraw&) {
      shop.back_to(mark);
    }
  }
}

// All that nothing reads, mostly, the last one in any case, and some that statements read too.
void choose_outputs(CompilerContext& shop) {
  WholeProgram& p = shop.program;
  std::set<std::string> read;
  for (const WholeStatement& s : p.statements) {
    for (const std::string& word : words_of(s.text)) {
      if (word != s.result) read.insert(word);
    }
  }
  for (const WholeStatement& s : p.statements) {
    bool last = &s == &p.statements.back();
    if (last || shop.random.percent(read.contains(s.result) ? 12 : 85))
      p.outputs.push_back(s.result);
  }
}

std::vector<std::string> some_floats(CompilerContext& shop) {
  std::vector<std::string> names;
  for (const WholeInput& input : shop.program.inputs) {
    if (is_float(input.type)) names.push_back(input.name);
  }
  while (names.size() > 1 && shop.random.percent(35)) {
    names.erase(names.begin() + shop.random.in(0, std::ssize(names) - 1));
  }
  return names;
}

// Differentiates a float output once, or twice; Redraw where nothing can be.
void choose_gradients(CompilerContext& shop, int order) {
  WholeProgram& p = shop.program;
  std::vector<std::string> floats;
  for (const std::string& name : p.outputs) {
    auto made = std::find_if(shop.made().begin(), shop.made().end(),
                             [&](const Made& m) { return m.name == name; });
    if (is_float(made->type)) floats.push_back(name);
  }
  std::vector<std::string> wrt = some_floats(shop);
  if (floats.empty() || wrt.empty()) throw Redraw();
  p.gradients.push_back({shop.random.pick(floats), wrt});
  if (order == 2) p.gradients.push_back({"D" + shop.random.pick(wrt), some_floats(shop)});
}

WholeProgram drawn(RandomSource& random) {
  WholeOptions options;
  int64_t kind = random.in(0, 99);
  int order = kind < 60 ? 0 : kind < 86 ? 1 : 2;
  options.floats = order > 0;
  options.inexact = random.percent(order > 0 ? 60 : 40);
  options.real_values = options.inexact && random.percent(70);
  options.special = order == 0 && !options.inexact && random.percent(6);
  CompilerContext shop(random, options);
  draw_statements(shop);
  choose_outputs(shop);
  if (order > 0) choose_gradients(shop, order);
  shop.program.special = options.special;
  if (!within_limits(shop.program)) throw Redraw();
  return shop.program;
}

}  // namespace

bool within_limits(const WholeProgram& program) {
  InterpretOptions limits;
  limits.point_limit = 1 << 20;
  limits.byte_limit = 1 << 26;
  try {
    WholeCase c = case_of(program);
    auto source = std::make_shared<const Source>(Source{"whole.tile", c.drawn.text});
    interpret(tile::bind(parse_tile(source), c.drawn.types), c.drawn.inputs, limits);
  } catch (const Failure& failure) {
    return failure.diagnostic().code != "limit";
  }
  return true;
}

WholeProgram random_whole(uint64_t seed) {
  RandomSource random(seed ^ 0x77686f6c65);
  while (true) {
    try {
      return drawn(random);
    } catch (const Redraw&) {
    }
  }
}

}  // namespace tile::test
