# One place for the language level, the warnings and the helper that makes a layer of the product.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# Sanitizers apply to every target of ours; LLVM and oneTBB stay as the system built them.
set(TILE_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize takes them")
if(TILE_SANITIZE)
  add_compile_options(-fsanitize=${TILE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TILE_SANITIZE})
endif()
option(TILE_FUZZ "Build the libFuzzer targets (the `fuzz` preset: Clang only)" OFF)
if(TILE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

add_library(tile_flags INTERFACE)
target_compile_options(tile_flags INTERFACE -Wall -Wextra -Wshadow $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
                                            $<$<BOOL:${TILE_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 warns falsely on concatenated std::string (its PR 105651) and on std::optional of a
    # class with shared pointers.
    target_compile_options(tile_flags INTERFACE -Wno-restrict -Wno-maybe-uninitialized)
    # The same false warnings have further names where the standard headers are precompiled.
    target_compile_options(tile_flags INTERFACE
      $<$<CONFIG:Release>:-Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread>)
  endif()
endif()
# Values computed by the compiler itself (constant folding, the interpreter) must not depend on what
# the host compiler fuses.
target_compile_options(tile_flags INTERFACE -ffp-contract=off)

# tile_precompile(TARGET HEADERS...) parses the standard library's headers, and HEADERS, once for the
# target: half of the time to compile a source is theirs.
option(TILE_PRECOMPILED_HEADERS "Parse the standard library's headers once for each target" ON)
function(tile_precompile target)
  if(TILE_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} PRIVATE
      ${PROJECT_SOURCE_DIR}/third_party/cmake/precompiled.h ${ARGN})
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)  # lets compiler caches see what was precompiled
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
    endif()
  endif()
endfunction()

# tile_layer(NAME DEPS...) makes the static library NAME from every source below this folder. Layers
# see only the layers that they name, so a forbidden include fails to link or to be found.
function(tile_layer name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  if(NOT sources)
    file(TOUCH ${CMAKE_CURRENT_BINARY_DIR}/no_sources_yet.cpp)
    set(sources ${CMAKE_CURRENT_BINARY_DIR}/no_sources_yet.cpp)
  endif()
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE tile_flags PUBLIC ${ARGN})
  tile_precompile(${name})
endfunction()
