"""Debian's packages into files of a root: only those that `debian.txt` names.

No package is installed: no script of one runs, and there is no database of installed ones. Scanners
read `var/lib/dpkg/status.d`, where each package has its description, as in other small images.
"""

import io
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from deploy.image.contents import Debian

_MERGED = ("bin", "lib", "lib64", "sbin")
"""Folders that are links to those in usr; packages have files in both."""
_CERTIFICATES = "usr/share/ca-certificates"
_SECONDS = 600


class DebianError(Exception):
    """The files could not be got; the message says which and why."""


def lay_out(packages: Sequence[Debian], architecture: str, root: Path) -> None:
    """Write the files of packages below `root`. Raises DebianError."""
    root.mkdir(parents=True, exist_ok=True)
    for name in _MERGED:
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    with tempfile.TemporaryDirectory(prefix="debian-") as temporary:
        archives = _fetched([package.name for package in packages], architecture, Path(temporary))
        for package in packages:
            _unpack(package, archives[package.name], root)
    _merge_certificates(root)
    _write_empty_cache(root)


def _fetched(names: Sequence[str], architecture: str, folder: Path) -> dict[str, Path]:
    """Download packages by the sources of this machine, also for another architecture."""
    (folder / "lists" / "partial").mkdir(parents=True)
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "root",  # the folder is its own
        "Dir::State::Lists": folder / "lists",
        "Dir::State::status": "/dev/null",
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "Acquire::Retries": 3,
        # Otherwise a mirror that does not answer is a warning, and older files are taken.
        "APT::Update::Error-Mode": "any",
    }
    options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
    for words in (["update"], ["download", *names]):
        run("apt-get", "--quiet", *options, *words, folder=folder)
    found = {path.name.partition("_")[0]: path for path in folder.glob("*.deb")}
    if missing := sorted({*names} - {*found}):
        raise DebianError(f"apt-get did not download {' '.join(missing)}")
    return found


def _unpack(package: Debian, archive: Path, root: Path) -> None:
    folder = f"usr/share/doc/{package.name}"
    licence = {folder, f"{folder}/copyright"}  # or a link to the folder of one that has the same
    unmatched = {*package.files}
    with tarfile.open(fileobj=io.BytesIO(run("dpkg-deb", "--fsys-tarfile", archive))) as packed:
        for member in packed:
            name = _merged(member.name.removeprefix("./"))
            matching = {pattern for pattern in package.files if matches(name, pattern)}
            unmatched -= matching
            if name in licence or (
                matching and not any(matches(name, pattern) for pattern in package.left_out)
            ):
                _write(packed, member, root, name)
    if unmatched:
        raise DebianError(f"{archive.name} has no {' '.join(sorted(unmatched))}: see debian.txt")
    described = root / "var" / "lib" / "dpkg" / "status.d" / package.name
    described.parent.mkdir(parents=True, exist_ok=True)
    described.write_bytes(run("dpkg-deb", "--field", archive))


def _merged(name: str) -> str:
    return f"usr/{name}" if name.partition("/")[0] in _MERGED else name


def matches(name: str, pattern: str) -> bool:
    """Whether a line of `debian.txt` means a file, by its path without the first slash."""
    return name.startswith(pattern) if pattern.endswith("/") else fnmatchcase(name, pattern)


def _write(packed: tarfile.TarFile, member: tarfile.TarInfo, root: Path, name: str) -> None:
    to = root / name
    if member.isdir():
        return
    to.parent.mkdir(parents=True, exist_ok=True)
    if member.issym():
        to.symlink_to(member.linkname)
    elif member.islnk():
        shutil.copy(root / _merged(member.linkname.removeprefix("./")), to)
    elif content := packed.extractfile(member):
        to.write_bytes(content.read())
        to.chmod(member.mode)


def _merge_certificates(root: Path) -> None:
    """Write the one file that programs read, as Debian's script of that package does."""
    merged = root / "etc" / "ssl" / "certs" / "ca-certificates.crt"
    merged.parent.mkdir(parents=True, exist_ok=True)
    paths = sorted((root / _CERTIFICATES).rglob("*.crt"))
    texts = [path.read_text(encoding="utf-8").rstrip("\n") + "\n" for path in paths]
    merged.write_text("".join(texts), encoding="utf-8")
    shutil.rmtree(root / _CERTIFICATES)


def _write_empty_cache(root: Path) -> None:
    """Write a list of libraries that names none.

    Our libraries are found without. NVIDIA's older container runtimes add the driver's only where
    there is a list.
    """
    with tempfile.TemporaryDirectory(prefix="cache-") as folder:
        (Path(folder) / "etc").mkdir()
        (Path(folder) / "etc" / "ld.so.conf").touch()
        run("/sbin/ldconfig", "-r", folder)
        shutil.copyfile(Path(folder) / "etc" / "ld.so.cache", root / "etc" / "ld.so.cache")


def run(*command: str | Path, folder: Path | None = None) -> bytes:
    """Return what a program printed. Raises DebianError."""
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=_SECONDS)
    if done.returncode:
        words = (done.stdout + done.stderr)[-2000:].decode(errors="replace")
        raise DebianError(f"{command[0]} ended with {done.returncode}: {words}")
    return done.stdout
