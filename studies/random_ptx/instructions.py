"""The instructions that random programs draw from, whose results PTX defines to the bit.

A template holds register classes in braces, a capital one where it writes: ``add.s32 {R}, {r}, {r};``. Left out are approximations,
float operations that a compiler may contract (each names its rounding), divisions by zero, and payloads of NaNs: memory that floats
write is read by floats of the same type alone. Programs also leave out what ptxas 13.0 translates wrongly for sm_90, as its SASS shows:
testp and set lose the predicate before them (``unguarded``); abs.ftz or neg.ftz of f16 with a cvt.rzi to a whole
number rounds to the nearest (``ALONE``).
"""

from __future__ import annotations

from itertools import product

# Register class: its PTX type, bytes, registers of a thread, and whether a NaN is as good as another. In the order of a record.
CLASSES = {
    "d": ("b64", 8, 4, False),
    "e": ("f64", 8, 4, True),
    "r": ("b32", 4, 6, False),
    "f": ("f32", 4, 6, True),
    "x": ("f16x2", 4, 4, True),
    "y": ("bf16x2", 4, 4, True),
    "h": ("b16", 2, 4, False),
    "g": ("f16", 2, 4, True),
    "v": ("bf16", 2, 4, True),
}
_OF_WIDTH = {16: "h", 32: "r", 64: "d"}
_WHOLE = ("u16", "s16", "u32", "s32", "u64", "s64")
_ROUNDINGS = ("rn", "rz", "rm", "rp")
# A place of the thread's own in each space: 64 bytes of whole numbers, then f32, f64, f16x2 and bf16x2 values.
SPACES = {"shared": "%sa", "global": "%ga", "local": "%la"}
PLACE_BYTES = 112
_FLOATS_AT = {"f": 64, "e": 80, "x": 96, "y": 104}


def _of(kind: str) -> str:
    return _OF_WIDTH[int(kind[1:])]


def _whole() -> list[str]:
    made = []
    for kind in _WHOLE:
        width, c, bits = int(kind[1:]), _of(kind), f"b{kind[1:]}"
        up, wide = c.upper(), {"h": "R", "r": "D"}.get(c)
        for name in ("add", "sub", "mul.lo", "mul.hi", "min", "max"):
            made.append(f"{name}.{kind} {{{up}}}, {{{c}}}, {{{c}i}};")
        for name in ("mad.lo", "mad.hi"):
            made.append(f"{name}.{kind} {{{up}}}, {{{c}}}, {{{c}i}}, {{{c}}};")
        for name in ("div", "rem"):  # a divisor that is neither 0 nor -1
            made.append(f"or.{bits} %t{c}, {{{c}}}, 1; and.{bits} %t{c}, %t{c}, -3; {name}.{kind} {{{up}}}, {{{c}}}, %t{c};")
        if wide:
            double = f"{kind[0]}{2 * width}"
            made.append(f"mul.wide.{kind} {{{wide}}}, {{{c}}}, {{{c}i}};")
            made.append(f"mad.wide.{kind} {{{wide}}}, {{{c}}}, {{{c}}}, {{{wide.lower()}}};")
            made.append(f"cvt.{double}.{kind} {{{wide}}}, {{{c}}};")
        made += [
            f"sad.{kind} {{{up}}}, {{{c}}}, {{{c}}}, {{{c}}};",
            f"shr.{kind} {{{up}}}, {{{c}}}, {{ri}};",
            f"shl.{bits} {{{up}}}, {{{c}}}, {{s}};",
            f"shr.{kind} {{{up}}}, {{{c}}}, {{s}};",
            f"selp.{kind} {{{up}}}, {{{c}}}, {{{c}i}}, {{p}};",
            f"slct.{kind}.s32 {{{up}}}, {{{c}}}, {{{c}}}, {{r}};",
            f"slct.{kind}.f32 {{{up}}}, {{{c}}}, {{{c}}}, {{f}};",
        ]
        orders = ("eq", "ne", "lt", "le", "gt", "ge") + (("lo", "ls", "hi", "hs") if kind[0] == "u" else ())
        for order in orders:
            made.append(f"setp.{order}.{kind} {{P}}, {{{c}}}, {{{c}i}};")
        for order, join in product(("eq", "lt", "ge"), ("and", "or", "xor")):
            made.append(f"setp.{order}.{join}.{kind} {{P}}, {{{c}}}, {{{c}}}, {{!p}};")
        made.append(f"set.lt.u32.{kind} {{R}}, {{{c}}}, {{{c}i}};")
        made.append(f"set.ne.and.s32.{kind} {{R}}, {{{c}}}, {{{c}}}, {{!p}};")
        if kind[0] == "s":
            made += [f"abs.{kind} {{{up}}}, {{{c}}};", f"neg.{kind} {{{up}}}, {{{c}}};"]
        if width >= 32:
            made += [
                f"bfind.{kind} {{R}}, {{{c}}};",
                f"bfind.shiftamt.{kind} {{R}}, {{{c}}};",
                f"bfe.{kind} {{{up}}}, {{{c}}}, {{r}}, {{s}};",
                f"bfe.{kind} {{{up}}}, {{{c}}}, {{s}}, {{r}};",
            ]
    for width, c in _OF_WIDTH.items():
        up = c.upper()
        made += [f"{name}.b{width} {{{up}}}, {{{c}}}, {{{c}i}};" for name in ("and", "or", "xor")]
        made += [f"{name}.b{width} {{{up}}}, {{{c}}};" for name in ("not", "cnot", "mov")]
        made += [f"setp.{order}.b{width} {{P}}, {{{c}}}, {{{c}i}};" for order in ("eq", "ne")]
        made.append(f"shr.b{width} {{{up}}}, {{{c}}}, {{ri}};")
        if width >= 32:
            made += [f"{name}.b{width} {{R}}, {{{c}}};" for name in ("popc", "clz")]
            made += [f"brev.b{width} {{{up}}}, {{{c}}};", f"bfi.b{width} {{{up}}}, {{{c}}}, {{{c}}}, {{s}}, {{r}};"]
            made += [
                *[
                    f"{name}.cc.u{width} {{{up}}}, {{{c}}}, {{{c}}}; {name}c.cc.u{width} {{{up}}}, {{{c}}}, {{{c}}}; "
                    f"{name}c.u{width} {{{up}}}, {{{c}}}, 0;"
                    for name in ("add", "sub")
                ],
                f"mad.lo.cc.u{width} {{{up}}}, {{{c}}}, {{{c}}}, {{{c}}}; madc.hi.u{width} {{{up}}}, {{{c}}}, {{{c}}}, {{{c}}};",
            ]
    made += [
        "add.sat.s32 {R}, {r}, {ri};",
        "sub.sat.s32 {R}, {r}, {ri};",
        "mad.hi.sat.s32 {R}, {r}, {r}, {r};",
        "mov.b64 {D}, {{r}, {r}};",
        "mov.b64 {%tr, {R}}, {d};",
        "mov.b32 {R}, {{h}, {h}};",
        "mov.b32 {%th, {H}}, {r};",
        "mov.b64 {D}, {{h}, {h}, {h}, {h}};",
        "lop3.b32 {R}, {r}, {r}, {r}, {b};",
        "lop3.b32 {R}, {r}, {ri}, {r}, {b};",
        "bmsk.clamp.b32 {R}, {ri}, {s};",
        "bmsk.wrap.b32 {R}, {s}, {r};",
    ]
    made += [f"prmt.b32{mode} {{R}}, {{r}}, {{r}}, {{ri}};" for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16")]
    made += [f"shf.{way}.{mode}.b32 {{R}}, {{r}}, {{r}}, {{ri}};" for way, mode in product("lr", ("wrap", "clamp"))]
    made += [f"dp4a.{a}.{b} {{R}}, {{r}}, {{r}}, {{r}};" for a, b in product(("u32", "s32"), repeat=2)]
    made += [f"dp2a.{half}.{a}.{b} {{R}}, {{r}}, {{r}}, {{r}};" for half, a, b in product(("lo", "hi"), ("u32", "s32"), ("u32", "s32"))]
    made += [f"mul24.{half}.{kind} {{R}}, {{r}}, {{ri}};" for half, kind in product(("lo", "hi"), ("u32", "s32"))]
    made += [f"mad24.{half}.{kind} {{R}}, {{r}}, {{r}}, {{r}};" for half, kind in product(("lo", "hi"), ("u32", "s32"))]
    made += [f"{name}.pred {{P}}, {{p}}, {{p}};" for name in ("and", "or", "xor")] + ["not.pred {P}, {p};", "mov.pred {P}, {p};"]
    for to, of in product(("u8", "s8", *_WHOLE), repeat=2):
        target, source = ("r" if kind[1:] == "8" else _of(kind) for kind in (to, of))
        if to != of:
            made.append(f"cvt.{to}.{of} {{{target.upper()}}}, {{{source}}};")
        if int(to[1:]) < int(of[1:]) or (int(to[1:]) == int(of[1:]) and to != of):
            made.append(f"cvt.sat.{to}.{of} {{{target.upper()}}}, {{{source}}};")
    return made


def _floats() -> list[str]:
    made = []
    for mode, flush, sat in product(_ROUNDINGS, ("", ".ftz"), ("", ".sat")):
        made += [f"{name}.{mode}{flush}{sat}.f32 {{F}}, {{f}}, {{fi}};" for name in ("add", "sub", "mul")]
        made.append(f"fma.{mode}{flush}{sat}.f32 {{F}}, {{f}}, {{f}}, {{f}};")
    for mode in _ROUNDINGS:
        made += [f"{name}.{mode}.f64 {{E}}, {{e}}, {{e}};" for name in ("add", "sub", "mul", "div")]
        made += [f"fma.{mode}.f64 {{E}}, {{e}}, {{e}}, {{e}};"] + [f"{name}.{mode}.f64 {{E}}, {{e}};" for name in ("rcp", "sqrt")]
        for flush in ("", ".ftz"):
            made.append(f"div.{mode}{flush}.f32 {{F}}, {{f}}, {{f}};")
            made += [f"{name}.{mode}{flush}.f32 {{F}}, {{f}};" for name in ("rcp", "sqrt")]
    for flush, nan in product(("", ".ftz"), ("", ".NaN")):
        made += [f"{name}{flush}{nan}.f32 {{F}}, {{f}}, {{fi}};" for name in ("min", "max")]
        made += [f"{name}{flush}.f32 {{F}}, {{f}};" for name in ("abs", "neg")]
    made += [f"{name}.f64 {{E}}, {{e}}, {{e}};" for name in ("min", "max")] + [
        f"{name}.f64 {{E}}, {{e}};" for name in ("abs", "neg", "mov")
    ]
    made += [
        "mov.b32 %tf, {r}; copysign.f32 {F}, %tf, {f};",
        "mov.f32 {F}, {f};",
        "mov.b32 {F}, {r};",
        "mov.b64 {E}, {d};",
        "selp.f32 {F}, {f}, {fi}, {p};",
        "selp.f64 {E}, {e}, {e}, {p};",
    ]
    orders = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
    for order in orders:
        made += [f"setp.{order}{flush}.f32 {{P}}, {{f}}, {{fi}};" for flush in ("", ".ftz")]
        made += [f"setp.{order}.{kind} {{P}}, {{{c}}}, {{{c}}};" for kind, c in (("f64", "e"), ("f16", "g"), ("bf16", "v"))]
    made += [f"setp.{order}.{join}.f32 {{P}}, {{f}}, {{f}}, {{!p}};" for order, join in product(("lt", "geu"), ("and", "or", "xor"))]
    made += [
        f"set.{order}.{to}.f32 {{{c}}}, {{f}}, {{f}};" for order in ("lt", "neu") for to, c in (("u32", "R"), ("s32", "R"), ("f32", "F"))
    ]
    made += [
        f"testp.{what}.{kind} {{P}}, {{{c}}};"
        for kind, c in (("f32", "f"), ("f64", "e"))
        for what in ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    ]
    return made


def _small_floats() -> list[str]:
    made = []
    for kind, c in (("f16", "g"), ("f16x2", "x"), ("bf16", "v"), ("bf16x2", "y")):
        up, half = c.upper(), kind.startswith("f16")
        for name in ("add", "sub", "mul"):
            made += [
                f"{name}.rn{more}.{kind} {{{up}}}, {{{c}}}, {{{c}}};" for more in (("", ".ftz", ".sat", ".ftz.sat") if half else ("",))
            ]
        made += [
            f"fma.rn{more}.{kind} {{{up}}}, {{{c}}}, {{{c}}}, {{{c}}};"
            for more in (("", ".ftz", ".sat", ".ftz.sat", ".relu", ".ftz.relu") if half else ("", ".relu"))
        ]
        for name, flush, nan in product(("min", "max"), ("", ".ftz") if half else ("",), ("", ".NaN")):
            made.append(f"{name}{flush}{nan}.{kind} {{{up}}}, {{{c}}}, {{{c}}};")
        made += [f"{name}.{kind} {{{up}}}, {{{c}}};" for name in ("abs", "neg")]
    for order in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"):
        made += [f"setp.{order}.{kind} {{P}}|%tp, {{{c}}}, {{{c}}};" for kind, c in (("f16x2", "x"), ("bf16x2", "y"))]
        made += [f"set.{order}.f16x2.f16x2 {{X}}, {{x}}, {{x}};", f"set.{order}.bf16x2.bf16x2 {{Y}}, {{y}}, {{y}};"]
    made += ["mov.b32 {X}, {{g}, {g}};", "mov.b32 {%th, {G}}, {x};", "mov.b32 {Y}, {{v}, {v}};", "mov.b32 {%th, {V}}, {y};"]
    made += ["mov.b32 {X}, {r};", "mov.b32 {Y}, {r};", "mov.b16 {G}, {h};", "mov.b16 {V}, {h};"]
    return made


def _conversions() -> list[str]:
    made = []
    floats = {"f16": "g", "bf16": "v", "f32": "f", "f64": "e"}
    for (of, c), to, mode in product(floats.items(), ("u8", "s8", *_WHOLE), ("rni", "rzi", "rmi", "rpi")):
        if of == "bf16" and to[1:] == "8":
            continue
        target = "R" if to[1:] == "8" else _of(to).upper()
        made += [f"cvt.{mode}{flush}.{to}.{of} {{{target}}}, {{{c}}};" for flush in (("", ".ftz") if of == "f32" else ("",))]
    for (to, c), of, mode in product(floats.items(), ("u8", "s8", *_WHOLE), _ROUNDINGS):
        if to == "bf16" and of[1:] == "8":
            continue
        source = "r" if of[1:] == "8" else _of(of)
        made.append(f"cvt.{mode}.{to}.{of} {{{c.upper()}}}, {{{source}}};")
    for mode in _ROUNDINGS:
        made += [f"cvt.{mode}{more}.f32.f64 {{F}}, {{e}};" for more in ("", ".ftz", ".sat")]
        made += [f"cvt.{mode}.f16.f64 {{G}}, {{e}};", f"cvt.{mode}i.f64.f64 {{E}}, {{e}};", f"cvt.{mode}i.f16.f16 {{G}}, {{g}};"]
        made += [f"cvt.{mode}i{more}.f32.f32 {{F}}, {{f}};" for more in ("", ".ftz", ".sat", ".ftz.sat")]
    for mode in ("rn", "rz"):
        for to, c in (("f16", "G"), ("bf16", "V")):
            made += [f"cvt.{mode}{more}.{to}.f32 {{{c}}}, {{f}};" for more in ("", ".relu")]
        for to, c in (("f16x2", "X"), ("bf16x2", "Y")):
            made += [f"cvt.{mode}{more}.{to}.f32 {{{c}}}, {{f}}, {{f}};" for more in ("", ".relu")]
    made += [f"cvt{more}.{to}.f32 {{{c}}}, {{f}};" for more in ("", ".ftz") for to, c in (("f64", "E"),)]
    made += [
        "cvt.f32.f16 {F}, {g};",
        "cvt.ftz.f32.f16 {F}, {g};",
        "cvt.f64.f16 {E}, {g};",
        "cvt.f32.bf16 {F}, {v};",
        "cvt.rn.ftz.f16.f32 {G}, {f};",
        "cvt.sat.f32.f32 {F}, {f};",
        "cvt.rna.tf32.f32 %tr, {f}; mov.b32 {F}, %tr;",
    ]
    for kind in ("e4m3x2", "e5m2x2"):
        made += [f"cvt.rn.satfinite{more}.{kind}.f32 {{H}}, {{f}}, {{f}};" for more in ("", ".relu")]
        made += [f"cvt.rn.satfinite{more}.{kind}.f16x2 {{H}}, {{x}};" for more in ("", ".relu")]
        made += [f"cvt.rn{more}.f16x2.{kind} {{X}}, {{h}};" for more in ("", ".relu")]
    return made


_ACCESSES = {  # by their bytes
    1: (
        "st.{space}.b8 {spot}, {{r}};",
        "ld.{space}.u8 {{R}}, {spot};",
        "ld.{space}.s8 {{R}}, {spot};",
        "ld.{space}.s8 {{H}}, {spot};",
        "ld.{space}.s8 {{D}}, {spot};",
    ),
    2: (
        "st.{space}.b16 {spot}, {{h}};",
        "ld.{space}.b16 {{H}}, {spot};",
        "ld.{space}.s16 {{R}}, {spot};",
        "ld.{space}.u16 {{D}}, {spot};",
        "ld.{space}.s16 {{D}}, {spot};",
    ),
    4: (
        "st.{space}.b32 {spot}, {{r}};",
        "ld.{space}.b32 {{R}}, {spot};",
        "ld.{space}.s32 {{D}}, {spot};",
        "ld.{space}.u32 {{D}}, {spot};",
    ),
    8: (
        "st.{space}.b64 {spot}, {{d}};",
        "ld.{space}.b64 {{D}}, {spot};",
        "st.{space}.v2.b32 {spot}, {{{{r}}, {{r}}}};",
        "ld.{space}.v4.s16 {{%th, {{H}}, %th2, %th3}}, {spot};",
    ),
    16: (
        "st.{space}.v4.b32 {spot}, {{{{r}}, {{r}}, {{r}}, {{r}}}};",
        "ld.{space}.v2.b64 {{%td, {{D}}}}, {spot};",
        "st.{space}.v2.b64 {spot}, {{{{d}}, {{d}}}};",
        "ld.{space}.v4.u8 {{%th, %th2, {{H}}, %th3}}, {spot};",
        "ld.{space}.v4.u32 {{%tr, %tr2, {{R}}, %tr3}}, {spot};",
    ),
}


def _memory() -> list[str]:
    made = []
    for space, at in SPACES.items():
        spots = {
            size: [f"[{at}+{offset}]" for offset in range(0, 64, max(size, 8) if size > 4 else 12 if size == 4 else 7 * size)]
            for size in _ACCESSES
        }
        for size, accesses in _ACCESSES.items():
            made += [access.format(space=space, spot=spot) for spot in spots[size] for access in accesses]
        for c, offset in _FLOATS_AT.items():
            kind = CLASSES[c][0] if c in "fe" else "b32"
            made += [f"st.{space}.{kind} [{at}+{offset}], {{{c}}};", f"ld.{space}.{kind} {{{c.upper()}}}, [{at}+{offset}];"]
        if space == "local":
            continue
        for kind, name in [
            *product(("u32", "s32", "u64"), ("add",)),
            *product(("u32", "s32", "u64", "s64"), ("min", "max")),
            *product(("b32", "b64"), ("and", "or", "xor", "exch")),
            *product(("u32",), ("inc", "dec")),
        ]:
            c = _of(kind)
            for spot in spots[int(kind[1:]) // 8][:3]:
                made.append(f"atom.{space}.{name}.{kind} {{{c.upper()}}}, {spot}, {{{c}}};")
                if name != "exch":
                    made.append(f"red.{space}.{name}.{kind} {spot}, {{{c}}};")
        made += [
            f"atom.{space}.cas.b{width} {{{c.upper()}}}, [{at}+{offset}], {{{c}}}, {{{c}}};"
            for width, c in ((16, "h"), (32, "r"), (64, "d"))
            for offset in (0, 24)
        ]
        made += [
            f"atom.{space}.add.f32 {{F}}, [{at}+64], {{f}};",
            f"atom.{space}.add.f64 {{E}}, [{at}+80], {{e}};",
            f"atom.{space}.add.noftz.f16x2 {{X}}, [{at}+96], {{x}};",
            f"atom.{space}.add.noftz.bf16x2 {{Y}}, [{at}+104], {{y}};",
        ]
    return made


def _warp() -> list[str]:
    made = [
        f"shfl.sync.{mode}.b32 {{R}}|{{P}}, {{r}}, {{ri}}, {segment + (0 if mode == 'up' else 31)}, -1;"
        for mode in ("up", "down", "bfly", "idx")
        for segment in (0, 0x1800, 0x1C00, 0x1000)
    ]
    made += ["shfl.sync.idx.b32 {F}, {f}, {r}, 31, -1;"]
    made += [f"vote.sync.{mode}.pred {{P}}, {{!p}}, -1;" for mode in ("all", "any", "uni")] + ["vote.sync.ballot.b32 {R}, {!p}, -1;"]
    made += ["match.any.sync.b32 {R}, {r}, -1;", "match.any.sync.b64 {R}, {d}, -1;", "match.all.sync.b32 {R}|{P}, {r}, -1;"]
    # Matrices: rows are the places of lanes in shared memory; sums of whole numbers are exact in any order.
    for count, trans in product((1, 2, 4), ("", ".trans")):
        to = "{{" + ", ".join(["{{R}}", "%tr", "%tr2", "%tr3"][:count]) + "}}"
        made.append(
            f"bar.warp.sync -1; ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {to}, [%sa+16]; bar.warp.sync -1;".replace(
                "{{", "{"
            ).replace("}}", "}")
        )
    for a, b in product(("s8", "u8"), repeat=2):
        for k, more in ((16, "{r}, {r}"), (32, "{r}, {r}, {r}, {r}")):
            second = "{r}" if k == 16 else "{r}, {r}"
            shape = f"mma.sync.aligned.m16n8k{k}.row.col.s32.{a}.{b}.s32"
            made.append(f"{shape} {{%tr, {{R}}, %tr2, %tr3}}, {{{more}}}, {{{second}}}, {{{{r}}, {{r}}, {{r}}, {{r}}}};")
    made.append("movmatrix.sync.aligned.m8n8.trans.b16 {R}, {r};")
    made += [
        f"redux.sync.{name}.{kind} {{R}}, {{r}}, -1;"
        for name, kind in [*product(("add", "min", "max"), ("u32", "s32")), *product(("and", "or", "xor"), ("b32",))]
    ]
    return made


LANE = {"whole": _whole(), "floats": _floats(), "small floats": _small_floats(), "conversions": _conversions(), "memory": _memory()}
WARP = _warp()
ALONE = tuple(f"{name}.ftz.{kind} {to};" for name in ("abs", "neg") for kind, to in (("f16", "{G}, {g}"), ("f16x2", "{X}, {x}")))


def unguarded(statement: str) -> bool:
    """Whether a predicate before this statement is lost in the machine code."""
    return statement.startswith(("testp.", "set."))
