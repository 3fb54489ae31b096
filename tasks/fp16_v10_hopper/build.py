"""Build this stage: python -m tasks.fp16_v10_hopper.build"""

from gates.task_script import build

if __name__ == "__main__":
    build(__file__)
