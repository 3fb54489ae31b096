#!/usr/bin/env bash
# Hardware counters of some stages at one shape, side by side; needs a CUDA device and ncu.
#
#   scripts/profile_ncu.sh SHAPE STAGE [STAGE …]      e.g. scripts/profile_ncu.sh mission 0 3
#
# A stage is a number (3 is stage3) or a task's name. The reports go to build/profile/.
set -euo pipefail
if [ $# -lt 2 ]; then
  echo "error: profile_ncu.sh needs a shape and at least one stage" >&2
  echo "hint: scripts/profile_ncu.sh mission 0 3" >&2
  exit 2
fi
shape=$1
shift
tasks=()
for stage in "$@"; do
  case $stage in
    *[!0-9]*) tasks+=("$stage") ;;
    *) tasks+=("stage$stage") ;;
  esac
done
cd "$(dirname "$0")/.."
python=.venv/bin/python
[ -x "$python" ] || python=python3
exec "$python" -m gates profile "${tasks[@]}" --shape "$shape"
