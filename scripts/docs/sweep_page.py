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


def recorded_sweep(recorded: Path) -> Sweep:
    """Return the recorded sweep."""
    (found,) = (recorded / "h200-sweep" / "sweeps").glob("*/*")
    return read_sweep(found)


def sweep_part(recorded: Path) -> str:
    """The table of the fastest variants, the picture, and how long it took."""
    sweep = recorded_sweep(recorded)
    params = " ".join(f"--param {name}={','.join(map(str, values))}" for name, values in sweep.params.items())
    rows = frame(sweep)
    left = rows[rows["state"] != "dropped"].sort_values("p50_us", kind="stable")
    shown = left.head(SHOWN)
    head = (*sweep.params, "registers", "shared memory", "occupancy", f"p50, {sweep.timed_shape}", "against the incumbent", "rounds")
    body = [
        (
            *(str(getattr(row, name)) for name in sweep.params),
            f"{row.registers:.0f}",
            f"{row.smem_bytes / 1024:.1f} KiB",
            f"{row.occupancy_pct:.1f} %",
            f"{row.p50_us:.2f} us",
            row.state if row.ratio != row.ratio else f"{row.ratio:.3f}x, {row.low:.3f} to {row.high:.3f}",
            str(row.rounds),
        )
        for row in shown.itertuples()
    ]
    dropped = Counter(_why(variant) for variant in sweep.variants if variant.dropped)
    return (
        "\n".join(
            [
                f"    gates sweep {sweep.task} {params}\n",
                table(head, body, right=range(len(head))),
                f"{len(rows)} variants, {len(left)} left, the fastest {len(shown)} above; dropped: "
                f"{', '.join(f'{count} {why}' for why, count in dropped.most_common())}.\n",
                f"![time against resources]({PICTURE})\n",
                f"- {len(sweep.devices)} x {sweep.devices[0].name}: {_seconds(sweep):.0f} s, winner {sweep.winner}, {sweep.decision}",
            ]
        )
        + "\n"
    )


def draw_sweep(recorded: Path, docs: Path) -> None:
    """Draw the picture, as `gates sweep --plot` does."""
    draw(recorded_sweep(recorded), docs / PICTURE)


def _why(variant: Variant) -> str:
    if variant.correctness is not None and variant.correctness.status is not Status.PASS:
        return "refused a shape" if "shared memory" in variant.dropped else "wrong"
    return "did not compile" if variant.dropped.startswith("nvcc failed") else "over the budget"


def _seconds(sweep: Sweep) -> float:
    return (datetime.fromisoformat(sweep.ended) - datetime.fromisoformat(sweep.started)).total_seconds()
