# An overlay port of this checkout: vcpkg install tile-jit --overlay-ports=third_party/packages/vcpkg
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DTILE_BUILD_TESTS=OFF -DTILE_BUILD_BENCH=OFF -DTILE_CUDA=OFF -DTILE_WERROR=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME Tile CONFIG_PATH lib/cmake/Tile)
vcpkg_fixup_pkgconfig()
vcpkg_copy_tools(TOOL_NAMES tile AUTO_CLEAN)
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
