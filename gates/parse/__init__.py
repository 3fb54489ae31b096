"""Turn raw tool output into frozen typed records. Imports none of run, judge, render."""
