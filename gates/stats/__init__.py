"""How a speed claim is sampled and decided, free of CUDA and torch."""
