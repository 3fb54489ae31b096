"""What the engine starts for every job: ``python entry.py --job FILE --folder FOLDER [--apart MODULE]``. A task's own runner.py is for people.

Not ``-m``, which would look for modules in the current folder first; and what lies beside this file hides no module either.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if sys.path and sys.path[0] == str(HERE):
    del sys.path[0]

if __name__ == "__main__":
    from gates.run.runner import job_main

    job_main(Path(sys.argv[2]), Path(sys.argv[4]), sys.argv[6] if sys.argv[5:6] == ["--apart"] else "")
