"""The sum in plain PyTorch."""


def add(x, y):
    return x + y
