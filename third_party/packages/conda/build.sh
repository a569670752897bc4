#!/bin/sh
# What conda-build runs in a clone of the repository, for meta.yaml.
set -eu
cmake -G Ninja -S . -B build/conda -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$PREFIX" -DCMAKE_PREFIX_PATH="$PREFIX" \
  -DCMAKE_INSTALL_LIBDIR=lib -DTILE_BUILD_TESTS=OFF -DTILE_BUILD_BENCH=OFF -DTILE_CUDA=OFF -DTILE_WERROR=OFF
cmake --build build/conda
cmake --install build/conda
