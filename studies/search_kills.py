"""Does a search lose candidates, or count one twice, if its server and its workers are killed?

Clients ask `gates serve` for many candidates of a small task, every tenth of them wrong; workers of a Dask cluster judge. Meanwhile the
server and workers are killed without warning, in turns. A client asks again until it is answered.

    python studies/search_kills.py --out kills.json --candidates 1000 --kills 20
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click

from gates.evaluation.verify import verify_evaluation
from gates.sweep.cluster import Cluster, core_count, local_cluster

ROOT = Path(__file__).resolve().parent.parent
TASK = ROOT / "examples" / "torch_compile" / "gelu_eager"
RIGHT = (TASK / "kernel.py").read_text(encoding="utf-8")
WRONG_EACH = 10
CLIENTS = 8
LIMIT_S = 120.0  # of one answer


def text_of(number: int) -> str:
    """The candidate of that number: right, or off by one."""
    return f"{RIGHT if number % WRONG_EACH else RIGHT.replace('+ residual', '+ residual + 1')}\n# candidate {number}\n"


class Server:
    """`gates serve`, begun again after each death."""

    def __init__(self, results: Path, scheduler: str) -> None:
        self.command = [sys.executable, "-m", "gates", "serve", str(TASK), "--http", "0", "--scheduler", scheduler, "--stage", "numbers"]
        self.command += ["--profile", "cpu", "--workers", str(CLIENTS), "--results", str(results), "--build-dir", str(results / "build")]
        self.begin()

    def begin(self) -> None:
        """Start it and wait for its address."""
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=ROOT)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if found := re.search(r"http://\S+", line):
                self.address = found[0]
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return
        raise RuntimeError("gates serve did not start")

    def kill(self) -> None:
        """End it without warning."""
        self.process.kill()
        self.process.wait()


class Study:
    """Clients, a killer, and what each answer said."""

    def __init__(self, candidates: int, kills: int, seed: int, results: Path, cluster: Cluster) -> None:
        self.candidates, self.kills, self.results, self.cluster = candidates, kills, results, cluster
        self.random, self.answers, self.again, self.killed = random.Random(seed), dict[int, dict[str, Any]](), 0, {"server": 0, "worker": 0}
        self.server = Server(results, cluster.client.scheduler.address)

    def run(self) -> dict[str, Any]:
        """Ask for all and kill meanwhile; return what came of it."""
        began = time.monotonic()
        at = sorted(self.random.sample(range(1, self.candidates), self.kills))
        with ThreadPoolExecutor(CLIENTS) as clients:
            asked = [clients.submit(self._ask, number) for number in range(self.candidates)]
            for number, moment in enumerate(at):
                while len(self.answers) < moment and not any(one.done() and one.exception() for one in asked):
                    time.sleep(0.02)
                time.sleep(self.random.uniform(0.0, 0.3))
                self._kill("worker" if number % 2 else "server")
            for one in asked:
                one.result()
        self.server.kill()
        return self._outcome(time.monotonic() - began)

    def _kill(self, what: str) -> None:
        if what == "server":
            self.server.kill()
            self.server.begin()
        else:
            pids = list(self.cluster.client.run(os.getpid).values())
            os.kill(self.random.choice(pids), signal.SIGKILL)
        self.killed[what] += 1

    def _ask(self, number: int) -> None:
        body = json.dumps({"files": {"kernel.py": text_of(number)}, "name": f"{number}"}).encode()
        while True:
            with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError, json.JSONDecodeError):
                request = urllib.request.Request(f"{self.server.address}/evaluate?wait=1", body)
                with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
                    said = json.load(answer)
                if "result" in said:
                    self.answers[number] = said["result"]
                    return
            self.again += 1
            time.sleep(0.2)

    def _outcome(self, wall_s: float) -> dict[str, Any]:
        kept = sorted(path for path in (self.results / "evaluations" / TASK.name).iterdir() if not path.name.startswith("."))
        ids = {answer["id"] for answer in self.answers.values()}
        expected = {number: "pass" if number % WRONG_EACH else "fail" for number in range(self.candidates)}
        return {
            "candidates": self.candidates,
            "killed": self.killed,
            "wall_s": round(wall_s, 1),
            "cores": core_count(),
            "asked_again": self.again,
            "lost": self.candidates - len(self.answers),
            "counted_twice": len(kept) - len(ids),
            "misjudged": [number for number, status in expected.items() if self.answers.get(number, {}).get("status") != status],
            "unsound": [path.name for path in kept if verify_evaluation(path)],
        }


@click.command()
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True)
@click.option("--candidates", type=click.IntRange(min=2), default=1000, show_default=True)
@click.option("--kills", type=click.IntRange(min=0), default=20, show_default=True)
@click.option("--workers", type=click.IntRange(min=1), help="Of the cluster.  [default: one per core]")
@click.option("--seed", type=int, default=0, show_default=True)
def main(out: Path, candidates: int, kills: int, workers: int | None, seed: int) -> None:
    """Kill, count, and write FILE; exit code 1 if a candidate was lost, counted twice, misjudged or is not sound."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gates-search-kills-") as folder, local_cluster((), workers or core_count()) as cluster:
        found = Study(candidates, kills, seed, Path(folder), cluster).run()
    out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found))
    sys.exit(1 if found["lost"] or found["counted_twice"] or found["misjudged"] or found["unsound"] else 0)


if __name__ == "__main__":
    main()
