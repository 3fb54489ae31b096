"""Run a job of the engine: ``python entry.py --job FILE --folder FOLDER [--kernel-process MODULE]``. A task's runner.py is for people.

It is not started by ``-m``, which would search the current folder for modules first. Files beside this one hide no module either.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if sys.path and sys.path[0] == str(HERE):
    del sys.path[0]

if __name__ == "__main__":
    from gates.worker.runner import job_main

    job_main(Path(sys.argv[2]), Path(sys.argv[4]), sys.argv[6] if sys.argv[5:6] == ["--kernel-process"] else "")
