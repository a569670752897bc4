#!/bin/sh
# From a fresh machine to results in one command: installs what is missing, builds the release preset,
# measures real operations with tile-bench, and filters a real photograph.
#
#   sh third_party/demo.sh [FOLDER]      the pictures and the measurements go to FOLDER (out/)
set -eu
cd "$(dirname "$0")/.."
out=${1:-out}

sh third_party/install.sh
cmake --preset release
cmake --build --preset release --target tile_cli tile-bench
bin=build/release/bin

mkdir -p "$out"
"$bin/tile-bench" tune conv3x3_b8 matmul_1024 max_pool_b8 softmax_1024x1024 \
  --peers --quick --json "$out/bench.json"
data=/usr/lib/python3/dist-packages/sklearn/datasets
[ -d "$data" ] || data=/usr/local/share/tile-data
"$bin/tile" run bench/workloads/pictures/unsharp.tile --repeat 10 \
  --in "I=$data/images/china.jpg" --out "O=$out/china-sharp.png"
printf 'demo: wrote %s\n' "$out/china-sharp.png"
