"""Compile and disassemble a task: compilers, ninja graph, failures, records of builds."""
