#!/bin/sh
# One suite of the Python package's tests: run.sh PYTHON FOLDER-OF-THE-PACKAGE FILE. Exits 77 (left out), saying why, where
# there is nothing to test or nothing to test it with.
if [ ! -x "$1" ]; then
  echo "left out: no $1 (sh third_party/install.sh --python makes it)"
  exit 77
fi
if [ -z "$2" ] || [ ! -e "$2/tilejit/_core.abi3.so" ]; then
  echo "left out: the package is not built (cmake --preset python && cmake --build --preset python)"
  exit 77
fi
PYTHONPATH=$2 "$1" -m pytest -q -p no:cacheprovider "$3"
status=$?
[ $status -eq 5 ] && exit 77  # a whole file left out: a package is missing
exit $status
