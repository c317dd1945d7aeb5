"""Builds a wheel for each platform, with the server inside.

    wheels.py DIRECTORY VERSION [GOOS/GOARCH ...]

It needs Go, and setuptools and wheel of Python; no network beyond Go's modules.
"""

import contextlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
#: The tags of the platforms. The server is static; Go 1.26 needs macOS 12.
TAGS = {
    "linux/amd64": "manylinux2014_x86_64", "linux/arm64": "manylinux2014_aarch64",
    "darwin/amd64": "macosx_12_0_x86_64", "darwin/arm64": "macosx_12_0_arm64", "windows/amd64": "win_amd64",
}


def wheel(out: pathlib.Path, version: str, platform: str) -> str:
    """Builds one wheel and returns its name."""
    from setuptools import build_meta

    system, processor = platform.split("/")
    with tempfile.TemporaryDirectory() as work:
        package = pathlib.Path(work, "python")
        shutil.copytree(ROOT / "clients" / "python", package, ignore=shutil.ignore_patterns("__pycache__", "build", "tests", "*.egg-info"))
        program = package / "hindsight" / "_bin" / ("hindsight-server" + ".exe" * (system == "windows"))
        build = [
            os.environ.get("GO", "go"), "build", "-tags", "grpcnotrace", "-trimpath", "-gcflags=all=-dwarf=false", "-ldflags", f"-s -w -X main.version={version}", "-o", str(program), "./cmd/server",
        ]
        subprocess.run(build, cwd=ROOT, check=True, env=os.environ | {"CGO_ENABLED": "0", "GOOS": system, "GOARCH": processor})
        os.chdir(package)
        with contextlib.redirect_stdout(io.StringIO()):
            name = build_meta.build_wheel(str(out), {"--build-option": ["--plat-name", TAGS[platform]]})
        os.chdir(ROOT)
    return str(name)


def main(directory: str, version: str, *platforms: str) -> None:
    out = pathlib.Path(directory).resolve()
    out.mkdir(parents=True, exist_ok=True)
    if unknown := [p for p in platforms if p not in TAGS]:
        sys.exit(f"wheels.py: no platform {unknown[0]}, want some of {' '.join(TAGS)}")
    for platform in platforms or TAGS:
        print(out / wheel(out, version, platform))


main(*sys.argv[1:])
