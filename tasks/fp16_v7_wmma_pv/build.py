"""Build this stage: python -m tasks.fp16_v7_wmma_pv.build"""

from gates.task_script import build

if __name__ == "__main__":
    build(__file__)
