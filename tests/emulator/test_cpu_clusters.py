"""Clusters of CTAs on the CPU device, and copies in bulk: each planted fault gives its finding at its line, its honest neighbour none."""

from __future__ import annotations

import contextlib
from pathlib import Path

import cpu_kit
import numpy as np
import pytest
from conftest import OnceASession

from gates.core.errors import GatesError
from gates.emulator.cpu.loading import CpuDevice, Launcher

SOURCE = cpu_kit.DATA / "clusters.cu"
MODES = [word.strip() for word in SOURCE.read_text(encoding="utf-8").split("enum Mode {")[1].split("}")[0].split(",")]
SETTINGS = [{"seed": 0}, {"seed": 1}, {"seed": 4}, {"seed": 3, "races": 0}]


@pytest.fixture(scope="module")
def library(kept: OnceASession) -> Path:
    return kept("cpu-clusters", lambda folder: cpu_kit.kernel_library([SOURCE], folder / "clusters.so", capability="90a")) / "clusters.so"


def line(text: str) -> str:
    return f"{SOURCE}:{cpu_kit.line_of(SOURCE, text)}"


def exchanged(library: Path, mode: str, **settings: int) -> tuple[CpuDevice, np.ndarray | None]:
    cpu = cpu_kit.device(**settings)
    out = cpu.array(np.zeros((8, 64), np.float32))
    with contextlib.suppress(GatesError):
        Launcher(library, "exchange")(out, MODES.index(mode))
        return cpu, out.get()
    return cpu, None


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("mode", ["kHonest", "kRelaxed"])
def test_blocks_that_take_their_neighbours_rows(library: Path, mode: str, settings: dict[str, int]) -> None:
    cpu, out = exchanged(library, mode, **settings)
    wanted = [[100 * (block // 4 * 4 + (block + 1) % 4) + thread for thread in range(64)] for block in range(8)]
    assert not cpu.findings() and out is not None and out.tolist() == wanted


@pytest.mark.parametrize(
    ("mode", "codes", "where"),
    [
        ("kRace", {"cpu.race_shared", "cpu.uninitialised_shared"}, {"// the next row", "// own row"}),
        ("kNoStart", {"cpu.cluster_not_started"}, {"// the next row"}),
        ("kNoEnd", {"cpu.cluster_exited"}, {"// the next row"}),
        ("kPastEnd", {"cpu.shared_out_of_bounds"}, {"// the next row"}),
        ("kNoSuchRank", {"cpu.cluster_rank"}, {"// the next row"}),
        ("kTwice", {"cpu.cluster_barrier"}, {"// first"}),
        ("kOfCta", {"cpu.wrong_space"}, {"// of the block alone"}),
    ],
)
@pytest.mark.parametrize("seed", [0, 1, 4])
def test_clusters_used_wrongly(library: Path, mode: str, codes: set[str], where: set[str], seed: int) -> None:
    cpu, _ = exchanged(library, mode, seed=seed)
    found = [finding for finding in cpu.findings() if finding.code in codes]
    assert found and {finding.where for finding in found} <= {line(text) for text in where}, cpu.findings()
    if mode != "kNoStart":  # its rows race, too
        assert len(found) == len(cpu.findings()), cpu.findings()


def test_a_race_between_blocks_names_both(library: Path) -> None:
    found = [finding for finding in exchanged(library, "kRace")[0].findings() if finding.code == "cpu.race_shared"]
    assert found and all("of block" in finding.message and "no barrier of the cluster" in finding.message for finding in found)
    assert {line("// the next row"), line("// own row")} == {found[0].where, found[0].other}


def test_what_threads_know_of_their_cluster(library: Path) -> None:
    cpu = cpu_kit.device(seed=2)
    out = cpu.array(np.zeros((2, 4, 9), np.int32))
    Launcher(library, "ranks")(out, 2)
    got = out.get()
    for y in range(2):
        for x in range(4):
            assert got[y, x].tolist() == [x % 2 + 2 * y, x % 2, y, 2, 2, 128, x // 2, 1, 1]
    assert not cpu.findings()


@pytest.mark.parametrize(("width", "said"), [(3, "invalid configuration"), (8, "cluster misconfiguration")])
def test_clusters_that_do_not_fit(library: Path, width: int, said: str) -> None:
    cpu = cpu_kit.device()
    with pytest.raises(GatesError, match="returned"):
        Launcher(library, "ranks")(cpu.array(np.zeros(72, np.int32)), width)
    assert cpu.library.cudaGetErrorString(cpu.library.cudaGetLastError()).decode().startswith(said)


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_histogram_in_the_memory_of_all_blocks(library: Path, settings: dict[str, int]) -> None:
    cpu = cpu_kit.device(**settings)
    values = np.random.default_rng(0).integers(0, 64, 1000).astype(np.int32)
    bins = cpu.array(np.zeros(64, np.int32))
    Launcher(library, "histogram")(cpu.array(values), bins, 1000)
    assert np.array_equal(bins.get(), np.bincount(values, minlength=64)) and not cpu.findings()


def copied(library: Path, mode: str, **settings: int) -> tuple[CpuDevice, np.ndarray]:
    cpu = cpu_kit.device(**settings)
    out = cpu.empty((2, 128), np.float32)
    Launcher(library, "copies")(cpu.array(np.arange(128, dtype=np.float32)), out, MODES.index(mode))
    return cpu, out.get()


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("mode", ["kHonest", "kReadAwaited"])
def test_copies_in_bulk_between_blocks(library: Path, mode: str, settings: dict[str, int]) -> None:
    cpu, out = copied(library, mode, **settings)
    assert not cpu.findings() and np.array_equal(out, np.arange(128) + np.array([[1.0], [0.0]]))


def test_a_copy_to_a_block_that_has_no_barrier_yet(library: Path) -> None:
    cpu = cpu_kit.device(races=0)
    with pytest.raises(GatesError):
        Launcher(library, "copies")(cpu.array(np.arange(128, dtype=np.float32)), cpu.empty((2, 128), np.float32), MODES.index("kEarly"))
    found = cpu.findings()[0]
    assert (found.code, found.where) == ("cpu.bad_mbarrier", line("// to both")) and "mbarrier of block 1" in found.message


@pytest.mark.parametrize(
    ("mode", "code", "other"),
    [("kNotAwaited", "cpu.bulk_store_not_awaited", None), ("kOverwritten", "cpu.bulk_source_overwritten", "// while it is stored")],
)
def test_stores_in_bulk_that_nobody_waits_for(library: Path, mode: str, code: str, other: str | None) -> None:
    cpu, out = copied(library, mode)
    (found,) = cpu.findings()
    assert (found.code, found.where, found.other) == (code, line("// stored"), other and line(other))
    assert (out[0, 0] == 5.0) == (mode == "kOverwritten")


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize(
    ("mode", "code", "where"),
    [
        ("kHonest", "", ""),
        ("kAdded", "", ""),
        ("kUnfenced", "cpu.no_proxy_fence", "// by the map"),
        ("kBadMap", "cpu.bad_tensor_map", "// too many rows"),
    ],
)
def test_a_tensor_map_that_the_kernel_changes(library: Path, mode: str, code: str, where: str, settings: dict[str, int]) -> None:
    cpu, out = cpu_kit.device(**settings), np.zeros(0)
    other, target = np.arange(256, dtype=np.float32), cpu.empty((4, 32), np.float32)
    rows = cpu.array(other)
    with contextlib.suppress(GatesError):
        Launcher(library, "mapped")(cpu.array(-other), rows, cpu.empty((128,), np.uint8), target, MODES.index(mode))
        out = target.get()
    if not code or (mode == "kUnfenced" and settings.get("races") == 0):  # without races no proxy is watched
        assert not cpu.findings() and out[:2].ravel().tolist() == other[128:192].tolist() and not out[2:].any()
        assert np.array_equal(rows.get()[:64] - other[:64], other[128:192] if mode == "kAdded" else np.zeros(64))
    else:
        assert [(finding.code, finding.where) for finding in cpu.findings()] == [(code, line(where))]


def reduced(library: Path, mode: str, **settings: int) -> tuple[CpuDevice, np.ndarray, np.ndarray]:
    cpu = cpu_kit.device(**settings)
    sums, out = cpu.array(np.zeros(128, np.int32)), cpu.array(np.zeros((4, 128, 3), np.int32))
    Launcher(library, "reductions")(sums, out, MODES.index(mode))
    return cpu, sums.get(), out.get()


@pytest.mark.parametrize("settings", SETTINGS)
def test_reductions_in_bulk_and_asynchronous_stores(library: Path, settings: dict[str, int]) -> None:
    """Two clusters of two blocks: `sums` has the tiles of all four."""
    cpu, sums, out = reduced(library, "kHonest", **settings)
    threads = np.arange(128)
    assert not cpu.findings() and np.array_equal(sums, 6 * threads)
    for block in range(4):
        rank, other = block % 2, 1 - block % 2
        assert np.array_equal(out[block, :, 0], 1000 * rank + (other + 1) * threads)
        assert np.array_equal(out[block, :, 1], np.where(threads % 4 == 0, other, threads // 4 + threads % 4 - 1))
        assert (out[block, :, 2] == 128).all()


@pytest.mark.parametrize(
    ("mode", "codes", "where"),
    [
        ("kNotAwaited", {"cpu.bulk_store_not_awaited"}, "// reduced"),
        ("kEarly", {"cpu.uninitialised_shared", "cpu.race_shared", "cpu.copy_not_awaited"}, "// before they are there"),
        ("kUnwritten", {"cpu.uninitialised_shared"}, "// counted"),
    ],
)
def test_reductions_used_wrongly(library: Path, mode: str, codes: set[str], where: str) -> None:
    found = reduced(library, mode)[0].findings()
    assert found and {finding.code for finding in found} <= codes, found
    assert line(where) in {place for finding in found for place in (finding.where, finding.other)}
