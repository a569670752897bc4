def gpt2(t):
    x = t["In"]
    batch, length, channels = x.shape
    blocks = sum(name.startswith("Wqkv") for name in t)
    for n in range(1, blocks + 1):
        heads = t[f"Wqkv{n}"].shape[2]
        normed = F.layer_norm(x, (channels,), t[f"G{n}"], t[f"B{n}"], 1e-5)
        qkv = torch.addmm(t[f"Bqkv{n}"].view(-1), normed.view(-1, channels), t[f"Wqkv{n}"].view(channels, -1))
        q, k, v = qkv.view(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch * length, -1)
        y = x + torch.addmm(t[f"Bo{n}"], a, t[f"Wo{n}"].view(-1, channels)).view_as(x)
        normed = F.layer_norm(y, (channels,), t[f"Gm{n}"], t[f"Bm{n}"], 1e-5)
        hidden = F.gelu(torch.addmm(t[f"Bu{n}"], normed.view(-1, channels), t[f"Wu{n}"]))
        x = y + torch.addmm(t[f"Bd{n}"], hidden, t[f"Wd{n}"]).view_as(x)
    return x, squared_error(x, t["Target"])
