# What is installed: libtile, its headers, the programs, and how a host finds them (CMake and pkg-config).
# Three components: library, development and programs. Everything is found relative to its own place, so that an installed tree can be
# moved.
include(CMakePackageConfigHelpers)

set(TILE_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Tile)

# As long as the major version is 0, minor versions are incompatible.
set(TILE_SOVERSION ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(TILE_SOVERSION 0.${PROJECT_VERSION_MINOR})
endif()
set(_maps ${PROJECT_SOURCE_DIR}/runtime/tile.map)
if(TILE_STATIC)
  list(APPEND _maps ${PROJECT_SOURCE_DIR}/runtime/tile_private.map)
  target_link_options(tile PRIVATE LINKER:--gc-sections LINKER:-O2)  # the latter: ends of strings are shared
endif()
set(_version ${PROJECT_VERSION})
if(DEFINED SKBUILD)  # a wheel holds no links: a second name would be a second copy of LLVM
  set(_version ${TILE_SOVERSION})
endif()
set_target_properties(tile PROPERTIES VERSION ${_version} SOVERSION ${TILE_SOVERSION} LINK_DEPENDS "${_maps}")
target_link_options(tile PRIVATE LINKER:--exclude-libs,ALL)
foreach(_map ${_maps})
  target_link_options(tile PRIVATE LINKER:--version-script=${_map})
endforeach()
if(NOT TILE_SANITIZE)  # sanitizers leave their run-time functions to the program
  target_link_options(tile PRIVATE LINKER:--no-undefined)
endif()

install(TARGETS tile EXPORT TileTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/include/tile DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT development FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(EXPORT TileTargets NAMESPACE Tile:: DESTINATION ${TILE_CMAKE_DIR} COMPONENT development)

configure_package_config_file(${PROJECT_SOURCE_DIR}/third_party/cmake/TileConfig.cmake.in
  ${PROJECT_BINARY_DIR}/TileConfig.cmake INSTALL_DESTINATION ${TILE_CMAKE_DIR} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TileConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TileConfig.cmake ${PROJECT_BINARY_DIR}/TileConfigVersion.cmake
        DESTINATION ${TILE_CMAKE_DIR} COMPONENT development)

file(RELATIVE_PATH TILE_PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/third_party/cmake/tile.pc.in ${PROJECT_BINARY_DIR}/tile.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tile.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

foreach(program tile_cli tile-bench)
  if(TARGET ${program})
    set_target_properties(${program} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
  endif()
endforeach()
if(TARGET tile_cli)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT programs OPTIONAL)
endif()
# The C and C++ examples, with the CMake project that builds them against the installed library.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/examples/hosts DESTINATION ${CMAKE_INSTALL_DATADIR}/tile/examples
        COMPONENT development)
# The transport over MPI, which a user's own mpicc compiles.
install(FILES ${PROJECT_SOURCE_DIR}/runtime/transport/mpi/tile_mpi.c DESTINATION ${CMAKE_INSTALL_DATADIR}/tile
        COMPONENT development)
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")  # Debian's packages have a file of their own for the licence
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT library)
endif()

# The documents, in the folders that their links to one another expect, and what editors need.
file(GLOB_RECURSE _documents RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/core/*.md ${PROJECT_SOURCE_DIR}/runtime/*.md ${PROJECT_SOURCE_DIR}/bench/*.md
     ${PROJECT_SOURCE_DIR}/backends/*.md)
foreach(_document ${_documents} README.md .github/SECURITY.md tests/README.md third_party/BUILDING.md)
  get_filename_component(_folder ${_document} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${_document} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${_folder} COMPONENT programs)
endforeach()
# What the documents link to, and what their commands name by $TILE_ROOT, stands beside them as in the repository.
foreach(_folder runtime/editors runtime/examples runtime/include tests/filters/expected)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${_folder}/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/${_folder} COMPONENT programs
          PATTERN __pycache__ EXCLUDE PATTERN node_modules EXCLUDE)
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/editors DESTINATION ${CMAKE_INSTALL_DATADIR}/tile COMPONENT programs
        PATTERN __pycache__ EXCLUDE)

include(TilePackages)
