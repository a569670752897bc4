def diffusion(t):
    x = t["X"]
    off = x - x.mean((1, 3), keepdims=True)
    normed = off * lax.rsqrt((off * off).mean((1, 3), keepdims=True) + 1e-5) * t["G"] + t["B"]
    qkv = jnp.einsum("nljk,jkphe->pnlhe", normed, t["Wqkv"]) + t["Bqkv"][:, None, None]
    y = x + jnp.einsum("nlhe,hejk->nljk", jax.nn.dot_product_attention(*qkv), t["Wo"]) + t["Bo"]
    return y, jnp.mean((y - t["Target"]) ** 2)
