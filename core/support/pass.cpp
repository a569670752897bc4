#include "core/support/pass.h"

#include <algorithm>

namespace tile {

std::string_view to_string(PassStage stage) {
  switch (stage) {
    case PassStage::front_end:
      return "front-end";
    case PassStage::tensor:
      return "tensor";
    case PassStage::fusion:
      return "fusion";
    case PassStage::lowering:
      return "lowering";
    case PassStage::nest:
      return "nest";
    case PassStage::code:
      return "code";
  }
  return "";
}

bool PassOptions::runs(const PassInfo& pass) const {
  return !pass.optional || skip.empty() ||
         std::find(skip.begin(), skip.end(), pass.name) == skip.end();
}

}  // namespace tile
