"""From .cu to C++: launches, declarations, lines, refusals, dependencies."""

from __future__ import annotations

import re
import string
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from emulator_kit import Emulated
from static_kit import needs_nvcc

from gates.build.toolchain import find_toolchain
from gates.core.errors import GatesError
from gates.emulator import unsupported
from gates.emulator.flags import CXX_FLAGS, INCLUDE_DIR
from gates.emulator.library import compile_library
from gates.emulator.translate import main, translate, translate_text


def rewritten(code: str) -> str:
    """What becomes of a few lines, without preprocessing."""
    text = translate_text(f'# 1 "k.cu"\n{code}')
    return text[text.index("\n") + 1 :]


def written(folder: Path, code: str, name: str = "k.cu") -> Path:
    path = folder / name
    path.write_text(code, encoding="utf-8")
    return path


def error_of(folder: Path, code: str) -> GatesError:
    with pytest.raises(GatesError) as caught:
        translate(written(folder, code), folder / "k.cpp")
    return caught.value


@pytest.mark.parametrize(
    ("launch", "callee", "config"),
    [
        ("k<<<1, 2>>>(p);", "k", "1, 2"),
        ("k<float, 4><<<g, b, n, s>>>(p, q);", "k<float, 4>", "g, b, n, s"),
        ("k<T, (A > B), sizeof(T[3])><<<dim3(a >> 1, 2), b>>>(p);", "k<T, (A > B), sizeof(T[3])>", "dim3(a >> 1, 2), b"),
        ("a::b<X>::k<Y<Z>><<<f<3>(g), 2>>>();", "a::b<X>::k<Y<Z>>", "f<3>(g), 2"),
        ("if (x) ::n::k<<<1, 1>>>(p);", "::n::k", "1, 1"),
        ("(table[i])<<<1, 1>>>(p);", "(table[i])", "1, 1"),
    ],
)
def test_launches(launch: str, callee: str, config: str) -> None:
    out = rewritten(f"void f() {{ {launch} }}")
    assert f"{{ {callee}(gates_arguments...); }}, ::gates_emulator::Config({config}))(" in out


def test_what_only_looks_like_a_launch_stays() -> None:
    code = 'int f(int a) { const char* s = "k<<<1, 2>>>(p)"; /* k<<<1>>>(p) */ return a << 3 >> 1; } // k<<<1, 1>>>()\n'
    assert rewritten(code) == code
    raw = 'auto s = R"x(\n# 7 k<<<1, 1>>>(p) __shared__ asm)x";\n'
    assert rewritten(raw) == raw


def test_a_launch_over_several_lines_keeps_them() -> None:
    code = "void f() {\n  k<A,\n    B>\n  <<<g,\n     b>>>\n  (p);\n  g();\n}\n"
    assert rewritten(code).count("\n") == code.count("\n")
    assert rewritten(code).splitlines()[6] == "  g();"


@pytest.mark.parametrize(
    ("declaration", "names"),
    [
        ("__shared__ float a[4][5];", ["a"]),
        ("__shared__ alignas(16) unsigned char a[N], b[2];", ["a", "b"]),
        ("static __shared__ std::pair<int, float> a;", ["a"]),
        ("__shared__ __attribute__((aligned(32))) half *p, q[3];", ["p", "q"]),
        ("__shared__ Map<int*, 3> a, *b;", ["a", "b"]),
        ("volatile __shared__ int flag;", ["flag"]),
        ("float __shared__ a[sizeof(x) > 4 ? 1 : 2];", ["a"]),
    ],
)
def test_static_declarations(declaration: str, names: list[str]) -> None:
    out = rewritten(f"void f() {{ {declaration} }}")
    assert [f"auto& {name} =" in out for name in names] == [True] * len(names)
    assert "__shared__" not in out and out.count("SharedSlot") == len(names)


def test_launch_bounds_and_templates_of_kernels() -> None:
    out = rewritten("template <int N> __global__ void __launch_bounds__(N * 32, 2) k(int* p) { p[0] = N; }")
    assert 'gates_kernel_entry{"k", __PRETTY_FUNCTION__, "k.cu", 1, static_cast<unsigned>(N * 32)}' in out
    assert "__launch_bounds__" not in out and "__global__" not in out
    assert "gates_kernel_entry" not in rewritten("__global__ void k(int* p);")
    assert '{"k", __PRETTY_FUNCTION__, "k.cu", 1' in rewritten("template <> __global__ void k<int>(int* p) { }")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("void f() { k<<<1, 2; }", "'<<<' without '>>>'"),
        ("void f() { k<<<1, 2>>>; }", "needs its arguments"),
        ("__shared__ float a[4];", "outside a function"),
        ('namespace n { extern "C" { __shared__ float a[4]; } }', "outside a function"),
        ("void f() { __shared__ float a = 1; }", "can't have an initialiser"),
    ],
)
def test_what_can_not_be_read_is_an_error_with_its_line(code: str, says: str) -> None:
    with pytest.raises(GatesError) as caught:
        rewritten("\n\n" + code)
    assert says in caught.value.what and caught.value.what.startswith("k.cu:3: ")


@pytest.mark.parametrize(
    ("code", "feature"),
    [
        ('__device__ void f() { asm volatile("bar.sync 0;"); }', "inline assembly"),
        ("__device__ float f(cudaTextureObject_t t);", "textures"),
        ("void f() { cudaLaunchKernel(0, 1, 1, 0, 0, 0); }", "cudaLaunchKernel"),
        ("__device__ void f(__mbarrier_t* b);", "mbarrier"),
        ("__cluster_dims__(2, 1, 1) __global__ void k() {}", "thread block clusters"),
    ],
)
def test_unsupported_features_are_named_with_file_line_and_remedy(tmp_path: Path, code: str, feature: str) -> None:
    error = error_of(tmp_path, f"#include <cuda_runtime.h>\n\n{code}\n")
    assert f"{tmp_path}/k.cu:3: the CPU emulator does not support {feature}" in error.what
    assert error.hint


@pytest.mark.parametrize("name", unsupported.IDENTIFIERS)
def test_each_unsupported_name_is_an_error_with_feature_line_and_remedy(name: str) -> None:
    feature, remedy = unsupported.IDENTIFIERS[name]
    used = name.replace("*", "x")
    with pytest.raises(GatesError) as caught:
        rewritten(f"__device__ void f() {{\n  {used}(1);\n}}")
    assert caught.value.what == f"k.cu:2: the CPU emulator does not support {feature} ({used})" and caught.value.hint == remedy
    assert feature and len(remedy) > 12
    assert rewritten(f"int my_{used};") == f"int my_{used};", "a name of one's own that only contains it stays"


@pytest.mark.parametrize("header", unsupported.HEADERS)
def test_each_unsupported_header_is_an_error_with_feature_line_and_remedy(header: str, tmp_path: Path) -> None:
    feature, remedy = unsupported.HEADERS[header]
    header = header.replace("*", "x.h")
    error = error_of(tmp_path, f"\n#include <{header}>\n")
    assert error.what == f"{tmp_path}/k.cu:2: the CPU emulator does not support {feature} ({header})" and error.hint == remedy


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            "nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 8, __half, nvcuda::wmma::row_major> f;",
            "WMMA shapes 16x16x16, 32x8x16 and 8x32x16",
        ),
        ("nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, signed char, nvcuda::wmma::row_major> f;", "WMMA with half inputs"),
        (
            "struct Wide { double a, b; }; __device__ Wide f(Wide w) { return __shfl_sync(0xffffffffu, w, 0); }",
            "shuffles move values of up to 8 bytes",
        ),
    ],
)
def test_what_a_template_refuses_says_what_is_possible(code: str, says: str, tmp_path: Path) -> None:
    source = written(tmp_path, f"#include <mma.h>\n{code}\n")
    with pytest.raises(GatesError) as caught:
        compile_library([source], tmp_path / "k.so", work_dir=tmp_path)
    assert says in caught.value.what


def test_unsupported_header_is_named(tmp_path: Path) -> None:
    error = error_of(tmp_path, "#include <cuda_runtime.h>\n#include <cooperative_groups.h>\n")
    assert error.what.startswith(f"{tmp_path}/k.cu:2: the CPU emulator does not support cooperative groups")


def test_a_missing_header_is_the_compilers_message(tmp_path: Path) -> None:
    assert "nowhere.h: No such file" in error_of(tmp_path, "#include <nowhere.h>\n").what


def test_a_host_version_hides_the_unsupported_form(tmp_path: Path) -> None:
    source = written(
        tmp_path,
        """#include <cuda_runtime.h>
__device__ unsigned lane() {
#ifdef GATES_EMULATOR
    return threadIdx.x % 32;
#else
    unsigned id;
    asm("mov.u32 %0, %%laneid;" : "=r"(id));
    return id;
#endif
}
__global__ void k(unsigned* out) { out[threadIdx.x] = lane(); }
extern "C" unsigned run(unsigned* out) { k<<<1, 64>>>(out); return out[33]; }
""",
    )
    library = Emulated(compile_library([source], tmp_path / "k.so", work_dir=tmp_path))
    import numpy as np

    assert library.run("run", np.zeros(64, dtype=np.uint32)) == 1


def test_compile_errors_name_the_line_of_the_cu_file(tmp_path: Path) -> None:
    source = written(
        tmp_path,
        """#include <cuda_runtime.h>
#define WIDE __align__(16)
__global__ void k(float* out) {
    __shared__ WIDE float tile[4],
        other[4];
    k<<<1,
        2>>>(out);
    tile[0] = 1;
    out[0] = undeclared;
}
""",
    )
    with pytest.raises(GatesError) as caught:
        compile_library([source], tmp_path / "k.so", work_dir=tmp_path)
    assert f"{source}:9:14: error: ‘undeclared’" in caught.value.what or f"{source}:9:" in caught.value.what
    assert "compile.log" in caught.value.hint
    assert "undeclared" in (tmp_path / "compile.log").read_text(encoding="utf-8")


def test_two_sources_share_one_emulator(tmp_path: Path) -> None:
    header = written(tmp_path, "#pragma once\n__global__ void k(int* p);\n", "k.cuh")
    first = written(tmp_path, '#include <cuda_runtime.h>\n#include "k.cuh"\n__global__ void k(int* p) { *p = 7; }\n', "first.cu")
    second = written(
        tmp_path,
        """#include <cuda_runtime.h>
#include "k.cuh"
extern "C" int run() { int x = VALUE; k<<<1, 1>>>(&x); return x + cudaGetLastError(); }
""",
        "second.cu",
    )
    library = Emulated(compile_library([first, second], tmp_path / "k.so", defines={"VALUE": 3}, work_dir=tmp_path))
    assert library.run("run") == 7
    assert [launch["kernel"] for launch in library.launches()] == ["k"]
    assert header.exists()


def test_two_libraries_in_one_process_are_apart(tmp_path: Path) -> None:
    code = '#include <cuda_runtime.h>\n__global__ void k() {}\nextern "C" int run() { k<<<1, VALUE>>>(); return cudaGetLastError(); }\n'
    source = written(tmp_path, code)
    one = Emulated(compile_library([source], tmp_path / "one.so", defines={"VALUE": 1}, work_dir=tmp_path))
    two = Emulated(compile_library([source], tmp_path / "two.so", defines={"VALUE": 4096}, work_dir=tmp_path))
    one.reset(), two.reset()
    assert two.call("run") != 0 and one.call("run") == 0
    assert len(two.findings()) == 1 and one.findings() == []
    assert len(one.launches()) == 1


def test_the_portable_stack_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = written(
        tmp_path,
        """#include <cuda_runtime.h>
__global__ void k(int* out) {
    __shared__ int tile[64];
    tile[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = tile[63 - threadIdx.x];
}
extern "C" int run() { int out[64]; k<<<1, 64>>>(out); return out[0] * 100 + out[62]; }
""",
    )
    monkeypatch.setattr("gates.emulator.library.CXX_FLAGS", [*CXX_FLAGS, "-DGATES_EMULATOR_UCONTEXT"])
    library = Emulated(compile_library([source], tmp_path / "k.so", work_dir=tmp_path))
    assert library.run("run") == 6301


KNOWN = """
memcpy((void*)0, (void*)0, 0); memset((void*)0, 0, 0); strlen(""); malloc(1); free(0); abort(); exit(0); atoi("1"); rand(); qsort(0, 0, 0, 0); isdigit(1);
abs(-1); abs(1.0f); std::abs(-1.0f); sqrtf(1); sqrt(1.0f); fmaf(1, 1, 1); isnan(1.0f); std::isnan(1.0f); std::sqrt(1.0f); std::pow(1.0f, 1.0f); std::hypot(1., 1., 1.); sincosf(1, 0, 0);
time(0); clock(); min(1, 2); max(1.0f, 2.0f); std::min(1, 2); std::max(1, 2); std::swap(*(int*)0, *(int*)0); std::move(1); std::make_pair(1, 2); std::exchange(*(int*)0, 1);
std::numeric_limits<float>::infinity(); std::fill((int*)0, (int*)0, 1); std::malloc(1); std::is_same_v<int, int>; offsetof(dim3, x); new int(3);
(INFINITY); (NAN); (M_PI); (UINT_MAX); (INT_MIN); (LONG_MAX); (CHAR_BIT); (RAND_MAX); (NULL); (CLOCKS_PER_SEC);
size_t *a; int8_t *a; int32_t *a; int64_t *a; u_int32_t *a; ptrdiff_t *a; uint *a; std::size_t *a; std::ptrdiff_t *a; std::pair<int, int> *a; std::tuple<int> *a; std::initializer_list<int> *a;
std::enable_if_t<true> *a; std::iterator_traits<int*> *a; time_t *a; timespec *a;
"""
UNKNOWN = """
printf(""); snprintf((char*)0, 0, ""); puts(""); fopen("", ""); fprintf((FILE*)0, ""); (stderr); (stdout); (EOF); assert(true); new ((void*)0) int(3); (errno);
std::memcpy((void*)0, (void*)0, 0); std::strlen(""); std::printf(""); std::time(0); std::min({1, 2}); std::clamp(1, 1, 1); std::make_tuple(1); std::sort((int*)0, (int*)0); std::to_string(1);
std::make_unique<int>(1); std::size(*(int(*)[3])0); std::plus<int>(); std::tie(*(int*)0); (std::nothrow); std::accumulate((int*)0, (int*)0, 0);
(FLT_MAX); (DBL_MAX); (FLT_EPSILON); (SIZE_MAX); (UINT32_MAX); (INT64_MAX); (UINT64_C(3));
uint8_t *a; uint16_t *a; uint32_t *a; uint64_t *a; uintptr_t *a; std::uint32_t *a; std::int64_t *a; va_list *a; FILE *a; std::vector<int> *a; std::string *a; std::array<int, 3> *a;
std::atomic<int> *a; std::function<void()> *a; std::exception *a; std::optional<int> *a; std::string_view *a; std::complex<float> *a;
"""


def uses(text: str) -> list[str]:
    return [use for line in text.strip().splitlines() for use in line.replace("; ", ";").split(";") if use]


def unknown_uses(source: Path, compile_: Callable[[], subprocess.CompletedProcess[str]], header: str) -> list[str]:
    """Those of KNOWN and UNKNOWN that the compiler does not know, by the lines of its errors."""
    known = uses(KNOWN) + uses(UNKNOWN)
    body = "".join(f"inline void f{number}() {{ {use}; }}\n" for number, use in enumerate(known))
    source.write_text(f"{header}\n#if !defined(__CUDA_ARCH__) || defined(GATES_EMULATOR)\n{body}#endif\n")  # of nvcc its pass for the host
    printed = compile_()
    lines = re.findall(rf"^\S*{source.name}[:(](\d+).*\berror: ", printed.stdout + printed.stderr, re.MULTILINE)
    return [known[number] for number in sorted({int(line) - 3 for line in lines})]


HEADERS = ["", *(f"#include <{name}>" for name in ("cuda_runtime.h", "cuda_fp16.h", "cuda_bf16.h", "mma.h", "vector_types.h"))]


@pytest.mark.parametrize("header", HEADERS)
def test_a_name_of_the_library_needs_its_header_as_with_nvcc(tmp_path: Path, header: str) -> None:
    source, out = tmp_path / "k.cu", tmp_path / "k.cpp"

    def emulated() -> subprocess.CompletedProcess[str]:
        translate(source, out)
        return subprocess.run(["g++", *CXX_FLAGS, "-fpreprocessed", "-fsyntax-only", str(out)], capture_output=True, text=True, check=False)

    assert unknown_uses(source, emulated, header) == uses(UNKNOWN)


@needs_nvcc
def test_these_are_the_names_that_nvcc_knows(tmp_path: Path) -> None:
    source, nvcc = tmp_path / "k.cu", str(find_toolchain().need("nvcc").path)
    argv = [nvcc, "-std=c++17", "-c", str(source), "-o", str(tmp_path / "k.o")]
    assert unknown_uses(source, lambda: subprocess.run(argv, capture_output=True, text=True, check=False), "") == uses(UNKNOWN)


@pytest.mark.parametrize(("header", "use"), [("cuda_pipeline.h", "uint32_t i = UINT32_MAX"), ("cuda_fp8.h", "assert(true)")])
def test_what_a_header_of_cuda_brings_along(tmp_path: Path, header: str, use: str) -> None:
    source = written(tmp_path, f"#include <{header}>\nvoid f() {{ {use}; }}\n")
    compile_library([source], tmp_path / "k.so", work_dir=tmp_path)


def test_command_line_writes_output_and_dependencies(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    written(tmp_path / "inc", "#pragma once\nconstexpr int kN = N;\n", "n.cuh")
    source = written(tmp_path, '#include <cuda_fp16.h>\n#include "n.cuh"\n__global__ void k(half* p) { p[0] = kN; }\n')
    out, dependencies = tmp_path / "k.cpp", tmp_path / "k.d"
    argv = [str(source), "-o", str(out), "--depfile", str(dependencies), "-I", str(tmp_path / "inc"), "-D", "N=3", "-DUNUSED"]
    finished = subprocess.run([sys.executable, "-m", "gates.emulator.translate", *argv], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")
    rule = dependencies.read_text(encoding="utf-8")
    assert rule.startswith(f"{out}:")
    for needed in (source, tmp_path / "inc" / "n.cuh", INCLUDE_DIR / "cuda_fp16.h", "rewrite.py"):
        assert str(needed) in rule
    checked = subprocess.run(["g++", *CXX_FLAGS, "-fsyntax-only", str(out)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_command_line_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "absent.cu"), "-o", str(tmp_path / "o.cpp")]) == 2
    assert "no such source" in capsys.readouterr().err
    source = written(tmp_path, 'void f() { asm("nop"); }\n')
    assert main([str(source), "-o", str(tmp_path / "o.cpp")]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: ") and "hint: " in shown and "GATES_EMULATOR" in shown
    assert not (tmp_path / "o.cpp").exists()


def test_every_unsupported_name_has_a_remedy() -> None:
    for feature, remedy in (*unsupported.IDENTIFIERS.values(), *unsupported.HEADERS.values()):
        assert feature and remedy
    assert unsupported.identifier("__mbarrier_arrive") and not unsupported.identifier("barrier")


def test_a_toggle_may_be_any_letter_that_nvcc_leaves_free(tmp_path: Path) -> None:
    """T and U are parameters of nvcc's own headers."""
    source, out = tmp_path / "k.cu", tmp_path / "k.cpp"
    source.write_text(
        "#include <mma.h>\n#include <cuda_fp8.h>\n#include <cuda_bf16.h>\n#include <cuda_pipeline.h>\n__global__ void k(float* p) { *p = D; }\n"
    )
    translate(source, out, defines={letter: 2 for letter in string.ascii_uppercase if letter not in "TU"})
    done = subprocess.run(["g++", *CXX_FLAGS, "-fpreprocessed", "-fsyntax-only", str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "use",
    [
        'extern "C" void gates_emulator_reset(void); void l() { gates_emulator_reset(); }',
        'extern "C" void gates_emulator_switch(void**, void*) {}',
    ],
)
def test_a_source_leaves_the_emulator_s_records_alone(tmp_path: Path, use: str) -> None:
    """Findings before the last launch would be gone, or launches without a run."""
    with pytest.raises(GatesError, match="k.cu:1: the CPU emulator does not support a source that touches its records"):
        translate(written(tmp_path, use + "\n"), tmp_path / "k.cpp")
