// Pairs of rows are interleaved inside their parts of 128 bits, which one instruction does, until
// a part holds a column of several rows; then the parts change places.
#include "backends/cpu/memory/transposed.h"

#include <algorithm>

namespace tile::cpu {
namespace {

using llvm::Value;
using Values = std::vector<Value*>;

constexpr unsigned kPartBits = 128;

unsigned size_of(Value* v) {
  return llvm::cast<llvm::FixedVectorType>(v->getType())->getNumElements();
}

class Turning {
 public:
  Turning(llvm::IRBuilderBase& ir, std::span<Value* const> rows) : ir_(ir), height_(rows.size()) {
    llvm::Type* element = rows[0]->getType()->getScalarType();
    part_ = std::max(1U, kPartBits / element->getScalarSizeInBits());
    for (Value* row : rows) rows_.push_back(lengthened(row));
    while (rows_.size() < part_) rows_.push_back(llvm::PoisonValue::get(rows_[0]->getType()));
  }

  Values columns(unsigned count) {
    std::vector<Values> groups = interleaved();
    columns_.resize(size_of(rows_[0]));
    for (unsigned c = 0; c < part_; ++c) {
      Values same;
      for (const Values& group : groups) same.push_back(group[c]);
      part_columns(same, c, 1);
    }
    columns_.resize(count);
    return std::move(columns_);
  }

 private:
  // At least one part.
  Value* lengthened(Value* row) {
    unsigned size = size_of(row);
    if (size >= part_) return row;
    llvm::SmallVector<int> picks(part_, -1);
    for (unsigned i = 0; i < size; ++i) picks[i] = static_cast<int>(i);
    return ir_.CreateShuffleVector(row, picks);
  }

  // For each group of part_ rows: vector c has in every part the group's elements of the part's
  // column c.
  std::vector<Values> interleaved() {
    std::vector<Values> groups;
    for (Value* row : rows_) groups.push_back({row});
    for (unsigned together = 1; together < part_; together *= 2) {
      std::vector<Values> pairs;
      for (size_t g = 0; g < groups.size(); g += 2) {
        Values& both = pairs.emplace_back();
        for (size_t c = 0; c < groups[g].size(); ++c) {
          both.push_back(interleave(groups[g][c], groups[g + 1][c], together, 0));
          both.push_back(interleave(groups[g][c], groups[g + 1][c], together, part_ / 2));
        }
      }
      groups = std::move(pairs);
    }
    return groups;
  }

  // Of each part the half that begins at `from`: `together` elements of a, as many of b, and so on.
  Value* interleave(Value* a, Value* b, unsigned together, unsigned from) {
    unsigned size = size_of(a);
    llvm::SmallVector<int> picks;
    for (unsigned part = 0; part < size; part += part_) {
      for (unsigned i = 0; i < part_ / 2; i += together) {
        for (unsigned side = 0; side < 2; ++side) {
          for (unsigned e = 0; e < together; ++e) {
            picks.push_back(static_cast<int>(side * size + part + from + i + e));
          }
        }
      }
    }
    return fenced(ir_.CreateShuffleVector(a, b, picks));
  }

  // LLVM looks for better shuffles through all that stand behind one another, which took seven
  // milliseconds for a block of 16 rows and found none; it does not look through a fence.
  Value* fenced(Value* v) {
    llvm::Type* type = v->getType();
    unsigned words = static_cast<unsigned>(type->getPrimitiveSizeInBits().getFixedValue()) / 32;
    Value* floats = ir_.CreateBitCast(v, llvm::FixedVectorType::get(ir_.getFloatTy(), words));
    Value* fence =
        ir_.CreateIntrinsic(llvm::Intrinsic::arithmetic_fence, {floats->getType()}, {floats});
    return ir_.CreateBitCast(fence, type);
  }

  // The vectors, one after the other, have for each group of rows, in order, parts of the columns
  // first, first + apart * part_ …: each goes to its column.
  void part_columns(const Values& vectors, unsigned first, unsigned apart) {
    unsigned parts = size_of(vectors[0]) / part_;
    if (parts == apart) {
      columns_[first] = shortened(joined(vectors));
      return;
    }
    if (vectors.size() == 1) {
      for (unsigned i = 0; i < parts / apart; ++i) {
        columns_[first + i * apart * part_] =
            shortened(picked(vectors[0], vectors[0], i, parts / apart, apart));
      }
      return;
    }
    for (unsigned odd = 0; odd < 2; ++odd) {
      Values half;
      for (size_t v = 0; v < vectors.size(); v += 2) {
        half.push_back(picked(vectors[v], vectors[v + 1], odd, 2, parts));
      }
      part_columns(half, first + odd * apart * part_, 2 * apart);
    }
  }

  // `count` parts of a and b, every step-th from `from` on.
  Value* picked(Value* a, Value* b, unsigned from, unsigned step, unsigned count) {
    llvm::SmallVector<int> picks;
    for (unsigned i = 0; i < count; ++i) {
      for (unsigned e = 0; e < part_; ++e) {
        picks.push_back(static_cast<int>((from + i * step) * part_ + e));
      }
    }
    return fenced(ir_.CreateShuffleVector(a, b, picks));
  }

  Value* joined(Values vectors) {
    while (vectors.size() > 1) {
      Values pairs;
      for (size_t v = 0; v < vectors.size(); v += 2) {
        pairs.push_back(picked(vectors[v], vectors[v + 1], 0, 1, 2 * size_of(vectors[v]) / part_));
      }
      vectors = std::move(pairs);
    }
    return vectors[0];
  }

  // Without the rows that were only added.
  Value* shortened(Value* column) {
    if (size_of(column) == height_) return column;
    llvm::SmallVector<int> picks;
    for (size_t i = 0; i < height_; ++i) picks.push_back(static_cast<int>(i));
    return ir_.CreateShuffleVector(column, picks);
  }

  llvm::IRBuilderBase& ir_;
  size_t height_;
  unsigned part_ = 1;  // elements in 128 bits
  Values rows_, columns_;
};

}  // namespace

Values transposed(llvm::IRBuilderBase& ir, std::span<Value* const> rows, unsigned count) {
  return Turning(ir, rows).columns(count);
}

}  // namespace tile::cpu
