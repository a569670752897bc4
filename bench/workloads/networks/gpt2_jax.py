def norm(x, gain, bias):
    off = x - x.mean(-1, keepdims=True)
    return off * lax.rsqrt((off * off).mean(-1, keepdims=True) + 1e-5) * gain + bias


def gpt2(t):
    x = t["In"]
    batch, length, channels = x.shape
    blocks = sum(name.startswith("Wqkv") for name in t)
    for n in range(1, blocks + 1):
        qkv = jnp.einsum("bsc,cphe->pbshe", norm(x, t[f"G{n}"], t[f"B{n}"]), t[f"Wqkv{n}"]) + t[f"Bqkv{n}"][:, None, None]
        a = jax.nn.dot_product_attention(*qkv, is_causal=True)
        y = x + jnp.einsum("bshe,hec->bsc", a, t[f"Wo{n}"]) + t[f"Bo{n}"]
        hidden = jax.nn.gelu(norm(y, t[f"Gm{n}"], t[f"Bm{n}"]) @ t[f"Wu{n}"] + t[f"Bu{n}"], approximate=False)
        x = y + hidden @ t[f"Wd{n}"] + t[f"Bd{n}"]
    return x, jnp.mean((x - t["Target"]) ** 2)
