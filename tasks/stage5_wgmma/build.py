"""Build this stage: python -m tasks.stage5_wgmma.build"""

from gates.task_script import build

if __name__ == "__main__":
    build(__file__)
