from gates.task_script import run

run(__file__)
