// What it takes to put the result of a statement where it lies.
#pragma once

#include "core/distribute/choice/candidates.h"
#include "core/distribute/choice/grid_traffic.h"

namespace tile {

class ResultCosts {
 public:
  ResultCosts(const BoundProgram& program, const GridTraffic& traffic, const Mesh& mesh,
              const Links& links)
      : program_(program), traffic_(traffic), mesh_(mesh), links_(links) {}

  struct Result {
    TensorId id;
    const Contraction* of = nullptr;  // null: of a sort or a scatter
    bool marks = false;               // see needs_marks()
  };
  // From where the way computes it until it lies under the layout; infinite: it cannot be computed
  // so.
  double ns(const Result& result, const Way& way, const TensorLayout& layout) const;

 private:
  double sum_ns(const Result& result, const Way& way, const TensorLayout& layout) const;

  const BoundProgram& program_;
  const GridTraffic& traffic_;
  const Mesh& mesh_;
  const Links& links_;
};

}  // namespace tile
