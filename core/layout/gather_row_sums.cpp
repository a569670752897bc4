// Sums over rows (of a norm's scale and shift, of biases, of a loss) read again what other
// statements make or read row by row, where one kernel could gather them on its way. Here each such
// sum becomes partial sums of chunks of rows and their combination: a kernel has a chunk's rows
// pass by and keeps the chunk's sums (fuse-row-sums). Done where fusion then finds that kernel.
#include <algorithm>
#include <map>
#include <set>

#include "core/fusion/group.h"
#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/fresh_names.h"
#include "core/ir/analysis/plain_contraction.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/stream.h"
#include "core/layout/layout.h"
#include "core/layout/program_parts.h"
#include "core/passes/normalize/substitution.h"
#include "core/support/choices.h"
#include "core/support/control.h"

namespace tile {
namespace {

using layout::Instead;

constexpr int64_t kChunksPerThread = 4;
constexpr int64_t kLeastRows = 4, kMostRows = 256;  // of a chunk: each leaves partial results
constexpr double kPointsRead = 16;      // of a statement for each element, products have more
constexpr size_t kMostStatements = 20;  // that are looked at together
constexpr double kSmallPart = 0.25;     // of what is read, partial results at most

// The reductions that become parallel, by the dimensions of the largest load; the last one is cut
// to chunks of so many rows.
struct Chunks {
  std::vector<size_t> rows;
  double count = 1;  // of rows, those included that the result has
  int64_t size = 0;
};

double elements_read(const Piece& piece, const BoundTensors& tensors) {
  double most = 1;
  for (const Access& a : piece.loads) {
    most = std::max(most, static_cast<double>(element_count(tensors[a.tensor].shape)));
  }
  return most;
}
bool is_about_its_data(const Contraction& c, const BoundTensors& tensors) {
  if (!c.normalized || c.pieces.size() != 1) return false;
  double elements = elements_read(c.pieces[0], tensors);
  for (TensorId out : c.outputs) {
    elements = std::max(elements, static_cast<double>(element_count(tensors[out].shape)));
  }
  return point_count(c.pieces[0]) <= kPointsRead * elements;
}

// One piece without conditions that reads at places known before.
bool is_plain_sum(const Contraction& c) {
  if (!is_plain_contraction(c)) return false;
  const Piece& piece = c.pieces[0];
  bool gathers = std::any_of(piece.loads.begin(), piece.loads.end(), [](const Access& a) {
    return std::any_of(a.index.begin(), a.index.end(), [](const Index& i) { return i.value >= 0; });
  });
  return piece.parallel_dims < piece.box.size() && c.aggregation != Aggregation::assign &&
         piece.constraints.empty() && !gathers;
}

class Gathering {
 public:
  Gathering(BoundProgram& program, const Target& target)
      : program_(program), target_(target), uses_(program) {}

  void run() {
    find_sums();
    std::map<size_t, Chunks> all;
    for (size_t i = 0; i < program_.statements.size(); ++i) {
      checkpoint();
      const auto* c = std::get_if<Contraction>(&program_.statements[i]);
      if (c == nullptr || !is_plain_sum(*c)) continue;
      // Asked of each, as other sizes of a class are asked the same questions.
      auto size = static_cast<int64_t>(chosen("gather-sums " + name(i), [&] {
        if (sums_.contains(i) && !gathered_.contains(i)) decide(i);
        return static_cast<size_t>(gathered_[i] ? sums_.at(i).size : 0);
      }));
      if (size == 0) continue;
      Chunks chunks = rows_of(c->pieces[0]);
      chunks.size = size;
      bool fits = !chunks.rows.empty() && c->pieces[0].box.begin()[chunks.rows.back()] % size == 0;
      if (fits) all[i] = std::move(chunks);
    }
    if (!all.empty()) program_.statements = layout::with(program_, divided(all));
  }

 private:
  // The dimensions of the largest load, but the last, whose iterators are reductions that all loads
  // name, behind those that the sum's own result has.
  Chunks rows_of(const Piece& piece) const {
    const Access* largest = nullptr;
    int64_t most = 1;
    for (const Access& a : piece.loads) {
      int64_t size = element_count(program_.tensors[a.tensor].shape);
      if (size > most) largest = &a;
      most = std::max(most, size);
    }
    Chunks chunks;
    for (size_t d = 0; largest != nullptr && d + 1 < largest->index.size(); ++d) {
      IteratorId u = sole_iterator(largest->index[d], piece);
      bool row = u.valid() && piece.box[u] == program_.tensors[largest->tensor].shape[d] &&
                 std::all_of(piece.loads.begin(), piece.loads.end(),
                             [&](const Access& a) { return moves_with(a, u); });
      if (!row || (piece.is_parallel(u) && !chunks.rows.empty())) break;
      if (!piece.is_parallel(u)) chunks.rows.push_back(u.index());
      chunks.count *= static_cast<double>(piece.box[u]);
    }
    return chunks;
  }

  const Contraction& sum(size_t i) const { return std::get<Contraction>(program_.statements[i]); }
  const std::string& name(size_t i) const { return program_.tensors[sum(i).outputs[0]].name; }

  // The sums over rows of more than a core's cache holds, with the chunks that they would have.
  void find_sums() {
    for (size_t i = 0; i < program_.statements.size(); ++i) {
      const auto* c = std::get_if<Contraction>(&program_.statements[i]);
      if (c == nullptr || !is_plain_sum(*c) || !is_about_its_data(*c, program_.tensors)) continue;
      if (point_count(c->pieces[0]) < 1) continue;
      Chunks chunks = rows_of(c->pieces[0]);
      if (!chunks.rows.empty()) chunks.size = size_of_chunk(*c, chunks);
      if (chunks.size > 0) sums_[i] = std::move(chunks);
    }
  }

  // Rows of a chunk; 0: the sum stays as it is.
  int64_t size_of_chunk(const Contraction& c, const Chunks& chunks) const {
    const Piece& piece = c.pieces[0];
    double elements = elements_read(piece, program_.tensors);
    double bytes = elements * static_cast<double>(byte_size(c.accumulator));
    if (bytes <= static_cast<double>(target_.l2_bytes)) return 0;
    int64_t last = piece.box.begin()[chunks.rows.back()];
    int64_t most = static_cast<int64_t>(chunks.count) / (kChunksPerThread * target_.threads);
    int64_t size = divisor(last, most);
    double partial = 1 / static_cast<double>(size);
    for (size_t u = 0; u < piece.parallel_dims; ++u) {
      partial *= static_cast<double>(piece.box.begin()[u]);
    }
    for (size_t u : chunks.rows) partial *= static_cast<double>(piece.box.begin()[u]);
    return size >= kLeastRows && partial <= kSmallPart * elements ? size : 0;
  }
  static int64_t divisor(int64_t extent, int64_t most) {
    for (int64_t size = std::min({most, kMostRows, extent}); size > 1; --size) {
      if (extent % size == 0) return size;
    }
    return 1;
  }

  // The statement, and those about their data that make or read what it reads, or such results.
  std::vector<size_t> region(size_t i) const {
    std::set<size_t> list{i};
    std::vector<size_t> open{i};
    auto add = [&](size_t s) {
      const auto* c = std::get_if<Contraction>(&program_.statements[s]);
      bool joins =
          c != nullptr && list.size() < kMostStatements && is_about_its_data(*c, program_.tensors);
      if (joins && list.insert(s).second) open.push_back(s);
    };
    for (size_t at = 0; at < open.size(); ++at) {
      const BoundStatement& s = program_.statements[open[at]];
      std::vector<TensorId> tensors = read_by(s);
      if (open[at] != i) {
        for (TensorId id : written_by(s)) tensors.push_back(id);
      }
      for (TensorId id : tensors) {
        if (element_count(program_.tensors[id].shape) <= 1) continue;
        if (std::optional<size_t> maker = uses_.maker(storage_of(program_, id))) add(*maker);
        for (size_t reader : uses_.readers(id)) add(reader);
      }
    }
    return {list.begin(), list.end()};
  }

  // Which sums of a region are gathered where all that may be are tried together: what one reads
  // of a kernel beside the others would have to be stored for it.
  void decide(size_t i) {
    std::vector<size_t> list = region(i);
    std::map<size_t, Chunks> tried;
    for (size_t s : list) {
      auto one = sums_.find(s);
      if (one != sums_.end() && !gathered_.contains(s)) tried.insert(*one);
    }
    for (const auto& [s, chunks] : tried) gathered_[s] = false;
    if (list.size() == 1) return;  // nothing has its rows pass by
    size_t tensors = program_.tensors.size(), before = 0;
    while (!tried.empty() && tried.size() != before) {
      before = tried.size();
      std::set<size_t> left = gathered(tried, list);
      program_.tensors.resize(tensors);
      std::erase_if(tried, [&](const auto& one) { return !left.contains(one.first); });
    }
    for (const auto& [s, chunks] : tried) gathered_[s] = true;
  }

  // Those whose partial sums a kernel of other statements makes.
  std::set<size_t> gathered(const std::map<size_t, Chunks>& sums, const std::vector<size_t>& list) {
    Instead other = divided(sums);
    BoundProgram part = layout::part(program_, uses_, list, other);
    std::string text = layout::text_of(part);
    std::vector<TensorId> partial;
    for (const auto& [i, statements] : other) {
      partial.push_back(std::get<Contraction>(statements[0]).outputs[0]);
      auto at = std::lower_bound(list.begin(), list.end(), i) - list.begin();
      if (!text.empty()) text += " " + std::to_string(at);
    }
    std::vector<bool> made = made_.get(text, [&] { return made_by_streams(part, partial); });
    std::set<size_t> found;
    auto makes = made.begin();
    for (const auto& [i, statements] : other) {
      if (*makes++) found.insert(i);
    }
    return found;
  }

  std::vector<bool> made_by_streams(const BoundProgram& part,
                                    const std::vector<TensorId>& tensors) const {
    std::vector<bool> made(tensors.size(), false);
    for (const Step& step : group(part, target_)) {
      const Kernel* k = std::get_if<Kernel>(&step);
      if (k == nullptr || !has_stream(*k)) continue;
      for (size_t t = 0; t < tensors.size(); ++t) {
        bool makes = std::any_of(k->stages.begin(), k->stages.end(), [&](const KernelStage& s) {
          return contains(s.contraction.outputs, tensors[t]);
        });
        made[t] = made[t] || makes;
      }
    }
    return made;
  }

  Instead divided(const std::map<size_t, Chunks>& sums) {
    Instead all;
    for (const auto& [i, chunks] : sums) all[i] = divided(sum(i), chunks);
    return all;
  }

  // The partial sums and their combination.
  std::vector<BoundStatement> divided(const Contraction& c, const Chunks& chunks) {
    const Piece& piece = c.pieces[0];
    BoundTensor partial;
    partial.name =
        FreshNames(program_.tensors).get(program_.tensors[c.outputs[0]].name + "_partial");
    partial.type = c.accumulator;
    Contraction first = c, second = c;
    first.pieces = {partial_piece(piece, chunks)};
    const Piece& made = first.pieces[0];
    partial.shape.assign(made.box.begin(),
                         made.box.begin() + static_cast<std::ptrdiff_t>(made.parallel_dims));
    TensorId id = program_.tensors.add(partial);
    Access store;
    store.tensor = id;
    for (size_t u = 0; u < made.parallel_dims; ++u) store.index.push_back({iterator_affine(u)});
    first.outputs = {id};
    first.pieces[0].stores = {store};
    second.pieces = {combining_piece(piece, c.accumulator, partial.shape, id)};
    return {std::move(first), std::move(second)};
  }

  // Iterators: rows, the last one's chunk in its place, then the parallel dimensions, the place in
  // the chunk, and the other reductions.
  static Piece partial_piece(const Piece& piece, const Chunks& chunks) {
    lattice::Substitution s;
    s.old_in_new.resize(piece.box.size());
    IterationBox box;
    auto is_row = [&](size_t u) {
      return std::find(chunks.rows.begin(), chunks.rows.end(), u) != chunks.rows.end();
    };
    auto keep = [&](size_t u) {
      s.old_in_new[u] = iterator_affine(box.size());
      box.push_back(piece.box.begin()[u]);
    };
    for (size_t u : chunks.rows) keep(u);
    size_t last = chunks.rows.back(), chunk = chunks.rows.size() - 1;
    box.begin()[chunk] /= chunks.size;
    for (size_t u = 0; u < piece.parallel_dims; ++u) keep(u);
    size_t parallel_dims = box.size();
    s.old_in_new[last] =
        iterator_affine(chunk) * Rational(chunks.size) + iterator_affine(box.size());
    box.push_back(chunks.size);
    for (size_t u = piece.parallel_dims; u < piece.box.size(); ++u) {
      if (!is_row(u)) keep(u);
    }
    s.iterators = box.size();
    Piece result = substituted(piece, s);
    result.box = std::move(box);
    result.parallel_dims = parallel_dims;
    return result;
  }

  // Iterators: the sum's parallel dimensions, then those of the rows.
  static Piece combining_piece(const Piece& piece, DType type, const Shape& shape,
                               TensorId partial) {
    Piece result;
    size_t own = piece.parallel_dims, rows = shape.size() - own;
    auto at = [](size_t n) { return static_cast<std::ptrdiff_t>(n); };
    result.iterators.assign(piece.iterators.begin(), piece.iterators.begin() + at(own));
    result.box.assign(piece.box.begin(), piece.box.begin() + at(own));
    result.parallel_dims = own;
    Access load;
    load.tensor = partial;
    for (size_t r = 0; r < rows; ++r) {
      result.iterators.push_back("chunk" + std::to_string(r));
      result.box.push_back(shape[r]);
      load.index.push_back({iterator_affine(own + r)});
    }
    for (size_t u = 0; u < own; ++u) load.index.push_back({iterator_affine(u)});
    result.stores = piece.stores;
    result.loads = {load};
    result.body.results = {result.body.load(0, type)};
    return result;
  }

  BoundProgram& program_;
  const Target& target_;
  const StatementUses uses_;
  std::map<size_t, Chunks> sums_;    // by statement
  std::map<size_t, bool> gathered_;  // of those that were decided
  layout::KnownParts<std::vector<bool>> made_;
};

}  // namespace

void gather_row_sums(BoundProgram& program, const Target& target) {
  if (!is_gpu(target)) Gathering(program, target).run();
}

}  // namespace tile
