from gates.task_script import build

build(__file__)
