# Packages of a build: the tarball (cpack -G TGZ) and Debian packages (cpack -G DEB), one for each component:
#   library      libtileX.Y   the shared library alone
#   development  libtile-dev  headers, CMake and pkg-config files, examples
#   programs     tile-tools   tile, tile-bench, their data and man pages
# The portable build has one more, `checks`: what a machine with a GPU and without a compiler runs (tests/gpu), in an archive
# of its own.
# A build whose prefix is /usr has Debian's folders (the preset `debian`).
set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_NAME tile)
set(CPACK_PACKAGE_VENDOR "Tile JIT")
set(CPACK_PACKAGE_CONTACT "Tile JIT <tile-jit@users.noreply.github.com>")
set(CPACK_PACKAGE_FILE_NAME tile-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL library development programs)
# One archive, and packages by their components.
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
if(TILE_STATIC)
  set(CPACK_GENERATOR TXZ)
  set(CPACK_ARCHIVE_THREADS 0)  # all processors compress
  list(APPEND CPACK_COMPONENTS_ALL checks)
  foreach(_component library development programs)
    string(TOUPPER CPACK_COMPONENT_${_component}_GROUP _group)
    set(${_group} main)
  endforeach()
  set(CPACK_COMPONENT_CHECKS_GROUP checks)
  set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
  set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
  set(CPACK_ARCHIVE_MAIN_FILE_NAME ${CPACK_PACKAGE_FILE_NAME})
  set(CPACK_ARCHIVE_CHECKS_FILE_NAME tile-checks-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
endif()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/third_party/cmake/TileCPackOptions.cmake)

set(_library libtile${TILE_SOVERSION})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${_library})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION
    "JIT compiler for tensor programs, shared library
Programs in index notation, picture filters and stencils are compiled from
text to vectorised code of the processor, or of an NVIDIA GPU, while the host
runs; gradients are programs, too. This package has the shared library.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libtile-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${_library} (= ${PROJECT_VERSION}-1)")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
    "JIT compiler for tensor programs, development files
The C and C++ headers, the files by which CMake and pkg-config find the
library, and examples.")
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME tile-tools)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SECTION math)
set(CPACK_COMPONENT_PROGRAMS_DESCRIPTION
    "JIT compiler for tensor programs, command line
The program tile runs, differentiates and explains tensor programs and picture
filters on .npy files and pictures; tile-bench measures them.")

# What the library exports, and since when: `dpkg-shlibdeps` reads it for packages that use the library.
file(STRINGS ${PROJECT_SOURCE_DIR}/tests/install/exports.txt _exports)
set(_symbols "libtile.so.${TILE_SOVERSION} ${_library} (>= ${PROJECT_VERSION})\n TILE_0@TILE_0 ${PROJECT_VERSION}\n")
foreach(_name ${_exports})
  string(APPEND _symbols " ${_name}@TILE_0 ${PROJECT_VERSION}\n")
endforeach()
foreach(_name TILE_GDB __jit_debug_descriptor __jit_debug_register_code)  # of runtime/tile.map
  string(APPEND _symbols " ${_name}@TILE_GDB ${PROJECT_VERSION}\n")
endforeach()
file(WRITE ${PROJECT_BINARY_DIR}/debian/symbols "${_symbols}")
file(WRITE ${PROJECT_BINARY_DIR}/debian/shlibs
     "libtile ${TILE_SOVERSION} ${_library} (>= ${PROJECT_VERSION})\n")
configure_file(${PROJECT_SOURCE_DIR}/third_party/debian/triggers ${PROJECT_BINARY_DIR}/debian/triggers COPYONLY)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA
    "${PROJECT_BINARY_DIR}/debian/symbols;${PROJECT_BINARY_DIR}/debian/shlibs;${PROJECT_BINARY_DIR}/debian/triggers")

# What Debian asks of every package: its licence and its changes.
file(WRITE ${PROJECT_BINARY_DIR}/debian/changelog
"tile (${PROJECT_VERSION}-1) unstable; urgency=medium

  * Version ${PROJECT_VERSION}; /usr/share/doc/libtile-dev/CHANGELOG.md tells what is new.

 -- ${CPACK_PACKAGE_CONTACT}  Thu, 01 Jan 2026 00:00:00 +0000
")
find_program(TILE_GZIP gzip)
mark_as_advanced(TILE_GZIP)
if(TILE_GZIP)
  # tile_compressed(FROM TO): `gzip -9n`, the same bytes in every build.
  function(tile_compressed from to)
    execute_process(COMMAND ${TILE_GZIP} -9nc ${from} OUTPUT_FILE ${to} COMMAND_ERROR_IS_FATAL ANY)
  endfunction()
  tile_compressed(${PROJECT_BINARY_DIR}/debian/changelog ${PROJECT_BINARY_DIR}/debian/changelog.Debian.gz)
  foreach(_part "library ${_library}" "development libtile-dev" "programs tile-tools")
    separate_arguments(_part)
    list(GET _part 0 _component)
    list(GET _part 1 _package)
    install(FILES ${PROJECT_SOURCE_DIR}/third_party/debian/copyright ${PROJECT_BINARY_DIR}/debian/changelog.Debian.gz
            DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${_package} COMPONENT ${_component})
  endforeach()
endif()
install(FILES ${PROJECT_SOURCE_DIR}/runtime/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libtile-dev
        COMPONENT development)

include(CPack)
