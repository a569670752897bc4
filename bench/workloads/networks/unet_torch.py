def unet(t):
    def layer(x, n):
        return F.relu(F.conv2d(x, t[f"K{n}"], t[f"B{n}"], padding=1))
    whole = layer(layer(t["X"], 1), 2)
    half = layer(layer(F.max_pool2d(whole, 2), 3), 4)
    back = F.conv_transpose2d(half, t["K5"].transpose(0, 1), t["B5"], stride=2)
    y = layer(layer(torch.cat([whole, back], 1), 6), 7).permute(0, 2, 3, 1)
    return y, squared_error(y, t["Target"])
