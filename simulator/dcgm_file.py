"""The file of what is DCGM's own: engines and their outages, overrides, incidents.

    [engine]                        # the one inside the client's process
    version = 4.6.0
    failure = hung on dcgmWatchFields
    profiling = 1001 1002 1004      # or none
    first_sample = read             # blank: N/A first; late: with the next update
    xid_119 = stops                 # or ignored
    driver_calls = made             # stopped: every field is blank
    links = refused                 # or listed, as a newer DCGM may do
    nvswitch = there                # missing: no module that lists switches
    cpu_hierarchy = v2              # v1: an engine that knows no serials

    [listen 127.0.0.1:5555]         # a stand-alone engine, or a socket's path
    failure = dead
    started = 2                     # changes with each restart
    since_event = 0                 # later events of the scenario are its history

    [gpu 0]
    status = detached
    attached = 1                    # changes when it was unbound and bound again
    profiling = none
    field 449 = 12                  # or blank, not_found, not_supported, error=-8

    [gi 0/7]                        # NVML's id of the GPU instance; [ci 0/7] its
    id = 3                          # compute instance; id is DCGM's own
    field 1001 = 0.42

    [link 0/3]                      # an NVLink of a GPU
    field 580 = 1

    [switch 0]                      # an NVSwitch; without such a section there is none
    links = 64                      # its NVLinks
    field 858 = 45

    [switch_link 0/3]
    state = down                    # or up
    field 780 = 12

    [cpu 0]                         # a CPU of NVIDIA's; without, the module is not loaded
    first_core = 0
    cores = 72
    serial = 0x1A
    field 1110 = 47.5

    [core 5]
    field 1100 = 0.25

    [health]
    incident 1 = gpu=0 gi=7 system=memory health=warn code=4 text=any words
    all_gpus = 2                    # another client keeps the group of all GPUs at this mask
    taken = 1                       # and has cleared the masks of all others so many times

`dcgm/parse.c` and `words.c` read it; a mistake is reported as `file:line: what is wrong`
by the library, which keeps the last good version.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from simulator import replaced_file

Sections = dict[str, dict[str, str]]
"""Settings by section name, both in the order of the file."""


Value = float | str
"""A field's value, or `blank`, `not_found`, `not_supported`, `not_permitted`, `error=-8`."""
Fields = Mapping[int, Value]
"""What an entity says, by field."""


class DcgmFaultError(Exception):
    """Something that cannot be simulated; the message says what to ask for."""


def render(sections: Sections) -> str:
    """Write sections as text; empty ones are kept, because a listener may say nothing."""
    blocks = (
        "\n".join((f"[{name}]", *(f"{key} = {value}" for key, value in settings.items())))
        for name, settings in sections.items()
    )
    return "\n\n".join((*blocks, ""))


def parse(text: str) -> Sections:
    """Read what `render` wrote; comments and lines that say nothing are dropped."""
    sections: Sections = {}
    settings: dict[str, str] = {}
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            settings = sections.setdefault(line[1:-1].strip(), {})
        elif not line.startswith("#") and "=" in line:
            key, _, value = line.partition("=")
            settings[key.strip()] = value.strip()
    return sections


class DcgmFile:
    """The `dcgm.ini` of a node; several processes may edit it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> Sections:
        """Read the file; a missing file has no sections."""
        if not self.path.exists():
            return {}
        return parse(self.path.read_text(encoding="utf-8"))

    def save_text(self, text: str) -> None:
        """Replace it at once with any text, valid or not."""
        replaced_file.replace(self.path, text)

    @contextmanager
    def edit(self) -> Generator[Sections]:
        """Give the sections to be changed, and save them when the block ends well."""
        with replaced_file.locked(self.path):
            sections = self.load()
            yield sections
            self.save_text(render(sections))

    def set(self, section: str, key: str, value: str) -> None:
        """Change one setting."""
        with self.edit() as sections:
            sections.setdefault(section, {})[key] = value
