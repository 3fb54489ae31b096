"""Run this stage: python -m tasks.stage4_mma.runner --shapes small,mission --seeds 0,1,2 --iters 500"""

from gates.run.runner import main

if __name__ == "__main__":
    main(__file__)
