// As C++ too.
#include "order.c"
