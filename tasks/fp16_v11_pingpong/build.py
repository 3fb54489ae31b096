"""Build this stage: python -m tasks.fp16_v11_pingpong.build"""

from gates.task_script import build

if __name__ == "__main__":
    build(__file__)
