"""The workers of a search, as its options ask for them: started here, or those of a running cluster."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence

from gates.core.errors import EXIT_HOLD, GatesError
from gates.launch import device as devices
from gates.pipeline.run import choose_profile
from gates.render.console import Progress
from gates.sweep.cluster import Cluster, core_count, joined_cluster, local_cluster, one_kind


@contextlib.contextmanager
def workers(
    profile: str, scheduler: str | None, count: int | None, progress: Progress, *, timed: bool = False, whole: bool = False
) -> Iterator[tuple[Cluster, str]]:
    """The workers, and why none of them has a device if so.

    ``scheduler``: the address of a running cluster. ``count``: workers without a device that are started here, one per core if None.
    ``timed``: refuse before anything is done if nothing can be timed. ``whole``: a job is all that is done with a candidate, so workers
    with a device compile, too; ``count`` is then of them, and there are no others.
    """
    if scheduler is None:
        chosen, why, _ = choose_profile(profile, 0)
        found = one_kind(devices.probe().devices) if chosen == "full" else ()
        _require_times(timed, found, why)
        progress.step("starting workers")
        if whole and found:
            at_a_time = count or devices.candidates_at_a_time(found, core_count())
            started = local_cluster(found, 0, math.ceil(at_a_time / len(found)))
        else:
            started = local_cluster(found, count or core_count())
        with started as cluster:
            yield cluster, why
        return
    progress.step(f"joining {scheduler}")
    with joined_cluster(scheduler) as cluster:
        if profile == "full" and not cluster.devices:
            raise GatesError(f"no worker of {scheduler} has the resource GPU", hint="dask worker … --nthreads 1 --resources GPU=1")
        cluster.devices = () if profile == "cpu" else cluster.devices
        why = "asked for" if profile == "cpu" else "no worker has the resource GPU"
        _require_times(timed, cluster.devices, why)
        yield cluster, why


def _require_times(timed: bool, found: Sequence[devices.DeviceInfo], why: str) -> None:
    if timed and not found:
        raise GatesError(
            f"--plot draws times, and nothing can be timed here: {why}",
            hint="leave --plot out, or sweep on a CUDA device",
            exit_code=EXIT_HOLD,
        )
