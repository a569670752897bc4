#include "tests/support/schedule_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/kernel/geometry.h"
#include "core/nest/passes/nest_passes.h"
#include "core/schedule/legality/legality.h"
#include "tests/support/random_schedule.h"

namespace tile::testing {

TensorId KernelBuilder::tensor(const std::string& name, DType type, Shape shape) {
  BoundTensor t;
  t.name = name;
  t.type = type;
  t.shape = std::move(shape);
  return kernel.tensors.add(t);
}

Affine KernelBuilder::affine(const std::string& text, const std::vector<std::string>& iterators) {
  std::optional<LinearForm> form = linear_form(parse_expr(text));
  EXPECT_TRUE(form.has_value()) << text;
  Affine a = constant_affine(form->constant);
  for (const auto& [name, factor] : form->terms) {
    auto it = std::find(iterators.begin(), iterators.end(), name);
    EXPECT_NE(it, iterators.end()) << name;
    a = a + iterator_affine(static_cast<size_t>(it - iterators.begin())) * Rational(factor);
  }
  return a;
}

KernelStage& KernelBuilder::stage(TensorId output, Aggregation aggregation, DType accumulator,
                                  std::vector<PieceText> pieces) {
  KernelStage s;
  Contraction& c = s.contraction;
  c.outputs = {output};
  c.aggregation = aggregation;
  c.accumulator = accumulator;
  c.normalized = true;
  for (PieceText& text : pieces) {
    Piece p;
    p.iterators = IdVector<IteratorId, std::string>(text.iterators);
    p.box = IterationBox(text.box);
    p.parallel_dims = text.parallel_dims;
    auto access = [&](TensorId tensor, const std::vector<std::string>& indices) {
      Access a;
      a.tensor = tensor;
      for (const std::string& e : indices) a.index.push_back({affine(e, p.iterators)});
      return a;
    };
    p.stores = {access(output, text.store)};
    std::vector<NodeId> loaded;
    for (const auto& [tensor, indices] : text.loads) {
      p.loads.push_back(access(tensor, indices));
      DType type = kernel.tensors[tensor].type;
      NodeId node = p.body.load(p.loads.size() - 1, type);
      loaded.push_back(p.body.cast(node, compute_type(type)));
    }
    p.body.results = {text.body(p.body, loaded)};
    for (const auto& [form, lo, hi] : text.constraints) {
      p.constraints.push_back({affine(form, p.iterators), lo, hi, true});
    }
    c.pieces.push_back(std::move(p));
  }
  kernel.stages.push_back(std::move(s));
  return kernel.stages.back();
}

Kernel KernelBuilder::finish() {
  auto once = [](std::vector<TensorId>& list, TensorId id) {
    if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
  };
  kernel.name = "test";
  std::vector<TensorId> made;
  for (const KernelStage& s : kernel.stages) {
    for (const Piece& p : s.contraction.pieces) {
      for (const Access& a : p.loads) {
        if (std::find(made.begin(), made.end(), a.tensor) == made.end())
          once(kernel.reads, a.tensor);
      }
    }
    if (s.contraction.fill) once(kernel.reads, *s.contraction.fill);
    for (TensorId out : s.contraction.outputs) {
      made.push_back(out);
      if (s.residence == Residence::global) once(kernel.writes, out);
    }
  }
  return kernel;
}

Values small_integers(const Kernel& kernel, uint64_t seed) {
  std::mt19937_64 random(seed);
  Values values;
  for (const BoundTensor& t : kernel.tensors) {
    HostTensor h(t.type, t.shape);
    for (int64_t i = 0; i < h.count(); ++i) {
      h.set(i, integer_scalar(static_cast<int64_t>(random() % 7) - 3, t.type));
    }
    values.push_back(std::move(h));
  }
  return values;
}

namespace {

int64_t flat(const HostTensor& t, const Access& a, const std::vector<int64_t>& x) {
  int64_t at = 0;
  for (size_t d = 0; d < a.index.size(); ++d) {
    Rational v = a.index[d].affine.evaluate(x);
    EXPECT_TRUE(v.is_integer() && v.num() >= 0 && v.num() < t.shape[d]) << "an access out of range";
    at = at * t.shape[d] + v.num();
  }
  return at;
}

Scalar body_value(const Piece& p, const Values& values, const std::vector<int64_t>& x) {
  IdVector<NodeId, Scalar> nodes;
  for (const Node& n : p.body.nodes) {
    Scalar v;
    std::vector<Scalar> args;
    for (NodeId a : n.args) args.push_back(nodes[a]);
    if (n.kind == NodeKind::integer) v = integer_scalar(n.integer, n.type);
    if (n.kind == NodeKind::real) v = real_scalar(n.real, n.type);
    if (n.kind == NodeKind::index) v = integer_scalar(x[n.slot], n.type);
    if (n.kind == NodeKind::load) {
      const Access& a = p.loads[n.slot];
      const HostTensor& t = values[a.tensor];
      v = t.at(flat(t, a, x));
    }
    if (n.kind == NodeKind::operation) {
      v = n.op == Op::cast ? convert(args[0], n.type) : evaluate(n.op, n.type, args);
    }
    nodes.push_back(v);
  }
  return nodes[p.body.results[0]];
}

Scalar merge(Aggregation aggregation, DType type, const Scalar& a, const Scalar& b) {
  Scalar operands[2] = {a, b};
  switch (aggregation) {
    case Aggregation::sum:
      return evaluate(Op::add, type, operands);
    case Aggregation::product:
      return evaluate(Op::mul, type, operands);
    case Aggregation::max:
      return evaluate(Op::max, type, operands);
    case Aggregation::min:
      return evaluate(Op::min, type, operands);
    case Aggregation::assign:
      break;
  }
  return b;
}

bool valid(const Piece& p, const std::vector<int64_t>& x) {
  return std::all_of(p.constraints.begin(), p.constraints.end(), [&](const Constraint& c) {
    Rational v = c.form.evaluate(x);
    return v >= Rational(c.lo) && v < Rational(c.hi);
  });
}

void points(const Piece& p, size_t u, std::vector<int64_t>& x, const std::function<void()>& visit) {
  if (u == p.box.size()) {
    if (valid(p, x)) visit();
    return;
  }
  for (x[u] = 0; x[u] < p.box[u]; ++x[u]) points(p, u + 1, x, visit);
}

}  // namespace

void brute_force(const Kernel& kernel, Values& values) {
  for (const KernelStage& s : kernel.stages) {
    const Contraction& c = s.contraction;
    auto id = c.outputs[0].index();
    HostTensor out(kernel.tensors[id].type, kernel.tensors[id].shape);
    std::map<int64_t, Scalar> cells;
    for (const Piece& p : c.pieces) {
      std::vector<int64_t> x(p.box.size(), 0);
      points(p, 0, x, [&] {
        Scalar v = convert(body_value(p, values, x), c.accumulator);
        int64_t at = flat(out, p.stores[0], x);
        auto [it, first] = cells.try_emplace(at, v);
        if (!first) it->second = merge(c.aggregation, c.accumulator, it->second, v);
      });
    }
    for (int64_t i = 0; i < out.count(); ++i) {
      auto it = cells.find(i);
      if (it != cells.end()) {
        out.set(i, convert(it->second, out.type));
      } else if (c.fill) {
        out.set(i, values[*c.fill].at(i));
      }
    }
    values[id] = std::move(out);
  }
}

Values prepacked_copies(const Kernel& kernel, const Schedule& schedule, const Target& target,
                        const Values& inputs) {
  Values copies;
  for (const Prepacking& p : prepackings(kernel, schedule, target)) {
    nest::verify(p.nest);
    HostTensor source = inputs[p.source];
    const nest::Buffer& b = p.nest.buffers.at(1);
    HostTensor whole(b.type, b.shape), parts(b.type, b.shape);
    std::vector<HostTensor*> arguments{&source, &whole};
    nest::interpret(p.nest, arguments);
    arguments[1] = &parts;
    nest::interpret(nest::run_passes(p.nest, target), arguments);
    internal_check(whole.bytes == parts.bytes, "a partitioned prepacking makes another copy");
    copies.push_back(std::move(whole));
  }
  return copies;
}

Values run_nest(const nest::Nest& nest, const Kernel& kernel, const Values& inputs,
                nest::NestCounts* counts, Values prepared) {
  Values values = inputs;
  for (TensorId id : kernel.writes) {
    std::fill(values[id].bytes.begin(), values[id].bytes.end(), std::byte{0x7e});
  }
  std::vector<HostTensor*> arguments;
  for (TensorId id : kernel.reads) {
    bool written = std::find(kernel.writes.begin(), kernel.writes.end(), id) != kernel.writes.end();
    if (!written) arguments.push_back(&values[id]);
  }
  for (TensorId id : kernel.writes) arguments.push_back(&values[id]);
  for (HostTensor& copy : prepared) arguments.push_back(&copy);
  nest::interpret(nest, arguments, {}, counts);
  return values;
}

std::string difference(const Kernel& kernel, const Values& a, const Values& b) {
  for (TensorId id : kernel.writes) {
    const HostTensor& x = a[id];
    const HostTensor& y = b[id];
    for (int64_t i = 0; i < x.count(); ++i) {
      Scalar p = x.at(i), q = y.at(i);
      bool equal = same_value(p, q) || (is_float(p.type) && p.f == q.f);
      if (equal) continue;
      return kernel.tensors[id].name + " element " + std::to_string(i) + ": " +
             std::to_string(is_float(p.type) ? p.f : static_cast<double>(p.i)) + " and " +
             std::to_string(is_float(q.type) ? q.f : static_cast<double>(q.i));
    }
  }
  return {};
}

void expect_schedule_agrees(const Kernel& kernel, const Schedule& schedule, const Target& target,
                            const Values& inputs, const Values& expected) {
  ASSERT_EQ(illegal(schedule, kernel, target), "");
  ASSERT_EQ(parse_schedule(print(schedule)), schedule);
  SCOPED_TRACE(print(schedule));
  try {
    nest::Nest nest = lower(kernel, schedule, target);
    nest::verify(nest);
    Values copies = prepacked_copies(kernel, schedule, target, inputs);
    ASSERT_EQ(difference(kernel, expected, run_nest(nest, kernel, inputs, nullptr, copies)), "")
        << nest::print(nest);
    nest::Nest parts = nest::run_passes(nest, target);
    nest::verify(parts);
    ASSERT_EQ(difference(kernel, expected, run_nest(parts, kernel, inputs, nullptr, copies)), "")
        << nest::print(nest) << nest::print(parts);
  } catch (const InternalError& e) {
    FAIL() << e.what() << "\n" << nest::print(lower(kernel, schedule, target));
  }
}

void expect_all_schedules_agree(const Kernel& kernel, int count, uint64_t first_seed) {
  Values inputs = small_integers(kernel, 7);
  Values expected = inputs;
  brute_force(kernel, expected);
  for (int i = -1; i < count; ++i) {
    Target target = i % 2 == 0 ? small_target() : wide_target();
    Schedule schedule =
        i < 0 ? plain_schedule(kernel)
              : random_schedule(kernel, target, first_seed + static_cast<uint64_t>(i));
    expect_schedule_agrees(kernel, schedule, target, inputs, expected);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

void expect_chosen_schedules_agree(const Kernel& kernel, const Values& inputs, int wanted,
                                   uint64_t seeds,
                                   const std::function<bool(const Schedule&)>& chosen,
                                   const std::vector<Target>& targets) {
  Values expected = inputs;
  brute_force(kernel, expected);
  int tried = 0;
  for (uint64_t seed = 1; seed < seeds && tried < wanted; ++seed) {
    Target target = seed % 2 == 0 ? small_target() : wide_target();
    if (!targets.empty()) target = targets[seed % targets.size()];
    Schedule schedule = random_schedule(kernel, target, seed);
    if (!chosen(schedule)) continue;
    ++tried;
    expect_schedule_agrees(kernel, schedule, target, inputs, expected);
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_EQ(tried, wanted);
}

Target small_target() {
  Target t;
  t.device = "cpu";
  t.threads = 2;
  return t;
}
Target wide_target() {
  Target t = small_target();
  t.vector_bits = 512;
  t.vector_registers = 32;
  t.threads = 8;
  return t;
}
Target tile_target() {
  Target t = wide_target();
  t.tiles.count = 8;
  t.tiles.bf16_per_ns = 16 * t.fma_per_ns;
  t.tiles.i8_per_ns = 32 * t.fma_per_ns;
  return t;
}

}  // namespace tile::testing
