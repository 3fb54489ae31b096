"""Build this stage: python -m tasks.stage3_cp_async.build"""

from gates.task_script import build

if __name__ == "__main__":
    build(__file__)
