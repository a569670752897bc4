#!/bin/sh
# Builds the wheel of the Python package into build/wheels/:
#
#   sh runtime/python/build.sh [--static] [CMAKE-DEFINITION=VALUE...]
#
#   --static   LLVM, oneTBB and the C++ runtime inside, for other machines (sh third_party/install.sh --portable first);
#              with the programs tile and tile-bench;
#              without it the wheel needs this system's LLVM and oneTBB, and has no programs
#
# Uses the environment of sh third_party/install.sh --python; the custom calls for JAX are built where jaxlib is in it.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
python=$root/.python/bin/python
[ -x "$python" ] || { echo "no $python: run sh third_party/install.sh --python" >&2; exit 1; }

folder=wheel
settings=""
for option in "$@"; do
  case "$option" in
    --static) folder=wheel-static; settings="$settings -Ccmake.define.TILE_STATIC=ON -Ccmake.define.TILE_BUILD_BENCH=ON -Cinstall.strip=true" ;;
    *=*) settings="$settings -Ccmake.define.$option" ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done
mkdir -p "$root/build/wheels"
# shellcheck disable=SC2086
PATH=$root/.python/bin:$PATH "$python" -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir "$root/build/wheels" \
  -Cbuild-dir="$root/build/$folder" -Ccmake.define.Python_EXECUTABLE="$python" $settings "$root/runtime/python"
if [ $folder = wheel-static ]; then
  # The oldest glibc that the symbols allow becomes the tag; nothing is grafted, as all is inside.
  for wheel in "$root"/build/wheels/tile_jit-*-linux_x86_64.whl; do
    PATH=$root/.python/bin:$PATH "$python" -m auditwheel repair --only-plat --zip-compression-level 9 \
      --wheel-dir "$root/build/wheels" "$wheel"
    rm "$wheel"
  done
fi
ls -l "$root"/build/wheels
