"""Planted defects: kernels that are wrong, or claim what is not so, each of which a gate must turn red.

``catalogue.DEFECTS`` lists them, ``folders`` makes a task folder of each, ``matrix`` runs their gates.
"""
