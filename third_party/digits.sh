#!/bin/sh
# Trains a small convolutional network on handwritten digits in one command: installs what is missing, builds
# the release preset, and runs runtime/examples/digits. Arguments go to that program.
set -eu
cd "$(dirname "$0")/.."

sh third_party/install.sh
cmake --preset release
cmake --build --preset release --target digits
data=/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz
[ -f "$data" ] || data=/usr/local/share/tile-data/data/digits.csv.gz
gzip -dc "$data" | build/release/bin/digits "$@"
