// Kernels of each class.
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

NodeId product(Body& b, const std::vector<NodeId>& loads) {
  return b.operation(Op::mul, {loads[0], loads[1]}, b[loads[0]].type);
}
NodeId alone(Body&, const std::vector<NodeId>& loads) { return loads[0]; }
DType accumulator_of(DType type) { return compute_type(type); }

}  // namespace

Kernel matrix_product(int64_t m, int64_t n, int64_t k, DType type) {
  KernelBuilder b;
  TensorId A = b.tensor("A", type, {m, k}), B = b.tensor("B", type, {k, n});
  TensorId C = b.tensor("C", type, {m, n});
  b.stage(C, Aggregation::sum, accumulator_of(type),
          {{{"m", "n", "k"},
            {m, n, k},
            2,
            {"m", "n"},
            {{A, {"m", "k"}}, {B, {"k", "n"}}},
            {},
            product}});
  return b.finish();
}

Kernel matrix_bias_gelu(int64_t m, int64_t n, int64_t k) {
  KernelBuilder b;
  TensorId A = b.tensor("A", DType::f32, {m, k}), B = b.tensor("B", DType::f32, {k, n});
  TensorId C = b.tensor("C", DType::f32, {m, n}), bias = b.tensor("bias", DType::f32, {n});
  TensorId D = b.tensor("D", DType::f32, {m, n}), E = b.tensor("E", DType::f32, {m, n});
  b.stage(C, Aggregation::sum, DType::f32,
          {{{"m", "n", "k"},
            {m, n, k},
            2,
            {"m", "n"},
            {{A, {"m", "k"}}, {B, {"k", "n"}}},
            {},
            product}})
      .residence = Residence::registers;
  KernelStage& add = b.stage(D, Aggregation::assign, DType::f32,
                             {{{"i", "j"},
                               {m, n},
                               2,
                               {"i", "j"},
                               {{C, {"i", "j"}}, {bias, {"j"}}},
                               {},
                               [](Body& body, const std::vector<NodeId>& l) {
                                 return body.operation(Op::add, {l[0], l[1]}, DType::f32);
                               }}});
  add.attach = StageId(0);
  add.residence = Residence::registers;
  b.stage(E, Aggregation::assign, DType::f32,
          {{{"i", "j"},
            {m, n},
            2,
            {"i", "j"},
            {{D, {"i", "j"}}, {D, {"i", "j"}}},
            {},
            [](Body& body, const std::vector<NodeId>& l) {
              NodeId g = body.operation(Op::gelu, {l[0]}, DType::f32);
              return body.operation(Op::add, {g, l[1]}, DType::f32);
            }}})
      .attach = StageId(0);
  return b.finish();
}

Kernel convolution(int64_t batch, int64_t size, int64_t in, int64_t out, int64_t taps,
                   int64_t stride, int64_t pad) {
  KernelBuilder b;
  int64_t result = (size + 2 * pad - taps) / stride + 1;
  TensorId I = b.tensor("I", DType::f32, {batch, size, size, in});
  TensorId K = b.tensor("K", DType::f32, {taps, taps, in, out});
  TensorId O = b.tensor("O", DType::f32, {batch, result, result, out});
  std::string s = std::to_string(stride), p = std::to_string(pad);
  std::string row = s + "*y + r - " + p, column = s + "*x + s - " + p;
  KernelBuilder::PieceText piece{{"b", "y", "x", "o", "r", "s", "c"},
                                 {batch, result, result, out, taps, taps, in},
                                 4,
                                 {"b", "y", "x", "o"},
                                 {{I, {"b", row, column, "c"}}, {K, {"r", "s", "c", "o"}}},
                                 {},
                                 product};
  if (pad > 0) piece.constraints = {{row, 0, size}, {column, 0, size}};
  b.stage(O, Aggregation::sum, DType::f32, {piece});
  return b.finish();
}

Kernel filter_gradient(int64_t batch, int64_t size, int64_t in, int64_t out, int64_t taps,
                       int64_t pad) {
  KernelBuilder b;
  int64_t result = size + 2 * pad - taps + 1;
  TensorId I = b.tensor("I", DType::f32, {batch, size, size, in});
  TensorId S = b.tensor("S", DType::f32, {batch, result, result, out});
  TensorId K = b.tensor("K", DType::f32, {taps, taps, in, out});
  std::string row = "y + r - " + std::to_string(pad), column = "x + s - " + std::to_string(pad);
  b.stage(K, Aggregation::sum, DType::f32,
          {{{"r", "s", "c", "o", "b", "y", "x"},
            {taps, taps, in, out, batch, result, result},
            4,
            {"r", "s", "c", "o"},
            {{I, {"b", row, column, "c"}}, {S, {"b", "y", "x", "o"}}},
            {{row, 0, size}, {column, 0, size}},
            product}});
  return b.finish();
}

Kernel depthwise(int64_t size, int64_t channels, int64_t taps) {
  KernelBuilder b;
  TensorId I = b.tensor("I", DType::f32, {size, channels}),
           K = b.tensor("K", DType::f32, {taps, channels});
  TensorId O = b.tensor("O", DType::f32, {size, channels});
  std::string at = "x + r - " + std::to_string(taps / 2);
  b.stage(O, Aggregation::sum, DType::f32,
          {{{"x", "c", "r"},
            {size, channels, taps},
            2,
            {"x", "c"},
            {{I, {at, "c"}}, {K, {"r", "c"}}},
            {{at, 0, size}},
            product}});
  return b.finish();
}

Kernel max_pool(int64_t size, int64_t channels, int64_t taps, int64_t stride, int64_t pad) {
  KernelBuilder b;
  int64_t result = (size + 2 * pad - taps) / stride + 1;
  TensorId I = b.tensor("I", DType::f32, {size, size, channels});
  TensorId O = b.tensor("O", DType::f32, {result, result, channels});
  std::string s = std::to_string(stride), p = std::to_string(pad);
  std::string row = s + "*y + r - " + p, column = s + "*x + s - " + p;
  b.stage(O, Aggregation::max, DType::f32,
          {{{"y", "x", "c", "r", "s"},
            {result, result, channels, taps, taps},
            3,
            {"y", "x", "c"},
            {{I, {row, column, "c"}}},
            {{row, 0, size}, {column, 0, size}},
            alone}});
  return b.finish();
}

Kernel row_sum(int64_t rows, int64_t columns, bool columns_first) {
  KernelBuilder b;
  Shape shape = columns_first ? Shape{columns, rows} : Shape{rows, columns};
  TensorId I = b.tensor("I", DType::f32, shape), O = b.tensor("O", DType::f32, {rows});
  std::vector<std::string> index = {"i", "j"};
  if (columns_first) index = {"j", "i"};
  b.stage(O, Aggregation::sum, DType::f32,
          {{{"i", "j"}, {rows, columns}, 1, {"i"}, {{I, index}}, {}, alone}});
  return b.finish();
}

Kernel prefix_sum(int64_t n) {
  KernelBuilder b;
  TensorId I = b.tensor("I", DType::f32, {n}), O = b.tensor("O", DType::f32, {n});
  b.stage(O, Aggregation::sum, DType::f32,
          {{{"i", "j"}, {n, n}, 1, {"i"}, {{I, {"j"}}}, {{"i - j", 0, n}}, alone}});
  return b.finish();
}

Kernel normalised_rows(int64_t rows, int64_t columns, bool columns_first, bool causal) {
  KernelBuilder b;
  Shape shape = columns_first ? Shape{columns, rows} : Shape{rows, columns};
  std::vector<std::string> index = {"i", "j"}, other = {"q", "p"};
  if (columns_first) std::swap(index[0], index[1]);
  if (!columns_first) std::swap(other[0], other[1]);
  TensorId A = b.tensor("A", DType::f32, shape), M = b.tensor("M", DType::f32, {rows});
  TensorId E = b.tensor("E", DType::f32, shape), S = b.tensor("S", DType::f32, {rows});
  TensorId T = b.tensor("T", DType::f32, {rows}), O = b.tensor("O", DType::f32, shape);
  auto binary = [](Op op) {
    return [op](Body& body, const std::vector<NodeId>& l) {
      return body.operation(op, {l[0], l[1]}, DType::f32);
    };
  };
  auto in_row = [](KernelStage& stage, IteratorId row, Residence residence) {
    stage.rows = {row};
    stage.residence = residence;
  };
  KernelBuilder::PieceText whole{{"i", "j"}, {rows, columns}, 1, {"i"}, {{A, index}}, {}, alone};
  in_row(b.stage(M, Aggregation::max, DType::f32, {whole}), IteratorId(0), Residence::row);
  // The row is the second iterator here.
  KernelBuilder::PieceText apart{{"q", "p"}, {columns, rows}, 2, other, {{A, other}, {M, {"p"}}},
                                 {},         binary(Op::sub)};
  in_row(b.stage(E, Aggregation::assign, DType::f32, {apart}), IteratorId(1), Residence::row);
  KernelBuilder::PieceText squares{{"i", "j"}, {rows, columns}, 1, {"i"}, {{E, index}, {E, index}},
                                   {},         product};
  if (causal) squares.constraints = {{"i - j", 0, rows}};
  in_row(b.stage(S, Aggregation::sum, DType::f32, {squares}), IteratorId(0), Residence::registers);
  auto more = [](Body& body, const std::vector<NodeId>& l) {
    return body.operation(Op::add, {l[0], body.real(1, DType::f32)}, DType::f32);
  };
  KernelStage& attached = b.stage(T, Aggregation::assign, DType::f32,
                                  {{{"i"}, {rows}, 1, {"i"}, {{S, {"i"}}}, {}, more}});
  attached.attach = StageId(2);
  attached.residence = Residence::row;
  KernelBuilder::PieceText scaled{{"i", "j"}, {rows, columns}, 2, index, {{E, index}, {T, {"i"}}},
                                  {},         product};
  in_row(b.stage(O, Aggregation::assign, DType::f32, {scaled}), IteratorId(0), Residence::global);
  return b.finish();
}

Kernel scaled_copy(Shape shape) {
  KernelBuilder b;
  TensorId I = b.tensor("I", DType::f32, shape), O = b.tensor("O", DType::f32, shape);
  std::vector<std::string> names;
  for (size_t d = 0; d < shape.size(); ++d) names.push_back("i" + std::to_string(d));
  b.stage(O, Aggregation::assign, DType::f32,
          {{names,
            shape,
            shape.size(),
            names,
            {{I, names}},
            {},
            [](Body& body, const std::vector<NodeId>& l) {
              return body.operation(Op::mul, {l[0], body.real(2, DType::f32)}, DType::f32);
            }}});
  return b.finish();
}

Kernel transpose(int64_t rows, int64_t columns) {
  KernelBuilder b;
  TensorId I = b.tensor("I", DType::f32, {rows, columns}),
           O = b.tensor("O", DType::f32, {columns, rows});
  b.stage(O, Aggregation::assign, DType::f32,
          {{{"i", "j"}, {columns, rows}, 2, {"i", "j"}, {{I, {"j", "i"}}}, {}, alone}});
  return b.finish();
}

}  // namespace tile::testing
