# A mean over many numbers is no number of 16 bits.
def squared_error(y, target):
    wide = torch.promote_types(y.dtype, torch.float32)
    return F.mse_loss(y.to(wide), target.to(wide))
