# Finds xxHash. Defines XXHash_FOUND and the target XXHash::xxhash.
find_path(XXHash_INCLUDE_DIR xxhash.h)
find_library(XXHash_LIBRARY NAMES xxhash)
mark_as_advanced(XXHash_INCLUDE_DIR XXHash_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(XXHash REQUIRED_VARS XXHash_LIBRARY XXHash_INCLUDE_DIR)

if(XXHash_FOUND AND NOT TARGET XXHash::xxhash)
  add_library(XXHash::xxhash UNKNOWN IMPORTED)
  set_target_properties(XXHash::xxhash PROPERTIES
    IMPORTED_LOCATION ${XXHash_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${XXHash_INCLUDE_DIR})
endif()
