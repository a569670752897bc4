class ResNet:
    def __init__(self, t):
        self.t, self.n = t, 0

    def convolution(self, x, stride=1):
        self.n += 1
        filters, gain, bias = (self.t[f"{kind}{self.n}"] for kind in "KGB")
        y = F.conv2d(x, filters, stride=stride, padding=(filters.shape[2] - 1) // 2)
        return F.batch_norm(y, None, None, gain, bias, training=True, eps=1e-5)

    def stage(self, x, blocks, stride):
        for block in range(blocks):
            step = stride if block == 0 else 1
            y = F.relu(self.convolution(F.relu(self.convolution(x)), step))
            passed = self.convolution(x, step) if block == 0 else x
            x = F.relu(self.convolution(y) + passed)
        return x


def resnet_stage(t, blocks, stride):
    y = ResNet(t).stage(t["X"], blocks, stride).permute(0, 2, 3, 1)
    return y, squared_error(y, t["Target"])


def resnet50(t):
    net = ResNet(t)
    x = F.max_pool2d(F.relu(net.convolution(t["X"], 2)), 3, 2, 1)
    for blocks, stride in ((3, 1), (4, 2), (6, 2), (3, 2)):
        x = net.stage(x, blocks, stride)
    logits = torch.addmm(t["Bf"], x.mean((2, 3)), t["Wf"])
    return logits, F.cross_entropy(logits, t["Label"].long())
