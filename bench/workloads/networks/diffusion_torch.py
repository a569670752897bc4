def diffusion(t):
    x = t["X"]
    pictures, places, groups, size = x.shape
    heads, channels = t["Wqkv"].shape[3], groups * size
    normed = F.group_norm(x.view(pictures, places, channels).transpose(1, 2), groups, t["G"].view(-1), t["B"].view(-1), 1e-5)
    rows = normed.transpose(1, 2).reshape(-1, channels)
    qkv = torch.addmm(t["Bqkv"].view(-1), rows, t["Wqkv"].view(channels, -1))
    q, k, v = qkv.view(pictures, places, 3, heads, -1).permute(2, 0, 3, 1, 4)
    a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(pictures * places, -1)
    y = x + torch.addmm(t["Bo"].view(-1), a, t["Wo"].view(-1, channels)).view_as(x)
    return y, squared_error(y, t["Target"])
