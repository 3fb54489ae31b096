#!/usr/bin/env bash
# Run every stage with the full profile, edge shapes included, on this machine's CUDA device and keep the run directories.
#
#   scripts/record_evidence.sh h100        writes results/recorded/h100/<task>/<run>/
#
# PYTHON names the interpreter (default: .venv/bin/python where there is one).
set -uo pipefail
if [ $# -ne 1 ]; then
  echo "error: record_evidence.sh needs the device's short name" >&2
  echo "hint: scripts/record_evidence.sh h100" >&2
  exit 2
fi
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
[ -x "$(command -v "$python")" ] || python=python3
status=0
for stage in stage0 stage1 stage2 stage3; do
  "$python" -m gates run "$stage" --profile full --thorough --results "results/recorded/$1" || status=$?
done
exit "$status"
