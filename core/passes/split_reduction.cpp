#include <algorithm>
#include <numeric>

#include "core/passes/tensor_passes.h"
#include "core/passes/uses.h"

namespace tile {
namespace {

// Points of one chunk: enough work to be worth a thread, few enough to give every core some.
constexpr double kChunkPoints = 1 << 16;
constexpr double kFewOwners = 16;
constexpr int64_t kMostChunks = 64;

double owner_count(const Piece& piece) {
  double n = 1;
  for (size_t i = 0; i < piece.owners; ++i) n *= static_cast<double>(piece.box[i]);
  return n;
}

// The reduction unknown to cut: the outermost one that is long enough.
std::optional<size_t> unknown_to_cut(const Piece& piece, int64_t chunks) {
  for (size_t i = piece.owners; i < piece.unknowns.size(); ++i) {
    if (piece.box[i] >= 2 * chunks) return i;
  }
  return std::nullopt;
}

// Only contractions whose every cell surely has a point can go through partial results: an empty
// chunk would contribute a neutral element where there is none of the type.
bool splittable(const Contraction& c) {
  if (c.pieces.size() != 1 || c.outputs.size() != 1 || c.fill || !c.normalized) return false;
  const Piece& piece = c.pieces[0];
  return c.aggregation != Aggregation::assign && piece.constraints.empty() &&
         piece.owners < piece.unknowns.size() && owner_count(piece) <= kFewOwners &&
         point_count(piece) >= 4 * kChunkPoints;
}

// Unknown `cut` becomes chunk * size + inside. The chunk is the first owner.
Piece partial_piece(const Piece& piece, size_t cut, int64_t chunks, int64_t size,
                    TensorId partial) {
  Piece result = piece;
  size_t inside = cut + 1;  // after the chunk was put in front
  auto moved = [&](const Affine& form) {
    std::vector<Affine> replacement;
    for (size_t i = 0; i < piece.unknowns.size(); ++i) {
      Affine f = unknown_affine(i + 1);
      if (i == cut) f = f + unknown_affine(0) * Rational(size);
      replacement.push_back(f);
    }
    return substitute(form, replacement);
  };
  result.unknowns.insert(result.unknowns.begin(), piece.unknowns[cut] + "_chunk");
  result.box.insert(result.box.begin(), chunks);
  result.box[inside] = size;
  result.owners = piece.owners + 1;
  for (Access& a : result.loads) {
    for (Index& index : a.index) {
      if (index.value < 0) index.affine = moved(index.affine);
    }
  }
  Access store;
  store.tensor = partial;
  for (size_t i = 0; i <= piece.owners; ++i) store.index.push_back({unknown_affine(i)});
  result.stores = {store};
  if (chunks * size > piece.box[cut]) {
    result.constraints.push_back({moved(unknown_affine(cut)), 0, piece.box[cut], true});
  }
  change_nodes(result.body, [](Node& node) {
    if (node.kind == NodeKind::index) ++node.slot;
  });
  return result;
}

// Sums the chunks: unknowns are the owners, then the chunk.
Piece combining_piece(const Piece& piece, const Contraction& c, int64_t chunks, TensorId partial) {
  Piece result;
  result.unknowns.assign(piece.unknowns.begin(),
                         piece.unknowns.begin() + static_cast<std::ptrdiff_t>(piece.owners));
  result.box.assign(piece.box.begin(),
                    piece.box.begin() + static_cast<std::ptrdiff_t>(piece.owners));
  result.owners = piece.owners;
  result.unknowns.push_back("chunk");
  result.box.push_back(chunks);
  result.stores = piece.stores;
  Access load;
  load.tensor = partial;
  load.index.push_back({unknown_affine(piece.owners)});
  for (size_t i = 0; i < piece.owners; ++i) load.index.push_back({unknown_affine(i)});
  result.loads = {load};
  result.body.results = {result.body.load(0, c.accumulator)};
  return result;
}

bool uses_index(const Piece& piece, size_t unknown) {
  bool used = false;
  visit_nodes(piece.body, [&](const Node& n) {
    used = used || (n.kind == NodeKind::index && n.slot == static_cast<int>(unknown));
  });
  return used;
}

}  // namespace

void split_reduction(BoundProgram& program, const Target&) {
  std::vector<BoundStatement> statements;
  for (BoundStatement& statement : program.statements) {
    Contraction* c = std::get_if<Contraction>(&statement);
    if (c == nullptr || !splittable(*c)) {
      statements.push_back(std::move(statement));
      continue;
    }
    const Piece piece = c->pieces[0];
    auto wanted = static_cast<int64_t>(point_count(piece) / kChunkPoints);
    int64_t chunks = std::clamp<int64_t>(wanted, 2, kMostChunks);
    std::optional<size_t> cut = unknown_to_cut(piece, chunks);
    if (!cut || uses_index(piece, *cut)) {
      statements.push_back(std::move(statement));
      continue;
    }
    int64_t size = ceil_div(piece.box[*cut], chunks);
    chunks = ceil_div(piece.box[*cut], size);
    BoundTensor partial;
    partial.name = program.tensors[static_cast<size_t>(c->outputs[0])].name + "_partial";
    partial.type = c->accumulator;
    partial.shape = {chunks};
    for (size_t i = 0; i < piece.owners; ++i) partial.shape.push_back(piece.box[i]);
    auto id = static_cast<TensorId>(program.tensors.size());
    program.tensors.push_back(partial);
    Contraction first = *c;
    first.outputs = {id};
    first.pieces = {partial_piece(piece, *cut, chunks, size, id)};
    Contraction second = *c;
    second.pieces = {combining_piece(piece, *c, chunks, id)};
    statements.emplace_back(std::move(first));
    statements.emplace_back(std::move(second));
  }
  program.statements = std::move(statements);
}

}  // namespace tile
