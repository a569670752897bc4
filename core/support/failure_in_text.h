// An error in another text than the one that its receiver takes for granted: that of a mesh, of
// layouts, or of the program where a call's arguments do not fit it.
#pragma once

#include <utility>

#include "core/support/diagnostic.h"

namespace tile {

class FailureInText : public Failure {
 public:
  FailureInText(Diagnostic diagnostic, SourcePtr text)
      : Failure(std::move(diagnostic)), text_(std::move(text)) {}
  const SourcePtr& text() const { return text_; }

 private:
  SourcePtr text_;
};

}  // namespace tile
