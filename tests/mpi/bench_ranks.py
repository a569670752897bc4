"""The bench of ranks at small sizes: every contender that is there computes the same, and the file says what was measured."""
import json
import math
import os
import subprocess
import sys
import tempfile

# Of each kind of case and peer one; the others differ in their sizes and layouts.
CASES = "^(product_columns_64|stencil_2d_rows_64|stencil_3d_planes_16|convolution_halo_16|mlp_data_32)$"


def main():
    binaries, source = os.environ["TILE_BIN"], os.environ["TILE_ROOT"]
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "ranks.json")
        done = subprocess.run([sys.executable, os.path.join(source, "bench/ranks/ranks.py"), "--tile",
                               os.path.join(binaries, "tile"), "--scale", "16", "--rounds", "2", "--runs", "2", "--filter",
                               CASES, "--json", file], capture_output=True, text=True)
        print(done.stdout + done.stderr)
        assert done.returncode == 0, done.returncode
        with open(file, encoding="utf-8") as written:
            rows = json.load(written)["benchmarks"]
    names = {row["name"].rsplit("_", 1)[0] for row in rows}
    assert names == {"product_columns", "stencil_2d_rows", "stencil_3d_planes", "convolution_halo", "mlp_data"}, names
    for row in rows:
        assert row["real_time"] > 0 and math.isfinite(row["real_time"]), row
        assert len(row["rounds"]["tile"]) == 2, row
        peers = [key for key in row if key.endswith("_ratio")]
        assert peers or row["notes"] or row["name"].startswith("convolution"), row


if __name__ == "__main__":
    main()
