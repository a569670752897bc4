def unet(t):
    def layer(x, n):
        return jax.nn.relu(convolution(x, t[f"K{n}"]) + t[f"B{n}"])
    whole = layer(layer(t["X"], 1), 2)
    half = layer(layer(pool(whole, 2, 2, 0), 3), 4)
    count, height, width, _ = half.shape
    back = jnp.einsum("nyxc,jico->nyjxio", half, t["K5"]).reshape(count, 2 * height, 2 * width, -1) + t["B5"]
    y = layer(layer(jnp.concatenate([whole, back], 3), 6), 7)
    return y, jnp.mean((y - t["Target"]) ** 2)
