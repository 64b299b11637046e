"""What the EKS API takes, as JSON Schema: the service model in botocore, AWS's client for Python.

The package comes from PyPI once, at its pinned hash, and is only read.
"""

import fcntl
import gzip
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from simulator.cluster.build import cache_folder, to_stderr
from simulator.cluster.toolchain import Say
from simulator.compiler import BuildError

Json = dict[str, Any]
REQUIREMENTS = Path(__file__).parent / "eks" / "requirements.txt"
_MODEL = "botocore/data/eks/*/service-2.json.gz"
_SECONDS = 300.0
_LIMITS = {"min": "minimum", "max": "maximum"}


def install(say: Say = to_stderr) -> Path:
    """Return the folder with the package. Raises BuildError."""
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"eks-api-{hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]}"
    with (cache / "eks-api.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            say(f"installing the model of the EKS API from PyPI, kept in {folder}")
            with tempfile.TemporaryDirectory(dir=cache, prefix="installing-") as temporary:
                fresh = Path(temporary) / "package"
                _install(fresh)
                fresh.rename(folder)
    return folder


def _install(folder: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "uv", "pip", "install", "--system-certs", "--quiet"),
            *("--no-deps", "--require-hashes", "--target", str(folder), "-r", str(REQUIREMENTS)),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
    if done.returncode:
        raise BuildError(f"installing botocore failed; it needs PyPI:\n{done.stderr[-1000:]}")


def schema(shape: str) -> Json:
    """Return the schema of a shape, such as `NodeRepairConfig`. Raises BuildError."""
    (file,) = install().glob(_MODEL)
    shapes = msgspec.json.decode(gzip.decompress(file.read_bytes()), type=Json)["shapes"]
    return _schema(shapes, shape)


def _schema(shapes: Mapping[str, Json], name: str) -> Json:
    shape = shapes[name]
    match shape["type"]:
        case "structure":
            return {
                "type": "object",
                "required": shape.get("required", []),
                "additionalProperties": False,
                "properties": {
                    key: _schema(shapes, member["shape"])
                    for key, member in shape["members"].items()
                },
            }
        case "list":
            return {"type": "array", "items": _schema(shapes, shape["member"]["shape"])}
        case "string":
            return {"type": "string", **({"enum": shape["enum"]} if "enum" in shape else {})}
        case "integer" | "boolean" as kind:
            limits = {word: shape[key] for key, word in _LIMITS.items() if key in shape}
            return {"type": kind, **limits}
        case other:
            raise AssertionError(f"{name}: no shape of type {other} was needed yet")
