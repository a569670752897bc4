def adam(w, g, mean, square, step, rate):
    mean = 0.9 * mean + 0.1 * g
    square = 0.999 * square + 0.001 * g * g
    m = mean / (1 - 0.9**step)
    s = square / (1 - 0.999**step)
    return w - rate * m / (s**0.5 + 1e-8), mean, square
