#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/fresh_names.h"
#include "core/ir/analysis/plain_contraction.h"
#include "core/ir/analysis/uses.h"
#include "core/layout/layout.h"
#include "core/support/choices.h"

namespace tile {
namespace {

// Points of one chunk: enough work to be worth a thread, few enough to give every core some.
constexpr double kChunkPoints = 1 << 16;
constexpr double kFewParallelDims = 16;
constexpr int64_t kMostChunks = 64;
constexpr double kWorthwhile = 0.2;  // of a thread's arithmetic, what less reading must save
constexpr double kSmallPart = 0.1;   // of what is read, partial results at most

double parallel_dim_count(const Piece& piece) {
  double n = 1;
  for (size_t i = 0; i < piece.parallel_dims; ++i) n *= static_cast<double>(piece.box[i]);
  return n;
}

// Where a reduction is cut, and into how many chunks at first.
struct Cut {
  size_t iterator = 0;
  int64_t chunks = 0;
};

// Only contractions whose every cell surely has a point can go through partial results: an empty
// chunk would contribute a neutral element where there is none of the type.
bool splittable(const Contraction& c) {
  if (!is_plain_contraction(c)) return false;
  const Piece& piece = c.pieces[0];
  return c.aggregation != Aggregation::assign && piece.constraints.empty() &&
         piece.parallel_dims < piece.iterators.size();
}

// Too few parallel dimensions for all threads: the outermost reduction that is long enough is cut.
std::optional<Cut> cut_for_threads(const Piece& piece) {
  auto wanted = static_cast<int64_t>(point_count(piece) / kChunkPoints);
  int64_t chunks = std::clamp<int64_t>(wanted, 2, kMostChunks);
  for (size_t i = piece.parallel_dims; i < piece.iterators.size(); ++i) {
    if (piece.box[i] >= 2 * chunks) return Cut{i, chunks};
  }
  return std::nullopt;
}

// Bytes of the loads, of which those that move with the iterator count for a `part`.
double bytes_read(const Piece& piece, const BoundProgram& program, size_t iterator, double part) {
  double sum = 0;
  for (const Access& a : piece.loads) {
    const BoundTensor& t = program.tensors[a.tensor];
    double elements = 1;
    for (size_t u = 0; u < piece.iterators.size(); ++u) {
      if (moves_with(a, u)) elements *= static_cast<double>(piece.box[u]);
    }
    auto all = static_cast<double>(element_count(t.shape));
    sum += std::min(elements, all) * static_cast<double>(byte_size(t.type)) *
           (moves_with(a, iterator) ? part : 1);
  }
  return sum;
}

// Long reductions to a small result: threads that divide the result all read the whole of some
// factor from far memory, those that divide the reduction each read a part of every one.
std::optional<Cut> cut_for_memory(const Piece& piece, const BoundProgram& program,
                                  const Target& target, double result_bytes) {
  if (target.threads < 2) return std::nullopt;
  double part = 1.0 / target.threads, divided = 0, best = 0;
  for (size_t u = 0; u < piece.parallel_dims; ++u) {
    double read = bytes_read(piece, program, u, part);
    if (divided == 0 || read < divided) divided = read;
  }
  Cut cut;
  for (size_t u = piece.parallel_dims; u < piece.iterators.size(); ++u) {
    double read = bytes_read(piece, program, u, part);
    if (best == 0 || read < best) cut.iterator = u;
    if (best == 0 || read < best) best = read;
  }
  auto cache = static_cast<double>(target.l2_bytes);
  double arithmetic = point_count(piece) * part / target.fma_per_ns;
  bool pays =
      best > cache / 2 && (divided - best) / target.l3_bytes_per_ns > kWorthwhile * arithmetic;
  if (!pays) return std::nullopt;
  cut.chunks = target.threads * static_cast<int64_t>(std::ceil(2 * best / cache));
  bool small = result_bytes * static_cast<double>(cut.chunks) <= kSmallPart * best;
  bool long_enough = piece.box[cut.iterator] >= 64 * cut.chunks;
  return small && long_enough && cut.chunks <= kMostChunks ? std::optional(cut) : std::nullopt;
}

std::optional<Cut> worthwhile_cut(const Contraction& c, const BoundProgram& program,
                                  const Target& target) {
  const Piece& piece = c.pieces[0];
  // A reduction on a GPU is divided among blocks by its schedule, and combined by a launch that
  // goes on with what follows.
  if (is_gpu(target) || point_count(piece) < 4 * kChunkPoints) return std::nullopt;
  if (parallel_dim_count(piece) <= kFewParallelDims) return cut_for_threads(piece);
  double result_bytes = parallel_dim_count(piece) * static_cast<double>(byte_size(c.accumulator));
  return cut_for_memory(piece, program, target, result_bytes);
}

std::optional<Cut> cut_of(const Contraction& c, const BoundProgram& program, const Target& target) {
  if (!splittable(c)) return std::nullopt;
  // The chunks and the iterator as one number; zero: none.
  constexpr size_t kIterators = 1 << 16;
  size_t answer = chosen("split-reduction " + program.tensors[c.outputs[0]].name, [&] {
    std::optional<Cut> cut = worthwhile_cut(c, program, target);
    return cut ? static_cast<size_t>(cut->chunks) * kIterators + cut->iterator : 0;
  });
  Cut cut{answer % kIterators, static_cast<int64_t>(answer / kIterators)};
  const Piece& piece = c.pieces[0];
  // The answer may be another size's, whose iterators are not surely these.
  bool fits = cut.chunks > 0 && cut.iterator >= piece.parallel_dims &&
              cut.iterator < piece.box.size() && piece.box[cut.iterator] >= 2 * cut.chunks;
  return fits ? std::optional(cut) : std::nullopt;
}

// Iterator `cut` becomes chunk * size + inside. The chunk is the first parallel dimension.
Piece partial_piece(const Piece& piece, size_t cut, int64_t chunks, int64_t size,
                    TensorId partial) {
  Piece result = piece;
  size_t inside = cut + 1;  // after the chunk was put in front
  auto moved = [&](const Affine& form) {
    std::vector<Affine> replacement;
    for (size_t i = 0; i < piece.iterators.size(); ++i) {
      Affine f = iterator_affine(i + 1);
      if (i == cut) f = f + iterator_affine(0) * Rational(size);
      replacement.push_back(f);
    }
    return substitute(form, replacement);
  };
  result.iterators.insert(result.iterators.begin(), piece.iterators[cut] + "_chunk");
  result.box.insert(result.box.begin(), chunks);
  result.box[inside] = size;
  result.parallel_dims = piece.parallel_dims + 1;
  for (Access& a : result.loads) {
    for (Index& index : a.index) {
      if (index.value < 0) index.affine = moved(index.affine);
    }
  }
  Access store;
  store.tensor = partial;
  for (size_t i = 0; i <= piece.parallel_dims; ++i) store.index.push_back({iterator_affine(i)});
  result.stores = {store};
  if (chunks * size > piece.box[cut]) {
    result.constraints.push_back({moved(iterator_affine(cut)), 0, piece.box[cut], true});
  }
  change_nodes(result.body, [](Node& node) {
    if (node.kind == NodeKind::index) ++node.slot;
  });
  return result;
}

// Sums the chunks: iterators are the parallel dimensions, then the chunk.
Piece combining_piece(const Piece& piece, const Contraction& c, int64_t chunks, TensorId partial) {
  Piece result;
  result.iterators.assign(
      piece.iterators.begin(),
      piece.iterators.begin() + static_cast<std::ptrdiff_t>(piece.parallel_dims));
  result.box.assign(piece.box.begin(),
                    piece.box.begin() + static_cast<std::ptrdiff_t>(piece.parallel_dims));
  result.parallel_dims = piece.parallel_dims;
  result.iterators.push_back("chunk");
  result.box.push_back(chunks);
  result.stores = piece.stores;
  Access load;
  load.tensor = partial;
  load.index.push_back({iterator_affine(piece.parallel_dims)});
  for (size_t i = 0; i < piece.parallel_dims; ++i) load.index.push_back({iterator_affine(i)});
  result.loads = {load};
  result.body.results = {result.body.load(0, c.accumulator)};
  return result;
}

}  // namespace

void split_reduction(BoundProgram& program, const Target& target) {
  std::vector<BoundStatement> statements;
  for (BoundStatement& statement : program.statements) {
    Contraction* c = std::get_if<Contraction>(&statement);
    std::optional<Cut> cut = c == nullptr ? std::nullopt : cut_of(*c, program, target);
    if (!cut || names_index(c->pieces[0].body, cut->iterator)) {
      statements.push_back(std::move(statement));
      continue;
    }
    const Piece piece = c->pieces[0];
    int64_t size = ceil_div(piece.box[cut->iterator], cut->chunks);
    int64_t chunks = ceil_div(piece.box[cut->iterator], size);
    BoundTensor partial;
    partial.name =
        FreshNames(program.tensors).get(program.tensors[c->outputs[0]].name + "_partial");
    partial.type = c->accumulator;
    partial.shape = {chunks};
    for (size_t i = 0; i < piece.parallel_dims; ++i) partial.shape.push_back(piece.box[i]);
    TensorId id = program.tensors.add(partial);
    Contraction first = *c;
    first.outputs = {id};
    first.pieces = {partial_piece(piece, cut->iterator, chunks, size, id)};
    Contraction second = *c;
    second.pieces = {combining_piece(piece, *c, chunks, id)};
    statements.emplace_back(std::move(first));
    statements.emplace_back(std::move(second));
  }
  program.statements = std::move(statements);
}

}  // namespace tile
