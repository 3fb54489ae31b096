"""Run this stage: python -m tasks.stage5_wgmma.runner --shapes small,mission --seeds 0,1,2 --iters 500"""

from gates.task_script import run

if __name__ == "__main__":
    run(__file__)
