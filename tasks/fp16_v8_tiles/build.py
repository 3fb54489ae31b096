"""Build this stage: python -m tasks.fp16_v8_tiles.build"""

from gates.task_script import build

if __name__ == "__main__":
    build(__file__)
