"""8-bit RGBA pictures as PNG files."""
import struct
import zlib


def write_png(path, rows):
    height, width = len(rows), len(rows[0])
    raw = b"".join(b"\0" + bytes(c for pixel in row for c in pixel) for row in rows)

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


def paeth(a, b, c):
    p = a + b - c
    distances = abs(p - a), abs(p - b), abs(p - c)
    return (a, b, c)[distances.index(min(distances))]


def read_png(path):
    """Rows of R, G, B, A of an 8-bit picture of 1 to 4 channels without interlacing."""
    with open(path, "rb") as file:
        data = file.read()
    at, compressed = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, color, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            channels = {0: 1, 2: 3, 4: 2, 6: 4}[color]
            assert depth == 8 and interlaced == 0
        if kind == b"IDAT":
            compressed += body
        at += 12 + size
    raw, stride, rows, above = zlib.decompress(compressed), width * channels, [], bytes(width * channels)
    for y in range(height):
        filter_kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride if filter_kind else 0):
            left = line[i - channels] if i >= channels else 0
            corner = above[i - channels] if i >= channels and filter_kind == 4 else 0
            line[i] = (line[i] + (left if filter_kind == 1 else above[i] if filter_kind == 2 else (left + above[i]) // 2
                                  if filter_kind == 3 else paeth(left, above[i], corner))) & 255
        above = bytes(line)
        pixels = [list(line[i:i + channels]) for i in range(0, stride, channels)]
        rows.append([p if channels == 4 else p + [255] if channels == 3 else [p[0]] * 3 + [p[1] if channels == 2 else 255] for p in pixels])
    return rows
