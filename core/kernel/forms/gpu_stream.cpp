#include "core/kernel/forms/gpu_stream.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/ir/analysis/accesses.h"
#include "core/kernel/coverage.h"
#include "core/kernel/rows.h"
#include "core/kernel/stream.h"
#include "core/support/checked.h"

namespace tile::gpu {
namespace {

constexpr int64_t kSwizzledBytes = 128;  // of a row of shared memory
// Of barriers in shared memory: two for each stage, one for each group of four warps, and two.
constexpr int64_t kBarrierBytes = 8;
constexpr int64_t kGroupRows = 64;
constexpr int64_t kTensorCoreDepth = 16;  // terms that one instruction multiplies
// Sums of a lane with four rows, in registers: with the factors that are loaded ahead, and what a
// row has beside its sums, they fill the 255 that a thread may have.
constexpr int64_t kMostLaneSums = 176;
constexpr int64_t kColumnLanes = 4;  // lanes of a warp that have different columns

bool narrow_float(DType type) { return type == DType::f16 || type == DType::bf16; }

// The factors of the products that a sum adds up, one of which may be rounded.
std::optional<std::pair<NodeId, NodeId>> weighted_product(const Body& body) {
  if (auto exact = score_product(body)) return exact;
  std::optional<Factors> factors = rounded_product(body);
  return factors ? std::optional(std::pair(factors->exact, factors->rounded)) : std::nullopt;
}

bool is_sum_in_f32(const Contraction& c) {
  return c.aggregation == Aggregation::sum && c.accumulator == DType::f32 && c.outputs.size() == 1;
}

// What the stages of a kernel read, and over what they run.
class StageReader {
 public:
  explicit StageReader(const Kernel& kernel) : kernel_(kernel) {}

 protected:
  const Contraction& contraction(size_t s) const { return kernel_.stages[s].contraction; }
  const Piece& piece(size_t s) const { return contraction(s).pieces[0]; }
  IteratorId iterator(size_t stage, RowId row) const { return kernel_.stages[stage].rows[row]; }
  static Rational coefficient(const Index& index, IteratorId u) {
    return index.affine.coefficient(u);
  }

  // Every thread computes whole elements of its own: loops inside would run for each.
  bool bodies_fit() const {
    for (const KernelStage& s : kernel_.stages) {
      if (s.contraction.outputs.size() != 1 || s.contraction.fill) return false;
      const IdVector<NodeId, Node>& nodes = s.contraction.pieces[0].body.nodes;
      bool loops = std::any_of(nodes.begin(), nodes.end(),
                               [](const Node& n) { return n.kind == NodeKind::fold; });
      if (loops) return false;
    }
    return true;
  }

  // Iterators beside the rows and the streamed axis have one value; but `more` parallel dimensions
  // and `reduced` reductions, which are added to the lists.
  bool box_fits(size_t s, std::vector<IteratorId>* more, std::vector<IteratorId>* reduced) const {
    const KernelStage& stage = kernel_.stages[s];
    const Piece& p = piece(s);
    for (size_t u = 0; u < p.box.size(); ++u) {
      IteratorId at(u);
      bool shared = at == stage.stream ||
                    std::find(stage.rows.begin(), stage.rows.end(), at) != stage.rows.end();
      if (shared) continue;
      std::vector<IteratorId>* list = u < p.parallel_dims ? more : reduced;
      if (p.box[u] == 1 && u < p.parallel_dims) continue;
      if (list == nullptr) return false;
      list->push_back(at);
    }
    return true;
  }

  // The dimension that the iterator alone moves along by whole steps, if there is one.
  static std::optional<size_t> dimension_of(const Access& access, IteratorId u) {
    std::optional<size_t> found;
    for (size_t d = 0; d < access.index.size(); ++d) {
      const Index& index = access.index[d];
      if (!is_plain_index(index) || !index.affine.is_integral()) {
        return std::nullopt;
      }
      if (coefficient(index, u).is_zero()) continue;
      if (found || coefficient(index, u) < Rational(1)) return std::nullopt;
      found = d;
    }
    return found;
  }
  bool moves(size_t s, size_t load, IteratorId u) const {
    const std::vector<Index>& index = piece(s).loads[load].index;
    return std::any_of(index.begin(), index.end(),
                       [&](const Index& i) { return !coefficient(i, u).is_zero(); });
  }

  // A condition as numbers: the coefficients of the rows and of the streamed axis, and its bounds.
  using Condition = std::tuple<std::vector<Rational>, int64_t, int64_t>;
  static bool before(const Condition& a, const Condition& b) {
    return std::lexicographical_compare(std::get<0>(a).begin(), std::get<0>(a).end(),
                                        std::get<0>(b).begin(), std::get<0>(b).end()) ||
           (std::get<0>(a) == std::get<0>(b) &&
            std::tie(std::get<1>(a), std::get<2>(a)) < std::tie(std::get<1>(b), std::get<2>(b)));
  }
  std::vector<Condition> conditions_of(size_t s) const {
    std::vector<Condition> list;
    for (const Constraint& given : piece(s).constraints) {
      Constraint c = integral(given);
      std::vector<Rational> form{c.form.constant};
      for (IteratorId u : shared_iterators(kernel_.stages[s])) {
        form.push_back(c.form.coefficient(u));
      }
      list.emplace_back(std::move(form), c.lo, c.hi);
    }
    std::sort(list.begin(), list.end(), before);
    return list;
  }
  // Its conditions are of the rows and the streamed axis.
  bool only_shared(size_t s) const {
    IdVector<RowId, IteratorId> shared = shared_iterators(kernel_.stages[s]);
    for (const Constraint& c : piece(s).constraints) {
      if (c.integral && !c.form.is_integral()) return false;
      for (size_t u : iterators_in(c.form)) {
        bool known = std::find(shared.begin(), shared.end(), IteratorId(u)) != shared.end();
        if (!known && piece(s).box[u] != 1) return false;
      }
    }
    return true;
  }

  const Kernel& kernel_;
};

class FormFinder : private StageReader {
 public:
  using StageReader::StageReader;

  std::optional<StreamForm> run() {
    if (!has_stream(kernel_) || !broken_rows(kernel_).empty()) return std::nullopt;
    map_ = row_map(kernel_);
    const KernelStage& first = kernel_.stages[0];
    form_.columns = piece(0).box[first.stream];
    if (!bodies_fit() || !products() || !choose_row() || !copy_factors()) return std::nullopt;
    if (!other_stages()) return std::nullopt;
    if (form_.running > 0) return running_form();
    return form_.sums.empty() ? std::nullopt : std::optional(form_);
  }

 private:
  bool narrow(TensorId id) const { return kernel_.tensors[id].type == form_.type; }

  // Lines along `inner`, which nothing else moves, one for each value of `line`.
  bool copies(size_t s, StreamedFactor& f) const {
    const Piece& p = piece(s);
    const Access& a = p.loads[f.load];
    std::optional<size_t> line = dimension_of(a, f.line), inner = dimension_of(a, f.inner);
    if (!line || !inner || line == inner || made_here(a.tensor)) return false;
    const Index& along = a.index[*inner];
    for (size_t u = 0; u < p.box.size(); ++u) {
      bool other = IteratorId(u) != f.inner && p.box[u] > 1;
      if (other && !along.affine.coefficient(u).is_zero()) return false;
    }
    f.extent = p.box[f.inner];
    if (coefficient(along, f.inner) != Rational(1) || f.extent > kMostExtent) return false;
    f.limit = kernel_.tensors[a.tensor].shape;
    int64_t& end = f.limit[*inner];
    end = std::min(end, along.affine.constant.num() + f.extent);
    return narrow(a.tensor);
  }
  bool made_here(TensorId id) const { return map_.dimensions.contains(id); }

  // With a running maximum there is one product, which is multiplied first, and one block of
  // weights.
  std::optional<StreamForm> running_form() {
    // Sums of single cells alone (a log-sum-exp) stay apart.
    bool multiplies = std::any_of(form_.sums.begin(), form_.sums.end(),
                                  [](const StreamForm::Sum& s) { return s.column.valid(); });
    bool one = form_.products.size() == 1 && form_.products[0].stage == 0;
    bool whole = one && blocks_ == 1 && form_.weights > 0 && multiplies;
    return whole ? std::optional(form_) : std::nullopt;
  }

  bool is_product(size_t s) const {
    const Piece& p = piece(s);
    return !kernel_.stages[s].attach.valid() && !reduces_stream(kernel_.stages[s]) &&
           p.parallel_dims < p.box.size();
  }
  bool products() {
    for (size_t s = 0; s < kernel_.stages.size(); ++s) {
      if (is_product(s) && !product(s)) return false;
    }
    return !form_.products.empty();
  }
  bool product(size_t s) {
    std::vector<IteratorId> depth;
    if (!is_sum_in_f32(contraction(s)) || !box_fits(s, nullptr, &depth) || depth.size() != 1) {
      return false;
    }
    const Body& body = piece(s).body;
    auto factors = score_product(body);
    if (!factors) return false;
    const Node &a = body[factors->first], &b = body[factors->second];
    if (a.kind != NodeKind::load || b.kind != NodeKind::load || a.slot == b.slot) return false;
    if (form_.type != DType::none && form_.type != a.type) return false;
    form_.type = a.type;
    StreamForm::Product p;
    p.stage = s;
    IteratorId stream = kernel_.stages[s].stream;
    p.row.load = moves(s, a.slot, stream) ? b.slot : a.slot;
    p.column.load = moves(s, a.slot, stream) ? a.slot : b.slot;
    if (moves(s, p.row.load, stream) || !moves(s, p.column.load, stream)) return false;
    p.column.line = stream;
    p.row.inner = p.column.inner = depth[0];
    form_.products.push_back(p);
    return true;
  }

  // The longest row that the columns do not depend on.
  bool choose_row() {
    for (RowId r : kernel_.stages[0].rows.ids()) {
      int64_t extent = piece(0).box[iterator(0, r)];
      bool own = std::all_of(form_.products.begin(), form_.products.end(), [&](const auto& p) {
        IteratorId u = iterator(p.stage, r);
        return moves(p.stage, p.row.load, u) && !moves(p.stage, p.column.load, u) &&
               dimension_of(piece(p.stage).loads[p.row.load], u);
      });
      if (!own || extent <= form_.rows) continue;
      form_.row = r;
      form_.rows = extent;
    }
    return form_.rows > 0;
  }
  bool copy_factors() {
    for (StreamForm::Product& p : form_.products) {
      p.row.line = iterator(p.stage, form_.row);
      if (!copies(p.stage, p.row) || !copies(p.stage, p.column)) return false;
      p.row_block = block_of(p.stage, p.row, true);
      p.column_block = block_of(p.stage, p.column, false);
    }
    return true;
  }

  // What a block holds, as numbers: the tensor, the extent of its lines and for each dimension the
  // limit, the constant and the coefficients of lines, of what is inside and of the rows.
  std::vector<int64_t> content(size_t s, const StreamedFactor& f) const {
    const Access& a = piece(s).loads[f.load];
    std::vector<int64_t> list{static_cast<int64_t>(a.tensor.index()), f.extent};
    for (size_t d = 0; d < a.index.size(); ++d) {
      const Affine& form = a.index[d].affine;
      list.push_back(f.limit[d]);
      list.push_back(form.constant.num());
      list.push_back(form.coefficient(f.line).num());
      list.push_back(form.coefficient(f.inner).num());
      for (IteratorId u : kernel_.stages[s].rows) list.push_back(form.coefficient(u).num());
    }
    return list;
  }
  size_t block_of(size_t s, const StreamedFactor& f, bool of_rows) {
    size_t at = 0;
    for (; at < form_.blocks.size(); ++at) {
      const StreamForm::Block& b = form_.blocks[at];
      if (b.of_rows == of_rows && content(b.stage, b.factor) == content(s, f)) return at;
    }
    form_.blocks.push_back({s, f, of_rows});
    return at;
  }

  bool other_stages() {
    for (size_t s = 1; s < kernel_.stages.size(); ++s) {
      const KernelStage& stage = kernel_.stages[s];
      bool fits = stage.attach.valid() || is_product(s) ? true
                  : is_running(kernel_, s)              ? maximum(s)
                  : reduces_stream(stage)               ? sum(s)
                                                        : block(s);
      if (!fits) return false;
    }
    return reads_fit();
  }

  bool maximum(size_t s) {
    bool once = form_.running == 0 && box_fits(s, nullptr, nullptr);
    form_.running = s;
    return once && only_shared(s) && contraction(s).accumulator == DType::f32;
  }

  bool block(size_t s) {
    ++blocks_;
    if (form_.running > 0) form_.weights = s;
    return box_fits(s, nullptr, nullptr) && contraction(s).aggregation == Aggregation::assign;
  }

  bool sum(size_t s) {
    const KernelStage& stage = kernel_.stages[s];
    std::vector<IteratorId> columns;
    bool fits = is_sum_in_f32(contraction(s)) && box_fits(s, &columns, nullptr) &&
                columns.size() <= 1 && only_shared(s) && follows_maximum(stage);
    if (!fits) return false;
    StreamForm::Sum found;
    found.stage = s;
    if (!columns.empty() && !weighs(columns[0], found)) return false;
    form_.sums.push_back(std::move(found));
    return conditions_of(s) == conditions_of(form_.bounded());
  }
  // Rescaled by the maximum behind weights, or there is none.
  bool follows_maximum(const KernelStage& stage) const {
    if (form_.running == 0) return !stage.rescale.valid();
    return stage.rescale == StageId(form_.running) && form_.weights > 0;
  }

  bool weighs(IteratorId column, StreamForm::Sum& found) {
    size_t s = found.stage;
    const Body& body = piece(s).body;
    auto factors = weighted_product(body);
    if (!factors) return false;
    auto is_value = [&](NodeId id) {
      return body[id].kind == NodeKind::load && body[id].type == form_.type &&
             moves(s, body[id].slot, column);
    };
    if (!is_value(factors->first) && !is_value(factors->second)) return false;
    bool second = is_value(factors->second);
    NodeId value = second ? factors->second : factors->first;
    found.weight = second ? factors->first : factors->second;
    found.column = column;
    found.value.load = body[value].slot;
    found.value.line = kernel_.stages[s].stream;
    found.value.inner = column;
    if (moves(s, found.value.load, iterator(s, form_.row)) || !copies(s, found.value)) return false;
    found.block = block_of(s, found.value, false);
    return true;
  }

  // What has columns of its own is read in its own tile only, and no result leaves before the end.
  bool reads_fit() const {
    auto tile_of = [&](size_t s) {
      while (kernel_.stages[s].attach.valid()) s = kernel_.stages[s].attach.index();
      return s;
    };
    auto has_columns = [&](size_t tile) {
      return std::any_of(form_.sums.begin(), form_.sums.end(), [&](const StreamForm::Sum& x) {
        return x.stage == tile && x.column.valid();
      });
    };
    std::map<TensorId, size_t> made;
    for (size_t s = 0; s < kernel_.stages.size(); ++s) {
      for (const Access& a : piece(s).loads) {
        auto in = made.find(a.tensor);
        if (in != made.end() && in->second != tile_of(s) && has_columns(in->second)) return false;
      }
      TensorId out = contraction(s).outputs[0];
      made[out] = tile_of(s);
      bool stored =
          std::find(kernel_.writes.begin(), kernel_.writes.end(), out) != kernel_.writes.end();
      bool lasts = tile_of(s) == form_.running || reduces_stream(kernel_.stages[tile_of(s)]);
      if (stored && !lasts) return false;
    }
    return true;
  }

  RowMap map_;
  StreamForm form_;
  size_t blocks_ = 0;  // stages of weights with loops of their own
};

}  // namespace

std::optional<StreamForm> stream_form(const Kernel& kernel) { return FormFinder(kernel).run(); }

std::optional<std::pair<NodeId, NodeId>> narrow_product(const Body& body) {
  auto factors = score_product(body);
  return factors && narrow_float(body[factors->first].type) ? factors : std::nullopt;
}

std::optional<std::pair<NodeId, NodeId>> score_product(const Body& body) {
  const Node& root = body[before_widening(body, body.results[0])];
  bool product = root.kind == NodeKind::operation && root.op == Op::mul && root.type == DType::f32;
  if (!product) return std::nullopt;
  NodeId a = before_widening(body, root.args[0]), b = before_widening(body, root.args[1]);
  bool narrow = narrow_float(body[a].type) && body[a].type == body[b].type;
  return narrow ? std::pair(a, b) : std::pair(root.args[0], root.args[1]);
}

std::optional<Factors> rounded_product(const Body& body) {
  const Node& cast = body[before_widening(body, body.results[0])];
  bool rounds = cast.kind == NodeKind::operation && cast.op == Op::cast && narrow_float(cast.type);
  if (!rounds) return std::nullopt;
  const Node& root = body[cast.args[0]];
  bool product = root.kind == NodeKind::operation && root.op == Op::mul && root.type == DType::f32;
  if (!product) return std::nullopt;
  NodeId a = before_widening(body, root.args[0]), b = before_widening(body, root.args[1]);
  if (body[a].type == cast.type && root.args[0] != a) return Factors{a, root.args[1]};
  if (body[b].type == cast.type && root.args[1] != b) return Factors{b, root.args[0]};
  return std::nullopt;
}

int64_t stored_elements(int64_t extent, DType type) {
  int64_t row = kSwizzledBytes / static_cast<int64_t>(byte_size(type));
  return ceil_div(extent, row) * row;
}
int64_t multiplied_elements(int64_t extent) {
  return ceil_div(extent, kTensorCoreDepth) * kTensorCoreDepth;
}

int64_t rows_of_a_lane(int64_t columns) {
  return columns * 4 / kColumnLanes <= kMostLaneSums ? 4 : 2;
}
int64_t multiplied_columns(const GpuStream& schedule, const StreamForm& form) {
  int64_t columns = checked_mul(static_cast<int64_t>(form.products.size()), schedule.columns);
  for (const StreamForm::Sum& sum : form.sums) {
    if (sum.column.valid()) columns += multiplied_elements(sum.value.extent);
  }
  return columns;
}

int64_t shared_bytes(const GpuStream& schedule, const StreamForm& form) {
  int64_t elements = 0;
  for (const StreamForm::Block& b : form.blocks) {
    int64_t lines = b.of_rows ? schedule.rows : checked_mul(schedule.stages, schedule.columns);
    int64_t line = stored_elements(b.factor.extent, form.type);
    elements = checked_add(elements, checked_mul(lines, line));
  }
  // Lanes that multiply by weights exchange them there.
  if (form.by_threads()) {
    int64_t line = stored_elements(schedule.columns, form.type);
    elements = checked_add(elements, checked_mul(schedule.rows, line));
  }
  int64_t barriers = 2 * schedule.stages + schedule.rows / kGroupRows + 2;
  return checked_add(checked_mul(elements, static_cast<int64_t>(byte_size(form.type))),
                     kSwizzledBytes * 8 + barriers * kBarrierBytes);
}

}  // namespace tile::gpu
