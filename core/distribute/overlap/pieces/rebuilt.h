// Programs of all ranks in which one exchange, and the contractions that read or make what it
// moves, are in pieces.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/distribute/overlap/pieces/exchange_pieces.h"
#include "core/distribute/partition.h"

namespace tile {

// Statements and exchanges of one rank in the order in which they are put there.
class RankRewriter {
 public:
  // Where something stands among the program's statements: before the one with that number.
  struct Place {
    size_t begin = 0;      // of the pieces' exchanges, or of all that is put there
    size_t first = 0;      // of the statements that wait for them
    bool is_last = false;  // behind later exchanges that stand at `begin`
  };

  RankRewriter(const RankProgram& before, size_t exchange, Place place, std::set<size_t> left_out);

  // `program` has the tensors of `before` and others. `begin` and `wait` put what stands at the
  // place's two ends. An exchange that has another number than `exchange` stays, and what is left
  // out goes.
  void run(RankProgram& program, const std::function<void()>& begin,
           const std::function<void()>& wait);
  void add(BoundStatement statement);
  size_t statements() const { return program_->program.statements.size(); }
  size_t begin(Exchange what);  // its number
  void end(size_t exchange);    // that has begun
  // The exchanges as they stand now, by their old numbers.
  const std::vector<size_t>& order() const { return order_; }

 private:
  // Exchanges that stand there, before that which is in pieces or behind it.
  void place(size_t at, bool later, std::map<size_t, size_t>& travelling);

  const RankProgram& before_;
  size_t exchange_;
  Place place_;
  std::set<size_t> left_out_;
  RankProgram* program_ = nullptr;
  std::vector<size_t> order_;
};

// Programs of all ranks that get more tensors, the same on each.
class MoreTensors {
 public:
  explicit MoreTensors(std::vector<RankProgram>& ranks);
  // Temporaries of these shapes; the name is made unique.
  TensorId declare(const std::string& name, DType type, const std::vector<Shape>& shapes);

 private:
  std::vector<RankProgram>& ranks_;
  std::set<std::string> names_;
};

// Of a rank that has nothing of it.
Shape no_cells(size_t dims);
// Sets a tensor that has no cells, or zeros.
Contraction nothing(TensorId result, const Contraction& like);
// Whether statements but these, or exchanges, or the caller, have to do with the tensor.
bool is_used_beside(const RankProgram& rank, TensorId id, const std::set<size_t>& statements,
                    size_t exchange);

// The exchanges told anew: those of the ranks' programs now, by their old numbers. Of one in pieces
// each says what it is, and no cost.
std::vector<ExchangeSummary> told_anew(const std::vector<ExchangeSummary>& before,
                                       const std::vector<size_t>& order);

}  // namespace tile
