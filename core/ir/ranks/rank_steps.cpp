// The order in which a rank's statements run and its exchanges begin and end.
#include "core/ir/ranks/rank_program.h"

namespace tile {

Box box_of(const BoundProgram& program, const PartOfTensor& part) {
  return moved(whole_box(program.tensors[part.part].shape), part.at);
}

std::vector<RankStep> steps_of(const RankProgram& rank) {
  std::vector<RankStep> steps;
  size_t begun = 0, ended = 0;
  const std::vector<PlacedExchange>& exchanges = rank.exchanges;
  for (size_t i = 0; i <= rank.program.statements.size(); ++i) {
    while (ended < begun && exchanges[ended].end == i) {
      steps.push_back({RankStep::Kind::end, ended++});
    }
    for (; begun < exchanges.size() && exchanges[begun].before == i; ++begun) {
      steps.push_back({RankStep::Kind::begin, begun});
      if (exchanges[begun].travels()) continue;
      internal_check(ended == begun, "ranks: an exchange ends before one that began earlier");
      steps.push_back({RankStep::Kind::end, ended++});
    }
    if (i < rank.program.statements.size()) steps.push_back({RankStep::Kind::statement, i});
  }
  internal_check(ended == exchanges.size(), "ranks: exchanges out of order");
  return steps;
}

}  // namespace tile
