#!/usr/bin/env bash
# Run tasks with the full profile on this machine's CUDA device and keep their run directories as evidence.
#
#   scripts/record.sh [-t SECONDS] DEVICE [TASK …]
#   scripts/record.sh h100                      every stage, FP16 rung and example
#   scripts/record.sh -t 240 h100 fp16_v9_pipeline stage3 ./examples/sgemm_512/sgemm_tiled
#
# DEVICE is the device's short name: results/recorded/DEVICE/<task>/<run>.zip, of an example results/recorded/DEVICE-examples/. Each run
# is packed, and its COMPARE.md and verdict.json stay readable beside it.
# Stages and rungs run with their edge shapes (--thorough), examples as they are. A task that fails does not stop the next
# one; one that takes longer than SECONDS (default 600) is stopped with all it started, and counts as failed.
# Exit code: that of the first task that did not end with 0, 124 for one that was stopped.
# PYTHON names the interpreter (default: .venv/bin/python where there is one).
set -uo pipefail
limit=600
while getopts t: option; do
  case $option in
    t) limit=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
case $limit in
  "" | 0 | *[!0-9]*)
    echo "error: -t $limit is not a number of seconds" >&2
    echo "hint: scripts/record.sh -t 240 h100" >&2
    exit 2
    ;;
esac
case ${1-} in
  "" | -* | */* | .*)
    echo "error: record.sh needs the device's short name" >&2
    echo "hint: scripts/record.sh h100" >&2
    exit 2
    ;;
esac
device=$1
shift
cd "$(dirname "$0")/.." || exit 2
python=${PYTHON:-.venv/bin/python}
[ -x "$(command -v "$python")" ] || python=python3
if [ $# -eq 0 ]; then
  mapfile -t tasks < <(printf '%s\n' tasks/*/task.yaml | xargs -n 1 dirname | xargs -n 1 basename | sort -V)
  mapfile -t examples < <(printf './%s\n' examples/*/*/task.yaml | xargs -n 1 dirname)
  set -- "${tasks[@]}" "${examples[@]}"
fi
status=0
for task in "$@"; do
  case $task in
    *examples/*) options=(--results "results/recorded/$device-examples") ;;
    *) options=(--thorough --results "results/recorded/$device") ;;
  esac
  timeout --kill-after=20 "$limit" "$python" -m gates run "$task" --profile full "${options[@]}"
  code=$?
  [ "$code" -eq 0 ] && continue
  [ "$code" -eq 124 ] || [ "$code" -eq 137 ] && echo "stopped: $task took longer than $limit s" >&2
  [ "$status" -ne 0 ] || status=$code
done
shopt -s nullglob
runs=(results/recorded/"$device"{,-examples}/*/*/run.json)
if [ ${#runs[@]} -gt 0 ]; then
  "$python" -m gates pack --replace "${runs[@]%/run.json}" || status=$?
fi
exit "$status"
