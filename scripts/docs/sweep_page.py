"""docs/guide/sweep.md's recorded sweep: the fastest variants, why the rest was dropped, and how long it took."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path

from gates.core.records import Status
from gates.render.markdown import table
from gates.render.search.sweep import draw, frame
from gates.sweep.record import Sweep, Variant, read_sweep

PICTURE = "sweep-fp16.png"
SHOWN = 5  # variants in the table; sweep.json has all


def recorded_sweeps(recorded: Path) -> list[Sweep]:
    """The recorded sweeps of one grid, that on the most devices first."""
    found = [read_sweep(path) for path in recorded.glob("h200-sweep*/sweeps/*/*")]
    return sorted(found, key=lambda sweep: -len(sweep.devices))


def sweep_part(recorded: Path) -> str:
    """The table of the fastest variants, the picture, and a line per sweep."""
    first, *_ = sweeps = recorded_sweeps(recorded)
    params = " ".join(f"--param {name}={','.join(map(str, values))}" for name, values in first.params.items())
    rows = frame(first)
    left = rows[rows["state"] != "dropped"].sort_values("p50_us", kind="stable")
    shown = left.head(SHOWN)
    head = (*first.params, "registers", "shared memory", "occupancy", f"p50, {first.timed_shape}", "against the incumbent", "rounds")
    body = [
        (
            *(str(getattr(row, name)) for name in first.params),
            f"{row.registers:.0f}",
            f"{row.smem_bytes / 1024:.1f} KiB",
            f"{row.occupancy_pct:.1f} %",
            f"{row.p50_us:.2f} us",
            row.state if row.ratio != row.ratio else f"{row.ratio:.3f}x, {row.low:.3f} to {row.high:.3f}",
            str(row.rounds),
        )
        for row in shown.itertuples()
    ]
    dropped = Counter(_why(variant) for variant in first.variants if variant.dropped)
    return (
        "\n".join(
            [
                f"    gates sweep {first.task} {params}\n",
                table(head, body, right=range(len(head))),
                f"{len(rows)} variants, {len(left)} left, the fastest {len(shown)} above; dropped: "
                f"{', '.join(f'{count} {why}' for why, count in dropped.most_common())}.\n",
                f"![time against resources]({PICTURE})\n",
                *(
                    f"- {len(sweep.devices)} x {sweep.devices[0].name}: {_seconds(sweep):.0f} s, winner {sweep.winner}, {sweep.decision}"
                    for sweep in sweeps
                ),
            ]
        )
        + "\n"
    )


def draw_sweep(recorded: Path, docs: Path) -> None:
    """Draw the picture, as `gates sweep --plot` does."""
    draw(recorded_sweeps(recorded)[0], docs / PICTURE)


def _why(variant: Variant) -> str:
    if variant.correctness is not None and variant.correctness.status is not Status.PASS:
        return "refused a shape" if "shared memory" in variant.dropped else "wrong"
    return "did not compile" if variant.dropped.startswith("nvcc failed") else "over the budget"


def _seconds(sweep: Sweep) -> float:
    return (datetime.fromisoformat(sweep.ended) - datetime.fromisoformat(sweep.started)).total_seconds()
