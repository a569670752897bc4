# In at least f32: 0.999 is one in bf16.
def adam(w, g, mean, square, step, rate):
    wide = [t.float() for t in (w, g, mean, square, step, rate)]
    before, g, m, s, step, rate = wide
    m = 0.9 * m + 0.1 * g
    s = 0.999 * s + 0.001 * g * g
    next_mean, next_square = m.to(mean.dtype), s.to(square.dtype)
    m = next_mean.float() / (1 - 0.9**step)
    s = next_square.float() / (1 - 0.999**step)
    return (before - rate * m / (s**0.5 + 1e-8)).to(w.dtype), next_mean, next_square
