#!/usr/bin/env bash
# Run every example with the full profile on this machine's CUDA device and keep the run directories.
#
#   scripts/record_examples.sh h100        writes results/recorded/h100-examples/<task>/<run>/
#
# PYTHON names the interpreter (default: .venv/bin/python where there is one).
set -uo pipefail
if [ $# -ne 1 ]; then
  echo "error: record_examples.sh needs the device's short name" >&2
  echo "hint: scripts/record_examples.sh h100" >&2
  exit 2
fi
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
[ -x "$(command -v "$python")" ] || python=python3
status=0
for task in examples/*/*/task.yaml; do
  "$python" -m gates run "./$(dirname "$task")" --profile full --results "results/recorded/$1-examples" || status=$?
done
exit "$status"
