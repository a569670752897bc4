// The search for the cheapest choice of a ChoiceModel.
#pragma once

#include <cstddef>
#include <vector>

#include "core/distribute/choice/choice_model.h"

namespace tile {

// A number of a layout for each tensor of the model, and of a way for each statement.
struct Assignment {
  std::vector<size_t> layouts, ways;
};

class LayoutSearch {
 public:
  LayoutSearch(ChoiceModel& model, size_t beam);

  // Statement by statement, in order: of all beginnings that leave tensors that are still read
  // under the same layouts only the cheapest is kept, and of these as many as the beam holds.
  // Cheapest first.
  std::vector<Assignment> beginnings();
  // Gives single tensors other layouts, and the statements around them other ways, as long as that
  // makes it cheaper.
  void improve(Assignment& assignment);
  ChoiceCost cost(const Assignment& assignment);
  size_t evaluated() const { return evaluated_; }

 private:
  struct Beginning;
  struct Step;
  std::vector<Step> readings_of_way(const Beginning& from, size_t s, size_t way);
  void steps_of(const Beginning& from, size_t number, size_t s, std::vector<Step>& into);
  std::vector<size_t> places_for(size_t s, size_t way, size_t tensor, const Beginning& from,
                                 std::vector<double>& ns);
  std::vector<Beginning> kept_of(const std::vector<Beginning>& before, std::vector<Step> steps,
                                 size_t s);
  size_t place_of(const Step& step, size_t s) const;
  Beginning taken(const Beginning& from, const Step& step, size_t s) const;
  std::vector<size_t> key_of(const Beginning& b, size_t s) const;
  // `shared`: with the readings that other statements may share.
  double ns_of(const Assignment& a, size_t s, size_t way, bool shared);
  double local_ns(const Assignment& a, size_t s, size_t way);
  double least_ns(const Assignment& a, size_t s, size_t way);
  void choose_way(Assignment& a, size_t s);
  bool improve_tensor(Assignment& a, size_t tensor, double& least);
  bool improve_way(Assignment& a, size_t s, double& least);

  ChoiceModel& model_;
  size_t beam_;
  size_t evaluated_ = 0;
  std::vector<std::vector<size_t>> around_;  // of each tensor: statements that read or compute it
};

}  // namespace tile
