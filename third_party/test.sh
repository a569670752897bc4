#!/bin/sh
# From a fresh machine to tested in one command: installs what is missing, builds the release preset,
# and runs the default set of tests (`ctest --preset release`). Arguments go to ctest.
set -eu
cd "$(dirname "$0")/.."

sh third_party/install.sh
cmake --preset release
cmake --build --preset release
ctest --preset release -j "$(nproc)" "$@"
