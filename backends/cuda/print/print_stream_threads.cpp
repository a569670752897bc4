// Streams whose factors are f32: threads multiply, since tensor cores would round them. A lane has
// two or four rows, eight apart, and of each sixteen columns four neighbours. Lanes that differ in
// their lowest bit or the third have the same row, those that differ in others the same columns: so
// that in every load of 16 bytes some neighbours ask for the same ones, and two trips to shared
// memory serve a warp instead of four. (CUTLASS interleaves the lanes of its SIMT products alike.)
#include <algorithm>
#include <functional>

#include "backends/cuda/print/stream_layout.h"
#include "core/kernel/forms/gpu_stream.h"
#include "core/support/checked.h"
#include "core/support/diagnostic.h"

namespace tile::cuda {

using nest::Scope;

namespace {

std::string number(int64_t n) { return std::to_string(n); }

void each_product(const nest::Block& block,
                  const std::function<void(const nest::MatrixTile&)>& take) {
  for (const nest::Statement& s : block) {
    if (const auto* product = std::get_if<nest::MatrixTile>(&s.what)) take(*product);
    if (const auto* loop = std::get_if<nest::For>(&s.what)) each_product(loop->body, take);
  }
}

}  // namespace

// The rows of a lane, and room for one block of weights.
void Printer::place_exchange(const nest::Block& body, StreamLayout& l) const {
  int64_t columns = 0, weights = 0;
  each_product(body, [&](const nest::MatrixTile& m) {
    columns += buffer(m.sum).shape[1];
    if (buffer(m.a).scope == Scope::fragment) weights = std::max(weights, buffer(m.a).shape[1]);
  });
  l.lane_rows = gpu::rows_of_a_lane(columns);
  int64_t bytes = weights * static_cast<int64_t>(sizeof(float));
  l.exchange_bytes = l.rows * ceil_div(bytes, kStreamLineBytes) * kStreamLineBytes;
}

void Printer::place_lanes() {
  const StreamLayout& l = *stream_;
  line(
      "const int row_lane = lane / 8 * 2 + lane / 2 % 2, column_lane = lane / 4 % 2 * 2 + lane % "
      "2;");
  line("int first_row = warp * " + number(l.warp_rows()) +
       " + row_lane, first_column = column_lane * 4;");
  line("unsigned char* const blocks = shared_memory + (base - stream_address(shared_memory));");
  line("unsigned char* const exchange = blocks + " + number(l.exchange_at()) + " + warp * " +
       number(l.exchange_bytes / l.rows * l.warp_rows()) + ";");
}

// Of a lane's element in a fragment of f32.
std::string Printer::cell_number() const { return number(2 * stream_->lane_rows) + " * n + i"; }

// The function that combines what the four lanes of a row have.
std::string Printer::of_row(const std::string& function) const {
  return stream_->by_threads ? function + "<4>" : function;
}

void Printer::multiply_by_threads(const nest::MatrixTile& m) {
  const nest::Buffer& a = buffer(m.a);
  const nest::Buffer& b = buffer(m.b);
  bool registers = a.scope == Scope::fragment;
  internal_check(!m.a_transposed && m.b_transposed != registers, "cuda: a stream's product");
  auto place = [&](nest::BufferId id) { return "blocks + (" + stream_place(id) + " - base)"; };
  const std::string sizes = "<" + number(stream_->lane_rows) + ", " +
                            number(buffer(m.sum).shape[1]) + ", " + number(a.shape[1]) + ", ";
  if (registers) {
    line("stream_weighed" + sizes + number(b.shape[0]) + ">(" + names_[m.sum] + ", " + names_[m.a] +
         ", exchange, " + place(m.b) + ", row_lane, column_lane);");
  } else {
    line("stream_scores" + sizes + number(a.shape[0]) + ", " + number(b.shape[0]) + ">(" +
         names_[m.sum] + ", " + place(m.a) + ", " + place(m.b) + ", first_row, column_lane);");
  }
}

}  // namespace tile::cuda
