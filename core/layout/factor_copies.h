// Copies of the factors of a product, and the accesses through which the product reads them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/kernel/kernel.h"
#include "core/layout/layout.h"

namespace tile {

constexpr int64_t kWideBytes = 16;  // of one access; rows of a copy are a multiple of it

int64_t bytes_of(const Shape& shape, DType type);
// The dimension that the iterator alone moves along, with step 1; nullopt: another form.
std::optional<size_t> only_dimension(const Access& access, size_t iterator);

// The iterator that each dimension of a tensor of this shape is, all of it, and none of them twice;
// nullopt: another form.
std::optional<std::vector<IteratorId>> whole_dimensions(const Access& access, const Piece& piece,
                                                        const Shape& shape);

// Points of a product's rows, that move the first access alone, of its columns, that move the
// second alone, and of its terms, that move both; 1 where there are none.
struct ProductExtents {
  int64_t rows = 1, columns = 1, terms = 1;
};
ProductExtents product_extents(const Piece& piece, const Access& first, const Access& second);

// What the iterators of a product of matrices are for; nullopt: the statement is no sum of products
// of two loads' elements, without conditions, that has rows, columns and terms.
std::optional<PieceClass> matrix_class(const Contraction& c, const BoundTensors& tensors);

// The model's time of a statement as a kernel of its own.
double alone_ns(const Contraction& c, const BoundProgram& program, const Target& target);

// Adds tensors to a program, and the statements that set them to `made`.
class FactorCopies {
 public:
  explicit FactorCopies(BoundProgram& program) : program_(program) {}

  const BoundTensor& tensor(TensorId id) const { return program_.tensors[id]; }
  const BoundTensors& tensors() const { return program_.tensors; }
  // Named after `of`.
  TensorId add(const std::string& of, DType type, Shape shape,
               std::optional<TensorId> view_of = {});
  // A statement that sets `to`, of which every iterator is a dimension, to a factor's elements;
  // zero where the last iterator is `limit` or more.
  Contraction copied(TensorId to, const Access& from, std::vector<std::string> names,
                     std::optional<int64_t> limit = {}) const;
  // The access through a copy whose dimensions are `order` of the tensor's.
  Access reordered(const Access& from, const std::vector<size_t>& order,
                   std::vector<BoundStatement>& made);
  // The access through a copy in another type.
  Access converted(const Access& from, DType type, std::vector<BoundStatement>& made);
  // The accesses to both parts, of tf32 each, of a copy with the dimensions `order`; rows are whole
  // accesses.
  std::pair<Access, Access> in_parts(const Access& from, const std::vector<size_t>& order,
                                     std::vector<BoundStatement>& made);

 private:
  Access through(const Access& from, const std::vector<size_t>& order, DType type,
                 std::vector<BoundStatement>& made);
  std::string fresh_name(const std::string& of) const;

  BoundProgram& program_;
};

}  // namespace tile
