// Type inference of scalar bodies (rules 4.8a and 5.2 to 5.7): a body of program text, with weak
// literals and without types, becomes a typed one (see Body in core/ir/body.h).
#pragma once

#include <functional>
#include <vector>

#include "core/ir/body.h"

namespace tile {

struct BodyTyping {
  std::vector<DType> load_types;  // the element type of each load slot
  std::function<int64_t(const Expr&, Span)> size;
  // Whether narrow integers wrap after each operation (elementwise statements) or only when stored
  // (contractions, rule 4.8a).
  bool wraps_narrow = false;
};

struct TypedBody {
  Body body;    // the result has the type that `result_type` asked for
  DType value;  // the body's own type: of the tensor that an elementwise statement makes
};

// `result_type` maps the body's own type to the type that its result shall have. Throws Failure of
// stage bind.
TypedBody type_body(const Body& body, const BodyTyping& typing,
                    const std::function<DType(DType)>& result_type);

// Op::uniform of two i64 nodes, spelled out in 64-bit integer operations (see uniform_bits in
// core/ir/scalar.h), so that every backend computes the same bits. Typed bodies have no
// Op::uniform.
NodeId add_uniform(Body& body, NodeId seed, NodeId counter);

}  // namespace tile
