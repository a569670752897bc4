def mixer(t):
    x, channels = t["X"], t["X"].shape[2]
    normed = F.layer_norm(x, (channels,), t["Gp"], t["Bp"], 1e-5).transpose(1, 2)
    z = x + (F.gelu(normed @ t["Wp"] + t["Cp"]) @ t["Vp"] + t["Dp"]).transpose(1, 2)
    normed = F.layer_norm(z, (channels,), t["Gc"], t["Bc"], 1e-5).view(-1, channels)
    hidden = F.gelu(torch.addmm(t["Cc"], normed, t["Wc"]))
    y = z + torch.addmm(t["Dc"], hidden, t["Vc"]).view_as(z)
    return y, squared_error(y, t["Target"])
