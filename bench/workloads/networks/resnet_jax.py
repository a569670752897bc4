class ResNet:
    def __init__(self, t):
        self.t, self.n = t, 0

    def convolution(self, x, stride=1):
        self.n += 1
        filters, gain, bias = (self.t[f"{kind}{self.n}"] for kind in "KGB")
        y = convolution(x, filters, stride)
        off = y - y.mean((0, 1, 2))
        return off * lax.rsqrt((off * off).mean((0, 1, 2)) + 1e-5) * gain + bias

    def stage(self, x, blocks, stride):
        for block in range(blocks):
            step = stride if block == 0 else 1
            y = jax.nn.relu(self.convolution(jax.nn.relu(self.convolution(x)), step))
            passed = self.convolution(x, step) if block == 0 else x
            x = jax.nn.relu(self.convolution(y) + passed)
        return x


def resnet_stage(t, blocks, stride):
    y = ResNet(t).stage(t["X"], blocks, stride)
    return y, jnp.mean((y - t["Target"]) ** 2)


def resnet50(t):
    net = ResNet(t)
    x = pool(jax.nn.relu(net.convolution(t["X"], 2)), 3, 2, 1)
    for blocks, stride in ((3, 1), (4, 2), (6, 2), (3, 2)):
        x = net.stage(x, blocks, stride)
    logits = x.mean((1, 2)) @ t["Wf"] + t["Bf"]
    low = jax.nn.log_softmax(logits)
    return logits, -jnp.mean(jnp.take_along_axis(low, t["Label"][:, None], 1))
