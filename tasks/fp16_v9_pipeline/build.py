"""Build this stage: python -m tasks.fp16_v9_pipeline.build"""

from gates.task_script import build

if __name__ == "__main__":
    build(__file__)
