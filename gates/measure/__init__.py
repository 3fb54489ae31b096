"""How a speed claim is sampled and decided, free of CUDA and torch.

``records`` what is kept, ``statistics`` the estimators, ``calibrate`` how many launches make a
sample, ``decision`` the rule that the sampler and the judge share, ``sampling`` the procedure,
``simulated`` a device whose truth is known. docs/gates/performance.md explains the protocol.
"""
