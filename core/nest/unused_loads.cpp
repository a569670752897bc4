#include "core/nest/unused_loads.h"

#include "core/ir/analysis/accesses.h"

namespace tile::nest {

void drop_unused(Store& store) {
  store.body = tidied(store.body);
  drop_unread(store.body, store.loads);
}

}  // namespace tile::nest
