"""Runs an exporter and keeps a list of its threads: `named_threads.py FILE ROLE FLAG...`."""

import json
import sys
import threading
import time
from pathlib import Path

from exporter.__main__ import main


def _keep(file: Path) -> None:
    new = file.with_suffix(".new")
    while True:
        new.write_text(
            json.dumps({thread.name: thread.native_id for thread in threading.enumerate()})
        )
        new.replace(file)
        time.sleep(0.1)


if __name__ == "__main__":
    threading.Thread(target=_keep, args=(Path(sys.argv[1]),), name="list", daemon=True).start()
    sys.exit(main(sys.argv[2:]))
