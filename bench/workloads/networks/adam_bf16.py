# Means are f32: 0.999 is one in bf16.
def adam(w, g, mean, square, step, rate):
    wide = g.float()
    mean = 0.9 * mean + 0.1 * wide
    square = 0.999 * square + 0.001 * wide * wide
    m = mean / (1 - 0.9**step)
    s = square / (1 - 0.999**step)
    return (w - rate * m / (s**0.5 + 1e-8)).to(w.dtype), mean, square
