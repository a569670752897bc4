"""What some of the example filters compute, in plain Python, written from their descriptions: pictures are rows of
R, G, B, A. Integer filters are exact; the others are rounded from double precision."""
import functools
import math

BAYER = [[0]]
for _ in range(3):
    size = len(BAYER)
    BAYER = [[4 * BAYER[y % size][x % size] + (0, 2, 3, 1)[2 * (y // size) + x // size] for x in range(2 * size)]
             for y in range(2 * size)]


def clamped(rows, x, y):
    return rows[max(0, min(len(rows) - 1, y))][max(0, min(len(rows[0]) - 1, x))]


def every_pixel(rows, function):
    return [[function(x, y) for x in range(len(rows[0]))] for y in range(len(rows))]


def byte(value):
    return max(0, min(255, int(math.floor(value + 0.5)) if value % 1 != 0.5 else int(round(value))))


def box_sums(pixels, radius):
    """Of each place in a line of pixels the sums of the components around it; the ends go on."""
    line = [pixels[0]] * radius + pixels + [pixels[-1]] * radius
    return [[sum(component) for component in zip(*line[at:at + 2 * radius + 1])] for at in range(len(pixels))]


def blur(rows, radius=4):
    weighed = [[[c[0] * c[3], c[1] * c[3], c[2] * c[3], c[3]] for c in row] for row in rows]
    across = [box_sums(row, radius) for row in weighed]
    totals = [box_sums(list(column), radius) for column in zip(*across)]

    def pixel(x, y):
        total = totals[x][y]
        alpha, count = total[3], (2 * radius + 1) ** 2
        mean = [min(255, (c + alpha // 2) // alpha) if alpha else 0 for c in total[:3]]
        return mean + [(alpha + count // 2) // count]

    return every_pixel(rows, pixel)


def median(rows):
    near = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    return every_pixel(rows, lambda x, y: [sorted(clamped(rows, x + i, y + j)[k] for i, j in near)[4] for k in range(4)])


def dilate(rows):
    near = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    return every_pixel(rows, lambda x, y: [max(clamped(rows, x + i, y + j)[k] for i, j in near) for k in range(4)])


def mosaic(rows, size=8):
    @functools.cache
    def tile(i, j):
        inside = [rows[y][x] for y in range(j * size, min(len(rows), (j + 1) * size))
                  for x in range(i * size, min(len(rows[0]), (i + 1) * size))]
        alpha = sum(c[3] for c in inside)
        if alpha == 0:
            return [0, 0, 0, 0]
        mean = [(sum(c[k] * c[3] for c in inside) + alpha // 2) // alpha for k in range(3)]
        return mean + [(alpha + len(inside) // 2) // len(inside)]

    return every_pixel(rows, lambda x, y: tile(x // size, y // size))


def dither(rows, levels=3):
    def pixel(x, y):
        part = 2 * BAYER[y % 8][x % 8] + 1
        level = [(c * (levels - 1) * 128 // 255 + part) // 128 for c in rows[y][x][:3]]
        return [min(n, levels - 1) * 255 // (levels - 1) for n in level] + [rows[y][x][3]]

    return every_pixel(rows, pixel)


def brightness(c):
    return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]


def sobel(rows, gain=1.0):
    bright = [[brightness(c) for c in row] for row in rows]
    kernel = [(-1, -1, -1), (-1, 0, -2), (-1, 1, -1), (1, -1, 1), (1, 0, 2), (1, 1, 1)]

    def pixel(x, y):
        gx = sum(k * clamped(bright, x + i, y + j) for i, j, k in kernel)
        gy = sum(k * clamped(bright, x + j, y + i) for i, j, k in kernel)
        edge = max(0, min(255, int(gain * math.hypot(gx, gy))))
        return [edge, edge, edge, rows[y][x][3]]

    return every_pixel(rows, pixel)


def unsharp_mask(rows, amount=1.2, threshold=2):
    taps = [1, 4, 6, 4, 1]

    def pixel(x, y):
        c = rows[y][x]
        out = []
        for k in range(3):
            soft = sum(taps[i] * taps[j] * clamped(rows, x + i - 2, y + j - 2)[k] for i in range(5) for j in range(5)) / 256
            detail = c[k] - soft
            out.append(byte(c[k] + amount * detail) if abs(detail) >= threshold else c[k])
        return out + [c[3]]

    return every_pixel(rows, pixel)


def tone_curve(rows, exposure=0.7, shoulder=0.6):
    def component(value):
        n = value / 255
        light = (n / 12.92 if n <= 0.04045 else ((n + 0.055) / 1.055) ** 2.4) * 2 ** exposure
        soft = light * (1 + light / 4) / (1 + light)
        light += (soft - light) * shoulder
        n = 12.92 * light if light <= 0.0031308 else 1.055 * light ** (1 / 2.4) - 0.055
        return byte(255 * max(0, min(1, n)))

    table = [component(v) for v in range(256)]
    return every_pixel(rows, lambda x, y: [table[v] for v in rows[y][x][:3]] + [rows[y][x][3]])


def bilateral(rows, distance_scale=2.0, color_scale=24.0, reach=4):
    near = [(i, j) for i in range(-reach, reach + 1) for j in range(-reach, reach + 1)]

    def pixel(x, y):
        centre, total, weights = rows[y][x], [0.0] * 3, 0.0
        for i, j in near:
            c = clamped(rows, x + i, y + j)
            unlike = sum((c[k] - centre[k]) ** 2 for k in range(3)) / (2 * color_scale ** 2)
            w = math.exp(-(i * i + j * j) / (2 * distance_scale ** 2) - unlike)
            weights += w
            total = [t + w * c[k] for k, t in enumerate(total)]
        return [byte(t / weights) for t in total] + [centre[3]]

    return every_pixel(rows, pixel)


def stretch(rows):
    near = [(i, j) for i in range(-2, 3) for j in range(-2, 3)]
    places = every_pixel(rows, lambda x, y: sum(brightness(clamped(rows, x + i, y + j)) for i, j in near) / 25)
    bright = [b for row in places for b in row]
    low, size = min(bright), max(max(bright) - min(bright), 1)
    return every_pixel(rows, lambda x, y: [byte((v - low) * 255 / size) for v in rows[y][x][:3]] + [rows[y][x][3]])
