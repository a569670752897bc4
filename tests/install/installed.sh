#!/bin/sh
# Installs the library from a build folder, moves the installed tree, and uses it as strangers do: a plain C host finds
# it by CMake and by pkg-config; its exports are those of the golden list and of the header.
#
#   sh tests/install/installed.sh BUILD-FOLDER
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for component in library development; do
  cmake --install "$build" --component $component --prefix "$work/first" >/dev/null
done
mv "$work/first" "$work/moved"
library=$(find "$work/moved" -name libtile.so)
folder=$(dirname "$library")

nm -D --defined-only --extern-only "$library" | awk '$3 ~ /@TILE_0$/ && $2 != "A" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort >"$work/exports"
others=$(nm -D --defined-only --extern-only "$library" | awk '$2 != "A" { print $3 }' | grep -v '@TILE_0$' | LC_ALL=C sort | tr '\n' ' ')
[ "$others" = "__jit_debug_descriptor@@TILE_GDB __jit_debug_register_code@@TILE_GDB " ] ||
  { echo "installed: beside the interface not what gdb looks for alone is exported: $others" >&2; exit 1; }
diff -u "$root/tests/install/exports.txt" "$work/exports"
grep -ohE '\btile_[a-z0-9_]+\(' "$work/moved/include/tile/tile.h" | tr -d '(' | LC_ALL=C sort -u >"$work/declared"
diff -u "$work/declared" "$work/exports"
echo "installed: $(wc -l <"$work/exports") functions exported, as listed and declared"

cmake -G Ninja -S "$root/tests/install/host" -B "$work/by-cmake" -DCMAKE_PREFIX_PATH="$work/moved" >/dev/null
cmake --build "$work/by-cmake" >/dev/null
"$work/by-cmake/host"
echo "installed: found by find_package"

examples=$(find "$work/moved" -type d -name hosts)
cmake -G Ninja -S "$examples" -B "$work/examples" -DCMAKE_PREFIX_PATH="$work/moved" >/dev/null
cmake --build "$work/examples" >/dev/null
[ "$("$work/examples/matmul")" = "C = [58 64; 139 154]
DA = [7 9 11; 8 10 12]" ] || { echo "installed: the example in C prints something else" >&2; exit 1; }
"$work/examples/plugin" | grep -q "^softmax in place: 0.0900306 0.244728 0.665241 " ||
  { echo "installed: the example in C++ prints something else" >&2; exit 1; }
layer=$("$work/examples/layer")
case $layer in
  *"DGain: "*"typo.tile:1:43: parse error [name]: undefined tensor 'Gian'"*"did you mean 'Gain'?"*) ;;
  *) echo "installed: the example of a layer prints something else: $layer" >&2; exit 1 ;;
esac
echo "installed: the examples build and run"

flags=$(PKG_CONFIG_PATH="$folder/pkgconfig" pkg-config --cflags --libs tile)
# shellcheck disable=SC2086
cc -std=c99 -Wall -Wextra -Wpedantic -Werror -o "$work/by-pkg-config" "$root/tests/install/host/host.c" $flags
LD_LIBRARY_PATH="$folder" "$work/by-pkg-config"
echo "installed: found by pkg-config"

printf '#include <tile/tile.h>\nint main() { return tile_version() == 0; }\n' >"$work/host.cpp"
# shellcheck disable=SC2086
c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -o "$work/from-cxx" "$work/host.cpp" $flags
LD_LIBRARY_PATH="$folder" "$work/from-cxx"
printf '#include <tile/tile.hpp>\nint main() { return tile_version() == 0; }\n' >"$work/wrapper.cpp"
# shellcheck disable=SC2086
c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -o "$work/wrapped" "$work/wrapper.cpp" $flags
LD_LIBRARY_PATH="$folder" "$work/wrapped"
echo "installed: the header serves C++11, its wrapper C++17"

cmake --install "$build" --component programs --prefix "$work/programs" >/dev/null
for file in man/man1/tile.1.gz man/man1/tile-run.1.gz bash-completion/completions/tile zsh/site-functions/_tile \
  fish/vendor_completions.d/tile.fish man/man1/tile-bench.1.gz man/man1/tile-bench-run.1.gz \
  bash-completion/completions/tile-bench; do
  [ -s "$work/programs/share/$file" ] || { echo "installed: no share/$file" >&2; exit 1; }
done
gzip -dc "$work/programs/share/man/man1/tile-run.1.gz" >"$work/tile-run.1"
"$work/programs/bin/tile" man run | diff - "$work/tile-run.1"
echo "installed: manual pages and completions"
