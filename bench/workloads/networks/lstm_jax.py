def lstm(t):
    passed = jnp.einsum("tbi,igh->tbgh", t["X"], t["W"]) + t["Bias"]

    def step(state, given):
        hidden, cell = state
        gates = given + jnp.einsum("bk,kgh->bgh", hidden, t["U"])
        enter, keep, leave = (jax.nn.sigmoid(gates[:, g]) for g in (0, 1, 3))
        cell = keep * cell + enter * jnp.tanh(gates[:, 2])
        return (leave * jnp.tanh(cell), cell), None
    (hidden, _), _ = lax.scan(step, (t["Start"], t["Cell"]), passed)
    return hidden, jnp.mean((hidden - t["Target"]) ** 2)
