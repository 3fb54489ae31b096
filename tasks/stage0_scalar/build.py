"""Build this stage: python -m tasks.stage0_scalar.build"""

from gates.task_script import build

if __name__ == "__main__":
    build(__file__)
