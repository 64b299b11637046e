"""How far a Go build is and how long it still takes here, from what it has compiled so far.

`go build -v` names each package when it begins to compile it, after all that the package imports.
It passes over those that are in Go's cache. A package takes longer the larger it is, and the more
packages it builds on; the first ones that are compiled are small in both. Pure.
"""

from collections.abc import Mapping

import msgspec

FIRST = 100
"""Compiled packages after which the time that is left is stated."""
TEMPLATE = '{{.ImportPath}}\t{{.Dir}}\t{{join .GoFiles " "}}\t{{len .Deps}}\t{{join .Imports " "}}'
"""What `go list -deps -f` prints of each package, for `listed`."""
START_COST, PACKAGE_COST = 15_000, 400
"""What a compiler's start takes, and each package that the compiled one builds on, as bytes of
source that compile in the same time: measured over all packages of the control plane."""


class Package(msgspec.Struct, frozen=True):
    """What is known of a package before it is compiled."""

    files: tuple[str, ...] = ()
    builds_on: int = 0
    """Packages that it imports, and that those import."""
    imports: tuple[str, ...] = ()


def listed(output: str) -> Mapping[str, Package]:
    """Return packages by import path from the lines of TEMPLATE."""
    packages: dict[str, Package] = {}
    for line in output.splitlines():
        path, folder, files, builds_on, imports = line.split("\t")
        names = tuple(f"{folder}/{name}" for name in files.split())
        packages[path] = Package(names, int(builds_on), tuple(imports.split()))
    return packages


class Forecast:
    """Give it each line that Go prints, and ask for words."""

    def __init__(self, packages: Mapping[str, Package], sizes: Mapping[str, int]) -> None:
        """`sizes` are bytes of source, by package; no packages while they are not known."""
        self._packages = packages
        self._costs = {
            name: START_COST + PACKAGE_COST * package.builds_on + sizes.get(name, 0)
            for name, package in packages.items()
        }
        self._left = sum(self._costs.values())
        self._there: set[str] = set()
        self._compiled = 0
        self._cost = 0
        self._began = 0.0
        self._fetched = 0

    def read(self, line: str, now: float) -> None:
        """Count a module that is fetched, or a package that begins.

        What a package imports is there when it begins, compiled or from Go's cache.
        """
        self._fetched += line.startswith("go: downloading ")
        if line not in self._packages:
            return
        if not self._compiled:
            self._began = now
        self._compiled += 1
        self._cost += self._costs[line]
        waiting = [line]
        while waiting:
            name = waiting.pop()
            if name in self._packages and name not in self._there:
                self._there.add(name)
                self._left -= self._costs[name]
                waiting.extend(self._packages[name].imports)

    def words(self, now: float) -> str:
        """Say how many packages are there and, after the first hundred, how long the rest takes."""
        if not self._packages:
            return f"{self._fetched} modules fetched"
        counted = f"{len(self._there):,} of {len(self._packages):,} packages"
        if self._compiled < FIRST:
            return counted
        seconds = (now - self._began) * self._left / self._cost
        minutes = round(seconds / 60)
        return f"{counted}, {f'about {minutes} min' if minutes else 'less than a minute'} left"
