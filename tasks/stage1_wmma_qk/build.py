"""Build this stage: python -m tasks.stage1_wmma_qk.build"""

from gates.task_script import build

if __name__ == "__main__":
    build(__file__)
