"""How many warp instructions a second the CPU device executes, by class.

    python studies/cpu_device_speed.py --out results/recorded/cpu/speed.json

One core, seconds of processor time, checks on but races (a sanitizer's check) off. The work is a loop of PTX for each class.
"""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path

import numpy as np

from gates.core import jsonio
from gates.emulator.cpu.loading import CpuDevice, PtxModule
from gates.evidence.run_directory import utc_now

CTAS, WARPS, TURNS, REPEATS = 4, 4, 400, 16
HEAD = """.version 9.0
.target sm_90
.address_size 64
.visible .entry work(.param .u64 data) {
.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<8>; .reg .f32 %f<20>;
.shared .align 16 .b8 tile[4096];
ld.param.u64 %rd1, [data]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 16; add.s64 %rd3, %rd1, %rd2;
and.b32 %r2, %r1, 31; shl.b32 %r2, %r2, 4; mov.u32 %r3, tile; add.s32 %r4, %r3, %r2; cvt.rn.f32.u32 %f1, %r1;
mov.f32 %f2, 0f3F000000; mov.f32 %f3, 0f3F800000; mov.u32 %r8, 7; st.shared.v4.f32 [%r4], {%f1, %f2, %f3, %f1};
mov.b32 %r10, 0; mov.b32 %r11, 0; mov.b32 %r12, 0; mov.b32 %r13, 0;
mov.f32 %f8, 0f00000000; mov.f32 %f9, %f8; mov.f32 %f10, %f8; mov.f32 %f11, %f8;
bar.sync 0; mov.u32 %r5, 0;
LOOP:
"""
TAIL = """add.s32 %r5, %r5, 1; setp.lt.s32 %p1, %r5, TURNS; @%p1 bra LOOP; ret;
}
"""
CLASSES = {
    "plain arithmetic": {
        "f32 add": "add.f32 %f1, %f1, %f2;",
        "f32 fma": "fma.rn.f32 %f1, %f1, %f2, %f3;",
        "f32 fma, flushed": "fma.rn.ftz.f32 %f1, %f1, %f2, %f3;",
        "s32 add": "add.s32 %r6, %r6, %r8;",
        "s32 multiply-add": "mad.lo.s32 %r6, %r6, %r8, %r1;",
        "s64 add": "add.s64 %rd4, %rd4, %rd2;",
        "shift": "shl.b32 %r6, %r8, 3;",
        "compare": "setp.lt.f32 %p2, %f1, %f2;",
        "select": "selp.f32 %f4, %f1, %f2, %p2;",
        "under a guard": "@%p2 add.f32 %f1, %f1, %f2;",
    },
    "functions, conversions, shuffles": {
        "ex2": "ex2.approx.ftz.f32 %f4, %f2;",
        "f32 divide": "div.rn.f32 %f4, %f3, %f2;",
        "float to half": "cvt.rn.f16x2.f32 %r6, %f1, %f2;",
        "shuffle": "shfl.sync.bfly.b32 %r6|%p3, %r8, 1, 31, -1;",
    },
    "loads and stores": {
        "load shared, 4 bytes": "ld.shared.f32 %f4, [%r4];",
        "load shared, 16 bytes": "ld.shared.v4.f32 {%f4, %f5, %f6, %f7}, [%r4];",
        "store shared, 4 bytes": "st.shared.f32 [%r4], %f1;",
        "load global, 4 bytes": "ld.global.f32 %f4, [%rd3];",
        "load global, 16 bytes": "ld.global.v4.f32 {%f4, %f5, %f6, %f7}, [%rd3];",
    },
    "mma m16n8k16": {
        "mma m16n8k16 f16": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f8, %f9, %f10, %f11}, {%r10, %r11, %r12, %r13}, "
        "{%r10, %r11}, {%f8, %f9, %f10, %f11};",
    },
}


def main() -> None:
    """Print the table, and write it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="the JSON file to write")
    options = parser.parse_args()
    device = CpuDevice()
    device.configure(races=0, threads=1, time_limit_ms=60000)
    data, started = device.array(np.zeros(CTAS * WARPS * 32 * 4, np.float32)), utc_now().isoformat(timespec="seconds")
    print(f"{'class':28} million warp instructions a second")
    rates = {group: {name: rate(device, data, name, line) for name, line in lines.items()} for group, lines in CLASSES.items()}
    if options.out:
        jsonio.write(options.out, {"schema_version": 1, "started": started, "processor": processor(), "million_a_second": rates})


def rate(device: CpuDevice, data: object, name: str, line: str) -> float:
    """The best of three runs, in million warp instructions a second; printed, too."""
    module = PtxModule(device, HEAD + line * REPEATS + TAIL.replace("TURNS", str(TURNS)))
    rates = []
    for _ in range(3):
        device.reset()
        begin = time.process_time()
        module.launch("work", (CTAS,), (WARPS * 32,), data)
        rates.append(device.executed()[0] / (time.process_time() - begin) / 1e6)
    print(f"{name:28} {max(rates):8.1f}", flush=True)
    return round(max(rates), 1)


def processor() -> str:
    """The processor's name, as the system has it."""
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else "unknown"


if __name__ == "__main__":
    main()
