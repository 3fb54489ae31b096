"""Build this stage: python -m tasks.fp16_v10_hopper.build"""

from gates.run.build import build_main

if __name__ == "__main__":
    build_main(__file__)
