// A region of a program as a program of its own, so that the model can tell what changes of it are
// worth. Private to core/layout.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/layout/score_regions.h"
#include "core/support/choices.h"
#include "core/target/target.h"

namespace tile::layout {

// What stands instead of a statement; of those that are not named the statement itself.
using Instead = std::map<size_t, std::vector<BoundStatement>>;
// Those statements of the program, in order.
std::vector<BoundStatement> with(const BoundProgram& program, const Instead& instead,
                                 const std::vector<size_t>& list);
std::vector<BoundStatement> with(const BoundProgram& program, const Instead& instead);

// The region's statements, what reads the users' results, which may become a part of their kernels,
// and those between them where they are few: what users make may be read there on its way to
// others.
std::vector<size_t> around(const BoundProgram& program, const StatementUses& uses,
                           const ScoreRegion& region);
// A program of these statements, or of what stands instead: what it does not make it is given, and
// what others need are its results.
BoundProgram part(const BoundProgram& program, const StatementUses& uses,
                  const std::vector<size_t>& list, const Instead& instead);
// The model's time of all kernels that the program becomes, and what they store.
Price kernel_price(const BoundProgram& program, const Target& target);

// Equal texts for parts of equal structure and sizes; empty: nothing is known of parts like it.
std::string text_of(const BoundProgram& part);
// What was found of parts of a program, by their texts: the layers of a network have the same ones.
template <class Result>
class KnownParts {
 public:
  // What is on record, else what find() finds, which is put there.
  template <class Find>
  Result get(const std::string& text, const Find& find) {
    if (text.empty()) return find();
    auto known = results_.find(text);
    if (known == results_.end()) known = results_.emplace(text, find()).first;
    return known->second;
  }

 private:
  std::map<std::string, Result> results_;
};

}  // namespace tile::layout
