// Warnings of a program for the shapes that it was compiled for.
#pragma once

#include <string>
#include <vector>

#include "core/support/diagnostic.h"
#include "runtime/engine/executable.h"

namespace tile {

// In the order of the text; see core/warnings/warnings.h. Also of an executable from the disk
// cache. Then those of values that parameters have had in runs.
std::vector<Diagnostic> warnings_of(const Executable& executable);
// A JSON array of objects as render_json makes them, on one line.
std::string warnings_json(const std::vector<Diagnostic>& warnings, const Source& source);

}  // namespace tile
