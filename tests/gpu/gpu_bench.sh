#!/bin/sh
# Measures every class on the GPU beside cuBLAS, cuDNN and PyTorch: see gpu_bench.py beside this file.
#
#   sh gpu_bench.sh BIN JSON [--budget SECONDS] [tile-bench options]
exec python3 "$(dirname "$0")/gpu_bench.py" "$@"
