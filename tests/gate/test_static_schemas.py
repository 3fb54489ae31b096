"""The schemas of ptxas.json, sass.json and build.json against real records and against damaged ones."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import jsonschema
import pytest
from places import DATA
from static_kit import make_task, stub_toolchain

from gates.build.build import build
from gates.core.records import to_json
from gates.core.schema import schema_path
from gates.gate.ptxas import evidence as ptxas
from gates.gate.sass import evidence as sass

ADDED = {"launches_note", "advice", "build", "identity", "data", "host"}  # which the first runs do not have


def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = json.loads(schema_path(name).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def record(name: str, tmp_path: Path) -> dict:
    if name == "build":
        (tmp_path / "k.cu").write_text("this is not c++\n")
        task = make_task(tmp_path, source=tmp_path / "k.cu")
        return build(task, stub_toolchain(tmp_path / "cuda"), tmp_path / "build", want={"cubin", "device"}).evidence()
    if name == "sass":
        return to_json(sass.gather({"sm_89": (DATA / "sass/sm89_wmma.sass").read_text(), "sm_90": None}, ["product"], missing_reason="why"))
    text = (DATA / "ptxas/cuda13.0_sm89_rdc_nvlink.log").read_text()
    launches = [{"kernel": "caller", "block": [32, 1, 1], "dynamic_smem_bytes": 0, "opt_in_smem_bytes": 0}]
    return to_json(ptxas.gather({"sm_89": text, "sm_90": None}, launches, ["caller"], {}))


@pytest.mark.parametrize("name", ["ptxas", "sass", "build"])
def test_a_real_record_is_valid_and_a_damaged_one_is_not(name: str, tmp_path: Path) -> None:
    data, check = record(name, tmp_path), validator(name)
    assert not list(check.iter_errors(data))
    assert data["schema_version"] == 1
    for damage in ({"unknown": 1}, {"schema_version": 2}):
        assert list(check.iter_errors({**data, **damage}))
    for key in data.keys() - ADDED:
        assert list(check.iter_errors({other: value for other, value in data.items() if other != key})), key
    inner = {"ptxas": "kernels", "sass": "functions", "build": "targets"}[name]
    broken = copy.deepcopy(data)
    broken[inner][0]["arch"] = 89
    assert list(check.iter_errors(broken))
