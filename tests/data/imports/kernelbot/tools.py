"""What the problems beside this file share."""

import torch


def close(received, expected, rtol=1e-5, atol=1e-8):
    return [] if torch.allclose(received, expected, rtol=rtol, atol=atol) else ["not close"]


def verbose_allclose(received, expected, **tolerances):
    return close(received, expected, **tolerances)
