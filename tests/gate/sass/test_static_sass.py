"""The sass gate on recorded disassembly of both tools, and the defects that must turn it red."""

from __future__ import annotations

from collections import Counter

import pytest
from places import TESTS

from gates.core.errors import GatesError
from gates.core.records import Status, from_json, to_json
from gates.gate.sass.codes import CODES
from gates.gate.sass.evidence import CLASSES, SassEvidence, count_classes, gather, parse_sass
from gates.gate.sass.judge import judge

DATA = TESTS / "data" / "sass"
WMMA = (DATA / "sm89_wmma.sass").read_text()
SCALAR = (DATA / "sm90_scalar_local.nvdisasm").read_text()
PRODUCT, MANY = "_Z7productPK6__halfS1_Pf", "_Z4manyPf"
CLAIM = {"require": {"tensor": 1, "async_copy": 1}, "forbid": ["local_memory"]}


def counted(text: str) -> dict[str, Counter[str]]:
    return {name: Counter(mnemonic for mnemonic, _ in instructions) for name, instructions in parse_sass(text).items()}


def test_functions_and_instructions_of_cuobjdump() -> None:
    functions = counted(WMMA)
    assert list(functions) == [MANY, PRODUCT]
    assert (sum(functions[MANY].values()), sum(functions[PRODUCT].values())) == (408, 64)
    classes = count_classes(functions[PRODUCT])
    assert {name: count for name, count in classes.items() if count} == {
        "tensor": 2,
        "async_copy": 2,
        "async_wait": 2,
        "shared_load": 5,
        "global_store": 4,
        "barrier": 1,
        "branch": 6,
    }
    assert count_classes(functions[MANY])["fma"] == 256


def test_without_limits_nothing_is_judged() -> None:
    result = judge(gather({"sm_89": WMMA}, ("product",)), {})
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "sass.no_limits")
    assert judge(gather({"sm_89": WMMA}, ("absent",)), {}).code == "sass.kernel_missing"


def test_nvdisasm_reads_the_same() -> None:
    functions = counted(SCALAR)
    assert set(functions) == {MANY, PRODUCT}
    assert count_classes(functions[PRODUCT])["local_memory"] == 33
    assert count_classes(functions[PRODUCT])["tensor"] == 0


def test_predicates_braces_and_encodings() -> None:
    text = "\n".join(
        [
            "\t\tFunction : k",
            "        /*0000*/              @!P0 LDGSTS.E.BYPASS.128 [R5], [R2.64] ;            /* 0x0000000002057fae */",
            "                                                                                  /* 0x0003e2000b901c44 */",
            "        /*0010*/              @UP1 HGMMA.64x64x16.F32 R24, gdesc[UR4], RZ, !UPT ;  /* 0x0000000002057fae */",
            "        /*0020*/         {         IADD3 R1, R1, 0x1, RZ  }  ;                     /* 0x0000000002057fae */",
            "        /*0030*/                   EXIT ;",
        ]
    )
    assert dict(counted(text)["k"]) == {"LDGSTS.E.BYPASS.128": 1, "HGMMA.64x64x16.F32": 1, "IADD3": 1, "EXIT": 1}
    classes = count_classes(counted(text)["k"])
    assert (classes["tensor"], classes["wgmma"], classes["async_copy"], classes["tma"], classes["global_load"]) == (1, 1, 1, 0, 0)


def test_no_opcode_is_in_two_classes_but_those_of_hopper() -> None:
    hopper = {"wgmma": "tensor", "tma": "async_copy"}
    opcodes = [opcode for name, members in CLASSES.items() if name not in hopper for opcode in members]
    assert len(opcodes) == len(set(opcodes))
    assert all(CLASSES[part] < CLASSES[whole] for part, whole in hopper.items())


def test_tensor_code_passes_its_claim() -> None:
    result = judge(gather({"sm_89": WMMA}, ["product"]), CLAIM)
    assert result.status is Status.PASS
    assert {check.name: check.observed for check in result.checks if check.where.startswith(PRODUCT)} == {
        "instructions": 64,
        "tensor": 2,
        "async_copy": 2,
        "local_memory": 0,
    }


def test_scalar_code_under_a_tensor_claim_fails() -> None:
    result = judge(gather({"sm_90": SCALAR}, ["product"]), {"require": {"tensor": 1}})
    assert result.code == "sass.required"
    (check,) = [check for check in result.checks if check.code]
    assert (check.observed, check.limit, check.where) == (0, 1, f"{PRODUCT} sm_90")


def test_local_memory_fails_where_it_is_forbidden() -> None:
    result = judge(gather({"sm_90": SCALAR}, ["product"]), {"forbid": ["local_memory"]})
    assert result.code == "sass.forbidden" and "33 instructions" in result.sentence


def test_more_than_the_code_has_fails() -> None:
    assert judge(gather({"sm_89": WMMA}, ["product"]), {"require": {"tensor": 2}}).status is Status.PASS
    assert judge(gather({"sm_89": WMMA}, ["product"]), {"require": {"tensor": 3}}).code == "sass.required"


def test_a_missing_kernel_fails_and_a_missing_dump_is_not_run() -> None:
    assert judge(gather({"sm_89": WMMA}, ["gone"]), CLAIM).code == "sass.kernel_missing"
    assert judge(gather({"sm_89": ""}, []), {}).code == "sass.kernel_missing"
    result = judge(gather({"sm_89": None}, ["product"], missing_reason="neither tool was found; install one"), CLAIM)
    assert result.status is Status.NOT_RUN and result.code == "sass.no_dump"
    assert result.checks[0].hint == "neither tool was found; install one"
    assert judge(gather({}, ["product"]), CLAIM).status is Status.NOT_RUN


def test_one_architecture_of_two_missing_is_no_pass() -> None:
    assert judge(gather({"sm_89": WMMA, "sm_90": None}, ["product"]), CLAIM).status is Status.NOT_RUN


def test_a_function_without_instructions_is_inconclusive() -> None:
    result = judge(gather({"sm_89": "\t\tFunction : k\n\t.headerflags\n"}, ["k"]), {"forbid": ["local_memory"]})
    assert result.status is Status.INCONCLUSIVE and result.code == "sass.unreadable"


def test_every_instance_must_meet_the_claim() -> None:
    text = "\n".join(
        f"\t\tFunction : _Z1kILi{i}EEvv\n        /*0000*/   {code} ;\n"
        for i, code in ((0, "HMMA.16816.F32 R4, R4"), (1, "FFMA R1, R1, R1, R1"))
    )
    result = judge(gather({"sm_89": text}, ["k"]), {"require": {"tensor": 1}})
    assert [check.where for check in result.checks if check.code] == ["_Z1kILi1EEvv sm_89"]


def test_an_unknown_class_is_an_error_with_the_nearest_name() -> None:
    for limits in ({"require": {"tensr": 1}}, {"forbid": ["local_mem"]}):
        with pytest.raises(GatesError, match="no instruction class") as caught:
            judge(gather({"sm_89": WMMA}, ["product"]), limits)
        assert "did you mean" in (caught.value.hint or "")


def test_change_against_the_baseline_is_listed() -> None:
    before = gather({"sm_90": SCALAR}, ["product"])
    after = gather({"sm_90": WMMA}, ["product"])
    changes = {check.name: check.observed for check in judge(after, {}, before).checks if check.name.endswith("_change")}
    assert changes["tensor_change"] == "0 -> 2 (+2)" and changes["local_memory_change"] == "33 -> 0 (-33)"


def test_evidence_survives_json_and_codes_are_explained() -> None:
    ours = gather({"sm_89": WMMA, "sm_90": None}, ["product"], missing_reason="why")
    assert from_json(SassEvidence, to_json(ours), "sass.json") == ours
    assert {check.code for check in judge(ours, CLAIM).checks if check.code} <= set(CODES)
