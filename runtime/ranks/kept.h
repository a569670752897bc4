// Memory that a transport which failed may still write to.
#pragma once

#include <memory>

namespace tile {

// It stays until the process ends.
void keep_for_ever(std::shared_ptr<void> memory);

}  // namespace tile
