"""The sass gate: the machine code that the stage claims."""
