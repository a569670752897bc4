#include "core/schedule/facts/piece_facts.h"

#include <algorithm>
#include <cmath>

#include "core/ir/operation_cost.h"
#include "core/kernel/forms/prepacking.h"
#include "core/kernel/forms/window.h"
#include "core/kernel/geometry.h"
#include "core/kernel/rows.h"
#include "core/schedule/facts/cost_cycles.h"

namespace tile {
namespace {

constexpr int64_t kLongestWindow = 16;  // of those whose taps are worth writing out

// How many neighbouring elements each point stores; 1: it is not so.
int components(const Piece& piece) {
  for (size_t o = 0; o < piece.stores.size(); ++o) {
    const Access& store = piece.stores[o];
    bool next = store.tensor == piece.stores[0].tensor && !store.index.empty() &&
                store.index.back().affine == constant_affine(static_cast<int64_t>(o));
    if (!next) return 1;
  }
  return static_cast<int>(piece.stores.size());
}

// How the iterators move the access, from its index.
void take_index(AccessFacts& m) {
  int64_t stride = 1;
  for (size_t d = m.shape.size(); d-- > 0;) {
    const Index& index = m.access->index[d];
    m.decided[d] = index.value >= 0 && !m.moves[d];
    m.gathers = m.gathers || m.decided[d];
    for (size_t u = 0; u < m.strides.size() && !m.decided[d]; ++u) {
      Rational factor = index.value >= 0 ? Rational((*m.moves[d])[u]) : index.affine.coefficient(u);
      if (factor.is_zero()) continue;
      m.strides[u] += factor.floor() * stride;
      m.steps[d].emplace_back(
          u, std::abs(static_cast<double>(factor.num())) / static_cast<double>(factor.den()));
      m.fixed = false;
    }
    stride *= std::max<int64_t>(m.shape[d], 1);
  }
}

// `load`: what the body says of it; null for a store.
AccessFacts access_facts(const Access& access, const PieceFacts& f, const BodyFacts::Load* load) {
  const BoundTensor& t = f.kernel.tensors[access.tensor];
  AccessFacts m;
  m.access = &access;
  m.shape = t.shape;
  m.bytes = static_cast<int>(byte_size(t.type));
  m.store = load == nullptr;
  bool packs = !is_gpu(f.target) && row_loops(f.kernel) == 0;
  m.kept = packs && !m.store && is_fixed(f.kernel.tensors, access.tensor);
  if (load != nullptr) m.times = std::max(1.0, load->times);
  if (load != nullptr) m.moves = load->moves;
  m.moves.resize(t.shape.size());
  m.decided.resize(t.shape.size());
  m.steps.resize(t.shape.size());
  m.strides.assign(f.piece.box.size(), 0);
  take_index(m);
  return m;
}

// Whether the aggregation adds a product.
bool is_fused(const Piece& piece, const Contraction& c) {
  const Node& root = piece.body[piece.body.results[0]];
  return c.aggregation == Aggregation::sum && root.op == Op::mul &&
         root.kind == NodeKind::operation && is_float(root.type);
}

// Of the widest type that is computed in.
int widest_bits(const PieceFacts& f, const BodyFacts& body) {
  int bits = std::max(body.bits, f.reduces ? bit_width(f.contraction.accumulator) : 8);
  if (f.reduces) return bits;
  for (const AccessFacts& a : f.accesses) {
    if (!a.fixed) bits = std::max(bits, a.bytes * 8);
  }
  // The components of a pixel are computed in one vector.
  return std::max(bits, std::min(32, bits * components(f.piece)));
}

double uses_of(const AccessFacts& a, const PieceFacts& f) {
  AccessBlock block = a.block(f.piece.box);
  return f.points() / std::max(1.0, block.exact * block.rows / a.bytes);
}

// Whether each reduction is the tap of a short window.
bool has_taps_only(const PieceFacts& f) {
  const Piece& piece = f.piece;
  for (size_t r = piece.parallel_dims; r < piece.box.size(); ++r) {
    bool tap = piece.box[r] == 1;
    for (size_t u = 0; u < piece.parallel_dims && piece.box[r] <= kLongestWindow; ++u) {
      tap = tap || (piece.box[r] <= piece.box[u] && f.slides(u, r));
    }
    if (!tap) return false;
  }
  return f.reduces;
}

}  // namespace

PieceFacts::PieceFacts(const Piece& of, const Contraction& of_contraction, const Kernel& of_kernel,
                       const Target& on)
    : piece(of), contraction(of_contraction), kernel(of_kernel), target(on) {
  BodyFacts known = body_facts(piece, [](const Node& node) { return cost_of(node.op).cycles; });
  for (size_t i = 0; i < piece.loads.size(); ++i) {
    accesses.push_back(access_facts(piece.loads[i], *this, &known.loads[i]));
  }
  for (const Access& a : piece.stores) accesses.push_back(access_facts(a, *this, nullptr));
  reduces = piece.parallel_dims < piece.box.size();
  lanes = std::max(1, target.vector_bits / widest_bits(*this, known));
  for (size_t i = 0; i < piece.loads.size(); ++i) {
    // A register tile converts an element once, however often it multiplies it.
    if (reduces) accesses[i].conversion = known.loads[i].conversion;
    if (!reduces) known.cycles += known.loads[i].conversion;
  }
  for (AccessFacts& a : accesses) a.uses = uses_of(a, *this);
  auto additions =
      static_cast<double>(piece.body.results.size()) - (is_fused(piece, contraction) ? 1 : 0);
  body = known.cycles + (reduces ? additions * kOperationCycles : 0);
  round = reduces ? body : known.round;
  chain = known.chain;
  cycle_ns = 2.0 * target.vector_bits / 32 / target.fma_per_ns;
  taps_only = has_taps_only(*this);
  row_waits = row_loops(kernel) > 0;
  is_window = window_form(piece, contraction).has_value();
}

double PieceFacts::points() const {
  double all = 1;
  for (int64_t extent : piece.box) all *= static_cast<double>(extent);
  return all;
}

bool PieceFacts::slides(size_t parallel_dim, size_t reduction) const {
  return std::any_of(accesses.begin(), accesses.end(), [&](const AccessFacts& a) {
    return !a.store && !a.gathers && a.strides[reduction] != 0 &&
           a.distinct_part(parallel_dim, piece.box[parallel_dim], reduction, piece.box[reduction]) <
               1;
  });
}

bool PieceFacts::packed_once(const PieceSchedule& s, const Packing& p) const {
  return load(p.load).kept && tile::packed_once(p, s, piece, kernel, target).has_value();
}

bool PieceFacts::shares_lines(size_t access, Range range) const {
  const AccessFacts& a = accesses[access];
  for (size_t i = 0; i < access; ++i) {
    if (accesses[i].store == a.store && are_near(a, accesses[i], range)) return true;
  }
  return false;
}

}  // namespace tile
