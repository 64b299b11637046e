"""`draguard bundle`: what a bug report needs, in one file and without secrets."""

import argparse
import importlib
import io
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from importlib import metadata
from pathlib import Path

from draguard.bundle.archive import MANIFEST, Archive, Entry
from draguard.bundle.collect import Collector, Ran, learned
from draguard.bundle.pseudonyms import Pseudonyms
from draguard.command_table import COMMANDS
from draguard.connection.cluster_flags import add_cluster_flags
from draguard.connection.progress import Progress
from draguard.connection.session import print_error, run_with_client, secrets_of, sharing
from draguard.exit_status import DONE, NO_ACCESS, PROBLEM
from draguard.phrases import count, stamp
from draguard.render.blocks import Facts, Table
from draguard.render.formats import print_result
from draguard.render.help_text import Example, teaching
from kubeapi import clock
from kubeapi.client import Client

EXAMPLES = (
    Example("draguard bundle", "a file in this folder, named by the time"),
    Example("draguard bundle -o ticket-4711.tar.gz", "under a name of your own"),
    Example("draguard bundle --pseudonyms", "without the names of users' pods"),
)


def parser() -> argparse.ArgumentParser:
    taught = teaching(
        "bundle",
        "Write a support bundle: versions, status, doctor, plan, incidents, taint rules, node\n"
        "reports, the policy, Leases, Draguard's pods with their events and logs, and their pages\n"
        "of metrics. Read with your rights; what you may not read is named in manifest.txt.",
        EXAMPLES,
        more="Tokens, passwords, private keys and values of environment variables are left out.\n"
        "Names of pods and namespaces stay, unless you add --pseudonyms. Read the files before\n"
        "you send them.",
    )
    taught.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: draguard-bundle-TIME.tar.gz"
    )
    taught.add_argument(
        "--pseudonyms",
        action="store_true",
        help="replace names of users' pods, claims and namespaces; leaves logs and metrics out",
    )
    add_cluster_flags(taught)
    taught.usage = f"{taught.prog} [FLAGS]"
    return taught


def main(arguments: Sequence[str]) -> int:
    """Return 0 if the bundle is written; 1 if the file cannot be; 2 without access."""
    options = parser().parse_args(arguments)
    return run_with_client("bundle", options, lambda client: _bundle(client, options))


def _bundle(client: Client, options: argparse.Namespace) -> int:
    at = clock.now()
    folder = f"draguard-bundle-{at:%Y%m%dT%H%M%SZ}"
    file: Path = options.output or Path(f"{folder}.tar.gz")
    pseudonyms = Pseudonyms({options.namespace}) if options.pseudonyms else None
    if pseudonyms is not None:
        learned(client, pseudonyms)
    unfinished: Path | None = None
    try:
        # Beside the file, because it is renamed to it; only its owner may read it.
        with tempfile.NamedTemporaryFile(
            dir=file.parent, prefix=f".{file.name}.", delete=False
        ) as written:
            unfinished = Path(written.name)
            secrets = secrets_of(client.endpoint)
            archive = Archive(written, folder, at, secrets=secrets, pseudonyms=pseudonyms)
            entries = _collected(client, options, archive, at=stamp(at))
        if all(entry.missing for entry in entries):
            print_error("bundle", f"nothing could be read: {entries[0].note}")
            return NO_ACCESS
        unfinished.replace(file)
    except OSError as error:
        print_error("bundle", f"{file} cannot be written: {error.strerror or error}")
        return PROBLEM
    finally:
        if unfinished is not None:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
    _say(file, entries)
    return DONE


def _collected(
    client: Client, options: argparse.Namespace, archive: Archive, *, at: str
) -> list[Entry]:
    def run(words: Sequence[str]) -> Ran:
        """Run another command with the same client, and take what it prints."""
        row = COMMANDS[words[0]]
        arguments = (*words[1:], "-n", options.namespace)
        out, err = io.StringIO(), io.StringIO()
        with sharing(client), redirect_stdout(out), redirect_stderr(err):
            status = getattr(importlib.import_module(row.module), row.function)(arguments)
        return Ran(status, out.getvalue(), err.getvalue())

    with Progress() as progress:
        collector = Collector(client, options.namespace, archive, says=progress.says, run=run)
        collector.collect(timeout=options.request_timeout, names=not options.pseudonyms)
    entries = [*archive.entries]
    archive.close(
        (
            ("time", at),
            ("client", f"draguard {metadata.version('draguard')}"),
            ("server", client.endpoint.server),
            ("namespace", options.namespace),
            ("names", "pseudonyms" if options.pseudonyms else "as they are"),
        )
    )
    return entries


def _say(file: Path, entries: Sequence[Entry]) -> None:
    here = [entry for entry in entries if not entry.missing]
    missing = [entry for entry in entries if entry.missing]
    what = f"{count(len(here), 'file', 'files')}, {file.stat().st_size:,} bytes"
    facts = Facts((("written", f"{file}: {what}"), ("contents", f"{MANIFEST} in it")))
    rows = tuple((entry.file, entry.note) for entry in missing)
    table = Table(("MISSING", "WHY"), rows)
    print_result((), "text", lambda: (facts, table), "Bundle")
    sys.stdout.flush()
