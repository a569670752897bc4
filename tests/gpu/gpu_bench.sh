#!/bin/sh
# Measures every class on the GPU beside cuBLAS, cuDNN and PyTorch, from an unpacked portable tarball or a build tree.
#
#   sh gpu_bench.sh BIN JSON [tile-bench options]
#
# Results are kept in JSON after each benchmark; a second call goes on where the first one ended.
set -eu
bin=$1 json=$2
shift 2
"$bin/tile" devices | grep '^cuda:' | grep -v 'not available' || { echo "gpu_bench: no GPU"; exit 77; }
exec "$bin/tile-bench" run --backend cuda --peers --json "$json" --resume "$@"
