// The order in which a turn of a streamed loop issues its products on tensor cores (wgmma, which
// runs beside the threads that issued it), and where their results are waited for. Products of two
// shared factors ("ahead") are issued one turn early, as soon as nothing needs their sums' old
// elements, so that they run while weights are made of the turn before; the others, whose first
// factor is in registers, together behind the statement that makes the last of these factors.
// (Shah et al., FlashAttention-3, section 3.2, has this order of two products; here it follows from
// what statements read and write.)
//
// ptxas (12.8 to 13.0) makes every product wait for the one before it where its analysis finds
// registers of a running product used by something else (C7513, C7514, C7515). What it accepts was
// tried on the kernels of attention and its gradients: factors in registers are made while nothing
// runs; the wait for a turn's first results stands at the end of the turn before; at most one group
// runs on from there, of the only product of its kind, or ahead.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "core/nest/nest.h"

namespace tile::cuda {

struct ProductOrder {
  struct Issue {
    size_t statement = 0;  // of the loop's body: the product
    bool ahead = false;    // of the next turn
    size_t before = 0;     // the statement that it is issued before, or the end of the body
  };
  // In the order in which a turn issues them, each a group of its own.
  std::vector<Issue> issues;
  // The issue before which all groups but the last one have ended, so that its sum may take the
  // registers of the first factors of the turn's own products; 0: none.
  size_t waiting_issue = 0;
  struct Wait {
    int running = 0;            // the most groups that may still run, of those issued last
    std::vector<size_t> ended;  // products (statements) that the turn has not waited for before
  };
  std::map<size_t, Wait> waits;  // before a statement; at the body's end for the next turn
  // The statement that follows a running maximum and whose wait was moved there. Nothing may move
  // that wait further ahead: while the maximum is taken, the last turn's products end. 0: none.
  size_t behind_maximum = 0;
  // The statement before which, behind its wait, all that read the turn before's blocks has ended.
  size_t released = 0;
};

// Whether there is a product in the block, at any depth; not of the loop `apart`, if one is given.
bool holds_product(const nest::Block& block, const nest::For* apart = nullptr);

// Nothing: a product stands inside a condition or a loop. `clears` tells that a statement sets a
// fragment to zero, which the product behind it does itself.
using ClearsFragment = std::function<bool(const nest::Statement&, nest::BufferId)>;
std::optional<ProductOrder> product_order(const nest::Block& body,
                                          const IdVector<nest::BufferId, nest::Buffer>& buffers,
                                          const ClearsFragment& clears);

}  // namespace tile::cuda
