def norm(x, gain, bias):
    off = x - x.mean(-1, keepdims=True)
    return off * lax.rsqrt((off * off).mean(-1, keepdims=True) + 1e-5) * gain + bias


def gelu(x):
    return jax.nn.gelu(x, approximate=False)


def mixer(t):
    x = t["X"]
    hidden = gelu(jnp.einsum("bsc,sp->bcp", norm(x, t["Gp"], t["Bp"]), t["Wp"]) + t["Cp"])
    z = x + jnp.einsum("bcp,ps->bsc", hidden, t["Vp"]) + t["Dp"][:, None]
    y = z + gelu(norm(z, t["Gc"], t["Bc"]) @ t["Wc"] + t["Cc"]) @ t["Vc"] + t["Dc"]
    return y, jnp.mean((y - t["Target"]) ** 2)
