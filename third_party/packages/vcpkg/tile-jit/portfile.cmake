# An overlay port of this checkout: vcpkg install tile-jit:x64-linux-dynamic --overlay-ports=third_party/packages/vcpkg
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)

# vcpkg has other versions of LLVM: the system's LLVM 19 is taken (the package llvm-19-dev), or the one whose folder of
# CMake files the triplet sets as TILE_LLVM_DIR.
if(NOT TILE_LLVM_DIR)
  set(TILE_LLVM_DIR /usr/lib/llvm-19/lib/cmake/llvm)
endif()
if(NOT EXISTS "${TILE_LLVM_DIR}/LLVMConfig.cmake")
  message(FATAL_ERROR "No LLVM 19 in ${TILE_LLVM_DIR}: install llvm-19-dev, or set TILE_LLVM_DIR in the triplet")
endif()

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS "-DLLVM_DIR=${TILE_LLVM_DIR}" -DTILE_BUILD_TESTS=OFF -DTILE_BUILD_BENCH=OFF -DTILE_CUDA=OFF -DTILE_WERROR=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME Tile CONFIG_PATH lib/cmake/Tile)
vcpkg_fixup_pkgconfig()
vcpkg_copy_tools(TOOL_NAMES tile AUTO_CLEAN)
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
