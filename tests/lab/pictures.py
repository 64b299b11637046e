"""`python -m tests.lab.pictures`: draw the pictures of the documents anew, in some ten minutes.

A played cluster of 24 GPUs loses one of them in the last of six hours. What Grafana's own
components make of the project's dashboards then goes to `docs/pictures/`. Each picture has the
digest of the JSON that it was drawn from, in a text chunk (https://www.w3.org/TR/png-3/#11tEXt).
"""

import hashlib
import struct
import sys
import zlib
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from dashboards.catalogue import BOARDS, CLAIM, DEVICE, FLEET, NODE, REMEDIATION
from kubeapi.client import Client
from simulator.cluster.build import build, to_stderr
from simulator.cluster.controlplane import ControlPlane
from simulator.cluster.nodes import NodePlayer
from tests.chain.conftest import install as install_crds
from tests.lab import prometheus
from tests.lab.browser.install import Installed, install, shrink
from tests.lab.cluster import Cluster, install_classes
from tests.lab.pictures_cluster import played
from tests.lab.pictures_gallery import DASHBOARDS, Gallery, gallery
from tests.lab.pictures_story import SIX_HOURS, Story, play

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
NAMES = {board.uid: board.uid.removeprefix("draguard-") for board in BOARDS}
"""Of the files, by uid."""
_HEAD_END = 33
"""Bytes of PNG's signature and of the chunk that is always the first."""
_KEY = b"Dashboard-SHA256\0"


def main() -> int:
    """Write every picture; returns the exit status."""
    installed = install()
    programs = build(recipe=prometheus.RECIPE)
    story = _story()
    with TemporaryDirectory() as folder:
        to_stderr("drawing")
        with gallery(story, installed, programs, Path(folder)) as one:
            files = draw(one, installed, PICTURES)
    for file in files:
        to_stderr(f"{file.relative_to(PICTURES.parents[1])}: {file.stat().st_size >> 10} KiB")
    return 0


def draw(shown: Gallery, installed: Installed, folder: Path) -> list[Path]:
    """Write a picture of each dashboard as it is at the end of the story."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {uid: folder / f"{name}.png" for uid, name in NAMES.items()}
    for uid, variables in _shown(shown).items():
        with shown.browser.dashboard(uid, shown.end, "now-6h", **variables) as drawn:
            drawn.picture(files[uid])
    shrink(installed, list(files.values()))
    for uid, file in files.items():
        file.write_bytes(with_digest(file.read_bytes(), digest_of(uid)))
    return list(files.values())


def digest_of(uid: str) -> bytes:
    """Return the digest of a dashboard's JSON."""
    body = (DASHBOARDS / f"{uid}.json").read_bytes()
    return hashlib.sha256(body).hexdigest().encode()


def with_digest(picture: bytes, digest: bytes) -> bytes:
    """Return a picture of which `digest_in` returns this digest."""
    text = b"tEXt" + _KEY + digest
    chunk = struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text))
    return picture[:_HEAD_END] + chunk + picture[_HEAD_END:]


def digest_in(picture: bytes) -> bytes:
    """Return what `with_digest` wrote, nothing where the picture has no digest."""
    place = _HEAD_END + 8 + len(_KEY)
    return picture[place : place + 64] if picture[place - len(_KEY) : place] == _KEY else b""


def _shown(shown: Gallery) -> dict[str, dict[str, str]]:
    """Return what each dashboard is opened for: where the GPU was lost, and who had it."""
    node, _, number = shown.story.victim.partition("/")
    (info,) = shown.prometheus.query(
        f'max by (UUID) (draguard_gpu_info{{Hostname="{node}", minor="{number}"}})'
    )
    return {
        FLEET.uid: {},
        NODE.uid: {"node": node},
        DEVICE.uid: {"node": node, "uuid": info["metric"]["UUID"]},
        CLAIM.uid: {"namespace": "serving"},
        REMEDIATION.uid: {},
    }


def _story() -> Story:
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane())
        client = Client(plane.endpoint())
        stack.callback(client.close)
        install_classes(client)
        install_crds(plane, client)
        player = NodePlayer(client)
        player.start()
        stack.callback(player.stop)
        with played(Cluster(plane, client, player)) as cluster:
            return play(cluster, SIX_HOURS, to_stderr)


if __name__ == "__main__":
    sys.exit(main())
