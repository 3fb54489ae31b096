"""Task folders from the formats in which people keep kernels already. One module a format. Nothing here runs what it imports."""
