// What most sources include of the standard library, parsed once for each target. A convenience of
// the build: every source includes what it needs itself (TILE_PRECOMPILED_HEADERS=OFF builds so).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>
