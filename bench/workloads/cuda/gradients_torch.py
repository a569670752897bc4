"""Forward results and gradients together, by PyTorch's autograd."""
import torch
import torch.nn.functional as F


def results_and_gradients(forward, weights, seed):
    """The forward's result, and the gradients of the weights where the result's is `seed`."""
    with torch.enable_grad():
        leaves = [weight.detach().requires_grad_() for weight in weights]
        result = forward(*leaves)
        gradients = torch.autograd.grad(result, leaves, seed)
    return result.detach(), *gradients


def layer_norm(x, gain, offset, seed):
    return results_and_gradients(lambda *w: F.layer_norm(w[0], (x.shape[1],), w[1], w[2], 1e-5), [x, gain, offset], seed)


def cross_entropy(x, label):
    index = label.long()
    return results_and_gradients(lambda w: F.cross_entropy(w, index), [x], None)
