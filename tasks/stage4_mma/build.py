"""Build this stage: python -m tasks.stage4_mma.build"""

from gates.run.build import build_main

if __name__ == "__main__":
    build_main(__file__)
