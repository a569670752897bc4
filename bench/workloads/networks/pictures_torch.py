# PyTorch's convolutions are fastest where channels are innermost: pictures are, filters are laid out so beforehand.
def own_layout(name, t):
    if t.dim() != 4 or name == "Target":
        return t
    return t.permute(0, 3, 1, 2) if name == "X" else t.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)


def given_layout(name, t):
    return t.permute(2, 3, 1, 0) if t.dim() == 4 else t
