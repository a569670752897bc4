# Finds cuda.h and nvrtc.h: of an installed CUDA toolkit, of .cuda/ (third_party/install.sh --cuda), or of NVIDIA's
# wheels in a Python environment. Only the headers are needed: the driver and NVRTC are opened at run time.
# Defines CudaHeaders_FOUND, CudaHeaders_NVRTC (a libnvrtc beside the headers, if any: tests point TILE_NVRTC at it)
# and the target CudaHeaders::headers.
set(_roots ${CUDAToolkit_ROOT} $ENV{CUDA_PATH} $ENV{CUDA_HOME} /usr/local/cuda)
set(_wheels ${PROJECT_SOURCE_DIR}/.cuda)
find_program(_python NAMES python3 NO_CACHE)
if(_python)
  execute_process(COMMAND ${_python} -c "import sys; print(';'.join(p for p in sys.path if p))"
                  OUTPUT_VARIABLE _python_path OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  list(APPEND _wheels ${_python_path})
endif()
list(TRANSFORM _wheels APPEND /nvidia/cuda_runtime OUTPUT_VARIABLE _runtime_wheels)
list(TRANSFORM _wheels APPEND /nvidia/cuda_nvrtc OUTPUT_VARIABLE _nvrtc_wheels)

find_path(CudaHeaders_DRIVER_DIR cuda.h HINTS ${_roots} ${_runtime_wheels} PATH_SUFFIXES include)
find_path(CudaHeaders_NVRTC_DIR nvrtc.h HINTS ${_roots} ${_nvrtc_wheels} PATH_SUFFIXES include)
find_file(CudaHeaders_NVRTC NAMES libnvrtc.so libnvrtc.so.13 libnvrtc.so.12
          HINTS ${_roots} ${_nvrtc_wheels} PATH_SUFFIXES lib lib64)
mark_as_advanced(CudaHeaders_DRIVER_DIR CudaHeaders_NVRTC_DIR CudaHeaders_NVRTC)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CudaHeaders REQUIRED_VARS CudaHeaders_DRIVER_DIR CudaHeaders_NVRTC_DIR)

if(CudaHeaders_FOUND AND NOT TARGET CudaHeaders::headers)
  add_library(CudaHeaders::headers INTERFACE IMPORTED)
  target_include_directories(CudaHeaders::headers SYSTEM INTERFACE ${CudaHeaders_DRIVER_DIR} ${CudaHeaders_NVRTC_DIR})
endif()
