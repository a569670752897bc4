#include "core/distribute/windows.h"

#include <algorithm>

#include "core/support/control.h"

namespace tile {
namespace {

// Past these the hull of a rank's boxes is exchanged whole.
constexpr size_t kMostBoxes = 64;

bool fit_together(const std::vector<Reach>& a, const std::vector<Reach>& b) {
  for (size_t d = 0; d < a.size(); ++d) {
    bool apart = (a[d] == Reach::wrapped && b[d] == Reach::ruled) ||
                 (a[d] == Reach::ruled && b[d] == Reach::wrapped);
    if (apart) return false;
  }
  return true;
}

Reach stronger(Reach a, Reach b) { return a == Reach::inside ? b : a; }

double cells(const Box& box) {
  double count = 1;
  for (size_t d = 0; d < box.dims(); ++d) {
    count *= static_cast<double>(std::max<int64_t>(0, box.hi[d] - box.lo[d]));
  }
  return count;
}

bool worth_merging(const Window& a, const Window& b) {
  if (a.tensor != b.tensor) return false;
  double together = 0, apart = 0;
  for (size_t r = 0; r < a.boxes.size(); ++r) {
    if (!fit_together(a.reach[r], b.reach[r])) return false;
    together += cells(hull(a.boxes[r], b.boxes[r]));
    apart += cells(a.boxes[r]) + cells(b.boxes[r]);
  }
  return together <= apart;
}

void merge(Window& into, const Window& from) {
  into.wraps = into.wraps || from.wraps;
  for (size_t r = 0; r < into.boxes.size(); ++r) {
    into.boxes[r] = hull(into.boxes[r], from.boxes[r]);
    for (size_t d = 0; d < into.reach[r].size(); ++d) {
      into.reach[r][d] = stronger(into.reach[r][d], from.reach[r][d]);
    }
    for (const Box& box : from.needed[r]) add_disjoint(into.needed[r], box);
    if (into.needed[r].size() > kMostBoxes) into.needed[r].assign(1, into.boxes[r]);
  }
}

Window window_of(TensorId tensor, size_t dims, size_t piece, size_t load,
                 const std::vector<std::vector<PieceNeeds>>& needs) {
  Window window;
  window.tensor = tensor;
  for (const std::vector<PieceNeeds>& of_rank : needs) {
    Box none{std::vector<int64_t>(dims, 0), std::vector<int64_t>(dims, 0)};
    std::vector<Reach> reach(dims, Reach::inside);
    const PieceNeeds& of_piece = of_rank[piece];
    if (!of_piece.empty) {
      none = of_piece.loads[load].box;
      reach = of_piece.loads[load].reach;
    }
    window.needed.emplace_back();
    // A tensor without dimensions has a cell, which only a rank with points needs.
    if (!none.empty() && !of_piece.empty) window.needed.back().push_back(none);
    window.boxes.push_back(std::move(none));
    for (Reach r : reach) window.wraps = window.wraps || r == Reach::wrapped;
    window.reach.push_back(std::move(reach));
  }
  return window;
}

}  // namespace

Windows windows_of(const Contraction& c, const std::vector<std::vector<PieceNeeds>>& needs,
                   const BoundTensors& tensors) {
  Windows windows;
  for (size_t p = 0; p < c.pieces.size(); ++p) {
    std::vector<size_t>& of_load = windows.of_load.emplace_back();
    for (size_t l = 0; l < c.pieces[p].loads.size(); ++l) {
      checkpoint();
      TensorId tensor = c.pieces[p].loads[l].tensor;
      Window fresh = window_of(tensor, tensors[tensor].shape.size(), p, l, needs);
      auto found = std::find_if(windows.all.begin(), windows.all.end(),
                                [&](const Window& w) { return worth_merging(w, fresh); });
      of_load.push_back(static_cast<size_t>(found - windows.all.begin()));
      if (found != windows.all.end()) {
        merge(*found, fresh);
      } else {
        windows.all.push_back(std::move(fresh));
      }
    }
  }
  return windows;
}

}  // namespace tile
