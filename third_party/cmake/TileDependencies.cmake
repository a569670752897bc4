# How each dependency is found. Layers name the targets made here; what each of them is made of is decided here only:
#   tile_llvm          LLVM 19 with ORC, shared by default, static with TILE_STATIC
#   TBB::tbb           oneTBB
#   XXHash::xxhash
#   tile_cuda_headers  exists only where the CUDA headers are found and TILE_CUDA is on
# and TILE_DATA_DIR is the folder of the photographs (images/) and the handwritten digits (data/), if they are there.

option(TILE_STATIC "Link LLVM, oneTBB and the C++ runtime statically (the `portable` preset)" OFF)
# What is installed statically is downloaded: the linker drops what nothing calls, of this project's code as of LLVM's.
# Both kinds of build compile alike, so that one compiler cache serves both.
target_compile_options(tile_flags INTERFACE -ffunction-sections -fdata-sections)
if(TILE_STATIC)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a ${CMAKE_FIND_LIBRARY_SUFFIXES})
  list(PREPEND CMAKE_PREFIX_PATH ${PROJECT_SOURCE_DIR}/.portable)
endif()

find_package(Threads REQUIRED)
find_package(XXHash REQUIRED)

find_package(LLVM 19.1 REQUIRED CONFIG)
add_library(tile_llvm INTERFACE)
target_include_directories(tile_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
separate_arguments(_definitions NATIVE_COMMAND ${LLVM_DEFINITIONS})
target_compile_definitions(tile_llvm INTERFACE ${_definitions})
if(TILE_STATIC)
  # As packaged, LLVMSupport asks for the shared Z3, zlib and zstd. Z3 serves Clang's analyser only.
  find_library(TILE_ZLIB libz.a REQUIRED)
  find_library(TILE_ZSTD libzstd.a REQUIRED)
  set_target_properties(LLVMSupport PROPERTIES
    INTERFACE_LINK_LIBRARIES "rt;dl;m;${TILE_ZLIB};${TILE_ZSTD};Threads::Threads;LLVMDemangle")
  llvm_map_components_to_libnames(_libraries core orcjit passes native nativecodegen analysis bitwriter)
  target_link_libraries(tile_llvm INTERFACE ${_libraries})
  target_compile_definitions(tile_llvm INTERFACE TILE_STATIC_LLVM)
  # Parts of LLVM that kernels never need: a source of the one library that holds LLVM.
  set(TILE_LLVM_LEFT_OUT ${PROJECT_SOURCE_DIR}/third_party/cmake/llvm_left_out.c)
else()
  target_link_libraries(tile_llvm INTERFACE LLVM)
endif()

if(TILE_STATIC)
  # third_party/install.sh --portable builds it: Debian packages only the shared library.
  find_package(TBB REQUIRED CONFIG PATHS ${PROJECT_SOURCE_DIR}/.portable NO_DEFAULT_PATH)
  add_link_options(-static-libstdc++)
  if(NOT DEFINED SKBUILD)  # wheels take the system's libgcc_s, which they may: the static one asks for glibc 2.35
    add_link_options(-static-libgcc)
  endif()
else()
  find_package(TBB REQUIRED CONFIG)
endif()

if(TILE_CUDA)
  find_package(CudaHeaders QUIET)
  if(CudaHeaders_FOUND)
    message(STATUS "CUDA headers: ${CudaHeaders_DRIVER_DIR}, ${CudaHeaders_NVRTC_DIR}")
    add_library(tile_cuda_headers INTERFACE)
    target_link_libraries(tile_cuda_headers INTERFACE CudaHeaders::headers)
  else()
    message(STATUS "CUDA headers not found: the CUDA backend and its tests are skipped "
                   "(sh third_party/install.sh --cuda fetches NVIDIA's wheels)")
  endif()
else()
  message(STATUS "TILE_CUDA is off: the CUDA backend and its tests are skipped")
endif()

find_path(TILE_DATA_DIR images/china.jpg
          PATHS /usr/lib/python3/dist-packages/sklearn/datasets /usr/local/share/tile-data NO_DEFAULT_PATH
          DOC "Folder of the photographs and digits (third_party/install.sh provides it)")
mark_as_advanced(TILE_DATA_DIR)
