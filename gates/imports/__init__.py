"""Task folders from the formats in which people keep kernels already. One module a format; ``folder`` writes them.

Nothing here runs what it imports: sources are read as text and as syntax trees. Only the last step, which asks the
problem how large its outputs are, runs it, in a runner process.
"""
