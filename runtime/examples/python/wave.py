"""The wave equation in two dimensions: a stencil in Tile steps a NumPy array, frames are written as PNG files.

    python wave.py [--size 128] [--steps 240] [--every 12] [--out frames]
"""
import argparse
import pathlib
import struct
import zlib

import numpy as np

import tilejit as tile

# Neighbours outside of the pond are left out of the sum, so that its edge is held at zero. C is the squared number of
# cells that a wave passes in a step; below 1/2 the scheme is stable.
STEP = """function (U[N, M], Before[N, M], C[]) -> (After) {
  Around[i, j: N, M] = +(U[i + 2*a - 1, j]), a < 2;
  Beside[i, j: N, M] = +(U[i, j + 2*a - 1]), a < 2;
  After = 2 * U - Before + C * (Around + Beside - 4 * U);
}"""


def energy(u, before, c):
    """What the scheme keeps, up to rounding: half the squared speed, and the products of neighbouring slopes."""
    speed = ((u - before) ** 2).sum() / 2
    slopes = sum((np.diff(np.pad(u, 1), axis=d) * np.diff(np.pad(before, 1), axis=d)).sum() for d in (0, 1))
    return float(speed + c * slopes / 2)


def write_png(path, picture):
    """Grey values from -1 to 1 as an 8-bit picture."""
    rows = np.clip(127.5 * (picture + 1), 0, 255).astype(np.uint8)
    data = b"".join(b"\0" + row.tobytes() for row in rows)
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    header = struct.pack(">IIBBBBB", rows.shape[1], rows.shape[0], 8, 0, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data)) +
                     chunk(b"IEND", b""))


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--size", type=int, default=128)
    options.add_argument("--steps", type=int, default=240)
    options.add_argument("--every", type=int, default=12)
    options.add_argument("--out", type=pathlib.Path, default=pathlib.Path("frames"))
    options = options.parse_args()

    step, c = tile.program(STEP, name="wave.tile"), 0.25
    y, x = np.mgrid[:options.size, :options.size] / options.size
    drop = np.exp(-((x - 0.3) ** 2 + (y - 0.4) ** 2) / 0.002)
    u, before, after = drop.copy(), drop.copy(), np.empty_like(drop)
    options.out.mkdir(parents=True, exist_ok=True)
    first = energy(u, before, c)
    for number in range(options.steps):
        step(u, before, np.float64(c), out=after)
        u, before, after = after, u, before
        if number % options.every == 0:
            write_png(options.out / f"wave{number // options.every:03}.png", 2 * u)
    print(f"{options.steps} steps, energy changed by {abs(energy(u, before, c) / first - 1):.1e} of itself")


if __name__ == "__main__":
    main()
