"""Reason codes of the size gate: what each means, its usual cause, what to look at next."""

from __future__ import annotations

from gates.core.reason_code import Code, codes_in

PASS = Code("size.pass", "The compiled code keeps its limits on every architecture.")
TOO_LARGE = Code(
    "size.too_large",
    "The compiled code is larger than max_bytes.",
    causes="Usual causes: a loop that is unrolled too far, a template with many instances, a table in constant memory.",
    next_step="Compare the instructions of each kernel in sass.json with the baseline's.",
)
GREW = Code(
    "size.grew",
    "The compiled code grew against the baseline by more than max_growth_pct.",
    causes=TOO_LARGE.causes,
    next_step=TOO_LARGE.next_step,
)
NO_BASELINE = Code(
    "size.no_baseline",
    "max_growth_pct needs the baseline's compiled code.",
    next_step="Name a baseline that compiles for the same architectures, or give max_bytes alone.",
)
UNREADABLE = Code(
    "size.unreadable",
    "A compiled file can't be read as a cubin.",
    next_step="Delete the build folder and build again; a full disk or a killed compiler leaves such a file.",
)
NO_BINARY = Code(
    "size.no_binary",
    "No compiled code of an architecture was built.",
    next_step="`gates doctor` says which tool is missing; the build log says what failed.",
)
NO_LIMITS = Code(
    "size.no_limits",
    "There is no limit, so the gate judges nothing.",
    next_step="Give max_bytes or max_growth_pct.",
)

CODES = codes_in(globals())
