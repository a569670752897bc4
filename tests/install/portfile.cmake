# Runs the port's portfile with functions of the names that vcpkg gives it, on an installed build:
#   cmake -DBUILD=… -DROOT=… -DCURRENT_PACKAGES_DIR=… -P portfile.cmake
# Each function does to the installed tree what vcpkg's would as far as the port depends on it, and fails where what it is
# told of is not there. Prints the options for CMake, one a line.
function(need path)
  if(NOT EXISTS "${path}")
    message(FATAL_ERROR "The port names ${path}, which is not there")
  endif()
endfunction()

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" SOURCE_PATH OPTIONS)
  file(REAL_PATH "${arg_SOURCE_PATH}" source)
  file(REAL_PATH "${ROOT}" root)
  if(NOT source STREQUAL root OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "The port builds ${source} with ${arg_UNPARSED_ARGUMENTS}, not ${root}")
  endif()
  foreach(option ${arg_OPTIONS})
    message(NOTICE "option ${option}")
  endforeach()
endfunction()

function(vcpkg_cmake_install)
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${CURRENT_PACKAGES_DIR} OUTPUT_QUIET
                  COMMAND_ERROR_IS_FATAL ANY)
  file(MAKE_DIRECTORY ${CURRENT_PACKAGES_DIR}/debug/include ${CURRENT_PACKAGES_DIR}/debug/share)
endfunction()

function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "PACKAGE_NAME;CONFIG_PATH" "")
  need(${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/${arg_PACKAGE_NAME}Config.cmake)
  file(RENAME ${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH} ${CURRENT_PACKAGES_DIR}/share/${arg_PACKAGE_NAME})
endfunction()

function(vcpkg_fixup_pkgconfig)
  need(${CURRENT_PACKAGES_DIR}/lib/pkgconfig/tile.pc)
endfunction()

function(vcpkg_copy_tools)
  cmake_parse_arguments(PARSE_ARGV 0 arg AUTO_CLEAN "" TOOL_NAMES)
  foreach(tool ${arg_TOOL_NAMES})
    need(${CURRENT_PACKAGES_DIR}/bin/${tool})
    file(REMOVE ${CURRENT_PACKAGES_DIR}/bin/${tool})
  endforeach()
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" FILE_LIST)
  need(${arg_FILE_LIST})
endfunction()

include(${ROOT}/third_party/packages/vcpkg/tile-jit/portfile.cmake)
foreach(rest debug/include debug/share)
  if(EXISTS ${CURRENT_PACKAGES_DIR}/${rest})
    message(FATAL_ERROR "The port leaves ${rest}")
  endif()
endforeach()
need(${CURRENT_PACKAGES_DIR}/include/tile/tile.h)
need(${CURRENT_PACKAGES_DIR}/lib/libtile.so)
