"""A picture like a photograph, made by rule: a sky with a sun, hills, a lake with reflections, grain, a fence of thin
lines, and a transparent corner. The same bytes on every machine: integer arithmetic only."""


def hash32(*keys):
    value = 0x9E3779B9
    for key in keys:
        value ^= key & 0xFFFFFFFF
        value = value * 0x85EBCA6B & 0xFFFFFFFF
        value ^= value >> 13
        value = value * 0xC2B2AE35 & 0xFFFFFFFF
        value ^= value >> 16
    return value


def smooth_noise(x, y, cell, seed):
    """0 to 255, linear between the corners of a grid."""
    i, j, fx, fy = x // cell, y // cell, x % cell, y % cell
    corner = lambda di, dj: hash32(i + di, j + dj, seed) & 255
    top = corner(0, 0) * (cell - fx) + corner(1, 0) * fx
    bottom = corner(0, 1) * (cell - fx) + corner(1, 1) * fx
    return (top * (cell - fy) + bottom * fy) // (cell * cell)


def hill(x, width, height):
    return height // 2 - (smooth_noise(x, 0, 24, 1) * height // 6 + smooth_noise(x, 0, 7, 2) * height // 24) // 255


def pixel(x, y, width, height):
    horizon = height * 2 // 3
    mirrored = 2 * horizon - y if y > horizon else y
    wave = smooth_noise(x * 2, y * 9, 9, 3) * 6 // 255 - 3 if y > horizon else 0
    sx = x + wave
    if mirrored < hill(sx, width, height):
        red, green, blue = 90 + mirrored * 140 // height, 130 + mirrored * 90 // height, 235 - mirrored * 40 // height
        cloud = max(0, smooth_noise(sx, mirrored * 3, 21, 4) - 120)
        red, green, blue = red + cloud // 2, green + cloud // 2, blue + cloud // 8
        distance = (sx - width * 3 // 4) ** 2 + (mirrored - height // 5) ** 2
        if distance < (height // 12) ** 2:
            red, green, blue = 255, 244, 200
    else:
        grass = smooth_noise(sx, mirrored, 5, 5) // 4
        red, green, blue = 40 + grass, 84 + grass * 3 // 2, 34 + grass // 2
    if y > horizon:
        red, green, blue = red * 3 // 5, green * 7 // 10, blue * 4 // 5 + 16
    if y > height * 3 // 4 and (x - y // 3) % 19 < 2:
        red, green, blue = 70, 48, 30
    grain = (hash32(x, y, 6) & 15) - 8
    if hash32(x, y, 7) % 97 == 0:
        grain = 255 if hash32(x, y, 8) & 1 else -255
    alpha = 255 if x + y > height // 4 else 255 * (x + y) * 4 // height
    return [max(0, min(255, c + grain)) for c in (red, green, blue)] + [alpha]


def photograph(width, height):
    """Rows of R, G, B, A."""
    return [[pixel(x, y, width, height) for x in range(width)] for y in range(height)]
