"""Build the kernels in C (docs/kernels.md). Hatchling calls it on installing; by hand:

    python hatch_build.py

Needs a C compiler and neither torch nor anything else. Where there is no compiler, or it fails, the
package is whole without the library: the PyTorch kernels serve.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent / "src" / "softset" / "counting" / "kernels" / "native"
LIBRARY = FOLDER / "softset_kernels.so"
# Comparisons and sums keep their order; NaN is told by its bits, so that the compiler need not
# think of it. ``omp simd`` is a hint to the compiler: no library.
FLAGS = [
    "-O3",
    "-std=gnu11",
    "-fPIC",
    "-fopenmp-simd",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffinite-math-only",
    "-fno-signed-zeros",
    "-ffp-contract=fast",
]
# The same kernels for each kind of processor; which one runs is decided when they are called.
PLAIN = {"_plain": []}
X86 = {
    **PLAIN,
    "_avx2": ["-mavx2", "-mfma"],
    "_avx512": ["-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma"],
}


def compiler() -> list[str] | None:
    """The C compiler: ``CC``, that of Python, or ``cc``."""
    for named in (os.environ.get("CC"), sysconfig.get_config_var("CC"), "cc"):
        command = shlex.split(named) if named else []
        if command and shutil.which(command[0]):
            return command[:1]
    return None


def build(kinds: dict[str, list[str]]) -> None:
    """Compile for these kinds of processors and link, in place of what was there."""
    cc = compiler()
    if cc is None:
        raise FileNotFoundError("there is no C compiler")
    with tempfile.TemporaryDirectory() as temporary:
        objects = []
        for suffix, flags in kinds.items():
            objects.append(f"{temporary}/kernels{suffix}.o")
            source = [str(FOLDER / "kernels.c"), f"-DSUFFIX={suffix}"]
            _run([*cc, *FLAGS, *flags, "-c", *source, "-o", objects[-1]])
        by_processor = ["-DBY_PROCESSOR"] if len(kinds) > 1 else []
        linked = f"{temporary}/{LIBRARY.name}"
        dispatch = str(FOLDER / "dispatch.c")
        _run([*cc, *FLAGS, *by_processor, "-shared", dispatch, *objects, "-o", linked])
        # Beside it first: a process that uses the old one keeps it.
        beside = LIBRARY.with_suffix(f".{os.getpid()}")
        shutil.copyfile(linked, beside)
        beside.replace(LIBRARY)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")


def build_if_possible() -> bool:
    """Whether there is a library now; what went wrong is said."""
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    problem: Exception | None = None
    for kinds in [X86, PLAIN] if x86 else [PLAIN]:
        try:
            build(kinds)
            return True
        except (OSError, RuntimeError) as error:
            problem = error
    print(f"softset: no kernels in C, those in PyTorch serve: {problem}", file=sys.stderr)
    LIBRARY.unlink(missing_ok=True)  # an old one may not fit
    return False


def _hook() -> type:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface  # noqa: PLC0415

    class KernelsHook(BuildHookInterface):
        """Builds the library into the source tree, and puts it into the wheel."""

        PLUGIN_NAME = "custom"

        def initialize(self, version: str, build_data: dict) -> None:
            """Called before a wheel, or an editable install, is made."""
            if self.target_name != "wheel" or not build_if_possible():
                return
            place = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{place}"
            build_data["artifacts"].append(str(LIBRARY.relative_to(Path(self.root))))

    return KernelsHook


def get_build_hook() -> type:
    """What hatchling asks for."""
    return _hook()


if __name__ == "__main__":
    sys.exit(0 if build_if_possible() else 1)
