"""Two run directories side by side; the same as `gates compare BASE CAND`.

Example: python scripts/compare_results.py latest:stage1 latest:stage2
"""

import sys

from gates.cli.main import main

if __name__ == "__main__":
    sys.argv.insert(1, "compare")
    main()
