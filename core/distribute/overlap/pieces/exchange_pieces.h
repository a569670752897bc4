// One exchange of all ranks as several, each of which can be waited for alone.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "core/ir/ranks/rank_program.h"

namespace tile {

struct ExchangePieces {
  // One rank's part of one piece, with boxes of the exchange's source and result.
  struct Ends {
    std::optional<Exchange::Part> sends, receives;
  };
  struct Own {
    Box sent, received;
  };
  size_t count = 0;
  std::vector<std::vector<Ends>> of_rank;  // [rank][piece]
  std::vector<std::optional<Own>> own;     // what each rank gives itself
};

// Each rank gives another at most one part, which is cut into `chunks` along a dimension.
struct PieceCut {
  size_t chunks = 1, dim = 0;
};
// Whose next neighbour comes first: who is sent to by a rank, or who sends to it.
enum class PieceOrder : uint8_t { of_senders, of_receivers };

// Piece by piece every rank sends at most one part and receives at most one. Nullopt: it is no
// exchange of that form, has one rank only, or too many.
std::optional<ExchangePieces> pieces_of(const std::vector<RankProgram>& ranks, size_t exchange,
                                        PieceOrder order, PieceCut cut);

}  // namespace tile
