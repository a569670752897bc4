// Programs with what MFG and Lift add to Tile's contractions, written by hand.
#pragma once

#include <initializer_list>

#include "core/pipeline/pipeline.h"
#include "core/target/target.h"
#include "tests/support/run_tile.h"

namespace tile::test {

// A program of typed contractions under construction.
class TypedProgram {
 public:
  Program program;

  TypedProgram() { program.source = std::make_shared<const Source>(Source{"typed", ""}); }

  TensorId input(const std::string& name, std::vector<std::string> dims, DType type) {
    Tensor t;
    t.name = name;
    t.ranked = true;
    for (const std::string& d : dims) t.dims.push_back(parse_expr(d));
    t.type = type;
    program.inputs.push_back(add(std::move(t)));
    return program.inputs.back();
  }
  // A statement; the last one's result is an output too if `output`.
  TensorId statement(const std::string& name, StatementKind what, bool output = true) {
    Tensor t;
    t.name = name;
    Statement s;
    s.result = add(std::move(t));
    s.what = std::move(what);
    program.statements.push_back(std::move(s));
    if (output) program.outputs.push_back(program.statements.back().result);
    return program.statements.back().result;
  }

 private:
  TensorId add(Tensor t) { return program.tensors.add(std::move(t)); }
};

inline std::vector<Expr> exprs(std::initializer_list<const char*> texts) {
  std::vector<Expr> list;
  for (const char* text : texts) list.push_back(parse_expr(text));
  return list;
}

// indices -> [out_index : out_size], body typed.
inline SymbolicContraction typed_contraction(std::vector<std::string> indices,
                                             std::vector<Expr> out_index,
                                             std::vector<Expr> out_size,
                                             Aggregation aggregation = Aggregation::assign) {
  SymbolicContraction c;
  c.indices = std::move(indices);
  c.out_index = std::move(out_index);
  c.out_size = std::move(out_size);
  c.aggregation = aggregation;
  c.typed = true;
  return c;
}

inline SymbolicAccess typed_access(TensorId tensor, std::vector<Expr> index,
                                   std::vector<Boundary> boundary = {},
                                   std::vector<int> values = {}) {
  SymbolicAccess a;
  a.tensor = tensor;
  a.index = std::move(index);
  a.boundary = std::move(boundary);
  a.values = std::move(values);
  return a;
}

// Binds, and runs as bound and after every tensor-level pass: all must agree bit by bit. Returns
// the outputs.
inline std::vector<HostTensor> run_through_passes(const Program& program,
                                                  const std::vector<HostTensor>& inputs) {
  BoundProgram bound = tile::bind(program, types_of(inputs));
  verify(bound);
  check_assignments(bound);
  std::vector<HostTensor> want = interpret(bound, inputs).outputs;
  PipelineOptions options;
  options.after = [&](std::string_view pass, const BoundProgram& p) {
    std::vector<HostTensor> got = interpret(p, inputs).outputs;
    for (size_t o = 0; o < want.size(); ++o) {
      EXPECT_EQ(got[o].bytes, want[o].bytes) << "after " << pass << ":\n" << print(p);
    }
    SourcePtr text = std::make_shared<const Source>(Source{"bound", print(p)});
    EXPECT_EQ(print(parse_bound(text)), print(p));
  };
  run_pipeline(bound, Target{}, options);
  return want;
}

}  // namespace tile::test
