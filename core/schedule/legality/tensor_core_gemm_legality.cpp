#include "core/schedule/legality/tensor_core_gemm_legality.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "core/kernel/argument_layout.h"
#include "core/support/checked.h"

namespace tile::tensor_cores {
namespace {

constexpr int64_t kPanelBytes = 2 * 64 * 128;  // results on their way out, for each warpgroup

std::string broken_operand(const TensorCoreGemm& schedule, const Operand& o) {
  for (size_t i = 0; i < o.iterators.size(); ++i) {
    int64_t t = schedule.tile[o.iterators[i]];
    if (t < 1 || (t & (t - 1)) != 0) return "a tile that is no power of two";
    if (t > o.most[i]) return "a tile over more than a box spans";
  }
  if (!o.k_inside && schedule.tile[o.iterators.back()] % 64 != 0) {
    return "rows of a transposed operand that are no multiple of 64";
  }
  return {};
}

// Tiles whose boxes the threads copy, each line with 16 bytes beside it, of f64 with 32.
std::string broken_threads(const TensorCoreGemm& schedule, const Product& product, int64_t rows,
                           int64_t columns, const Target& target) {
  bool sizes = (rows == 64 || rows == 128) && (columns == 64 || columns == 128);
  if (!sizes) return "a tile's size";
  int64_t stage = (rows + columns) * (row_bytes(product) + (product.sum == DType::f64 ? 32 : 16));
  bool fits = checked_mul(stage, schedule.stages) <= target.gpu.shared_per_block;
  if (schedule.stages < 3 || !fits) return "stages that do not fit into shared memory";
  return schedule.group >= 1 ? "" : "no rows of tiles";
}

// Every part has a step.
std::string broken_split(const TensorCoreGemm& schedule, const Product& product) {
  int64_t split = schedule.split, cluster = schedule.cluster;
  if (split < 1 || cluster < 1) return "no part of the steps";
  if (split > 1 && ceil_div(product.steps, ceil_div(product.steps, split)) != split) {
    return "a part without steps";
  }
  bool sizes = cluster == 1 || cluster == 2 || cluster == 4 || cluster == 8;
  if (!sizes || (cluster > 1 && !product.bulk)) return "a cluster's size";
  return ceil_div(product.steps, split) >= cluster ? "" : "fewer steps than blocks of a cluster";
}

// Every block of a stream has a step.
std::string broken_stream(const TensorCoreGemm& schedule, const Product& product) {
  if (schedule.stream_k == 1) return {};
  if (schedule.stream_k < 1 || schedule.split > 1 || schedule.cluster > 1 || !product.bulk) {
    return "a stream of blocks beside others that share steps";
  }
  int64_t cut = cut_tiles(schedule, product);
  if (cut == 0) return "a stream without tiles to cut";
  return checked_mul(cut, product.steps) >= schedule.stream_k ? ""
                                                              : "a stream's block without steps";
}

// Calls `visit` with each piece's schedule for tensor cores and what it is a product of, until it
// gives a text.
std::string each_piece(
    const Schedule& schedule, const Kernel& kernel, const Target& target, const Strides& strides,
    const std::function<std::string(const TensorCoreGemm&, const std::optional<Product>&)>& visit) {
  std::optional<ArgumentLayouts> layouts;
  for (size_t s = 0; s < schedule.stages.size(); ++s) {
    const Contraction& c = kernel.stages[s].contraction;
    for (size_t p = 0; p < schedule.stages[s].size(); ++p) {
      const TensorCoreGemm* tensor_cores = schedule.stages[s][p].form<TensorCoreGemm>();
      if (!tensor_cores) continue;
      if (!layouts) layouts = argument_layouts(kernel, strides);
      std::string text = visit(*tensor_cores, product_of(c.pieces[p], c, kernel, target, *layouts));
      if (!text.empty()) return text;
    }
  }
  return {};
}

}  // namespace

std::string broken(const TensorCoreGemm& schedule, const Product& product, const Target& target) {
  size_t iterators = product.a.iterators.size() + product.b.iterators.size() + product.k.size() +
                     product.batch.size() + product.around.size();
  if (schedule.tile.size() != iterators) return "another number of iterators";
  for (const Operand* o : {&product.a, &product.b}) {
    std::string rule = broken_operand(schedule, *o);
    if (!rule.empty()) return rule;
  }
  auto single = [&](IteratorId u) { return schedule.tile[u] == 1; };
  if (!std::all_of(product.batch.begin(), product.batch.end(), single) ||
      !std::all_of(product.around.begin(), product.around.end(), single)) {
    return "a tile over an iterator that is no row, column or step";
  }
  for (size_t i = 0; i < product.k.size(); ++i) {
    if (schedule.tile[product.k[i]] != product.k_tile[i]) return "a step's depth";
  }
  if (std::string rule = broken_split(schedule, product); !rule.empty()) return rule;
  if (std::string rule = broken_stream(schedule, product); !rule.empty()) return rule;
  int64_t rows = tile_rows(schedule, product), columns = tile_columns(schedule, product);
  if (!product.bulk) return broken_threads(schedule, product, rows, columns, target);
  if (rows < 64 || rows > 256 || columns < 64 || columns > 256) return "a tile's size";
  if (rows * columns > 128 * 256 || rows / 2 * columns > 128 * 128) {
    return "more sums than registers";
  }
  int64_t parts = product.split ? 2 : 1;
  // Sums of a step stand beside those of the tile.
  if (product.split && std::max<int64_t>(rows / 2, 64) * columns > 64 * 128) {
    return "more sums than registers";
  }
  if (product.short_sums && columns > 128) return "more sums than registers";
  int64_t stage = parts * (rows + columns) * kRowBytes + 16;
  int64_t fixed = 1024 + 2 * kPanelBytes + 16;
  bool fits =
      checked_add(fixed, checked_mul(stage, schedule.stages)) <= target.gpu.shared_per_block;
  if (schedule.stages < 2 || !fits) return "stages that do not fit into shared memory";
  // The sums of a cluster's blocks lie where the stages were.
  if (schedule.cluster > 1 &&
      rows * columns * 4 > parts * schedule.stages * (rows + columns) * kRowBytes) {
    return "sums that do not fit into the stages";
  }
  return schedule.group >= 1 ? "" : "no rows of tiles";
}

bool fits_strides(const Schedule& schedule, const Kernel& kernel, const Target& target,
                  const Strides& strides) {
  return each_piece(schedule, kernel, target, strides,
                    [&](const TensorCoreGemm& t, const std::optional<Product>& product) {
                      return product ? broken(t, *product, target) : "strides without boxes";
                    })
      .empty();
}

std::string broken(const Schedule& schedule, const Kernel& kernel, const Target& target) {
  return each_piece(schedule, kernel, target, {},
                    [&](const TensorCoreGemm& t, const std::optional<Product>& product) {
                      return product ? broken(t, *product, target) : "no product of matrices";
                    });
}

}  // namespace tile::tensor_cores
