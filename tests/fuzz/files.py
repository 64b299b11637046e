"""What operators write: the counters file and the web configuration."""

from pathlib import Path
from random import Random
from typing import get_args

from exporter.metrics import counters, fields
from exporter.metrics.counters import CountersError, CounterType
from serving import web_config
from serving.web_config import WebConfigError
from tests.fuzz import hostile
from tests.fuzz.target import Target, demand

COUNTERS = (
    b"# Format",
    b"# If line starts with a '#' it is considered a comment",
    b"DCGM_FI_DEV_SM_CLOCK, gauge, SM clock frequency (in MHz).",
    b"DCGM_FI_DEV_GPU_TEMP, gauge, GPU temperature (in C).",
    b'DCGM_FI_DEV_POWER_USAGE,gauge,"Power draw, in W."',
    b"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION, counter, Total energy (in mJ).",
    b"DCGM_FI_DEV_XID_ERRORS, gauge, Value of the last XID error encountered.",
    b"DCGM_FI_DRIVER_VERSION, label, Driver Version",
    b"DCGM_FI_DEV_SERIAL, label, Serial",
    b"DCGM_EXP_XID_ERRORS_COUNT, gauge, Count of XID errors in the window",
    b"DCGM_EXP_P2P_STATUS, gauge, Link to the peer",
    b"DCGM_FI_PROF_GR_ENGINE_ACTIVE, summary, Ratio of time",
    b"  ",
    b"",
)
_REASONS = get_args(counters.Reason)


def make_counters(random: Random) -> bytes:
    lines = random.choices(COUNTERS, k=random.randrange(8))
    changed = [hostile.mutated(random, line, 2, COUNTERS) for line in lines]
    end = random.choice((b"\n", b"\n", b"\r\n", b"\r"))
    return random.choice((b"", b"", b"\xef\xbb\xbf")) + end.join(
        changed if random.randrange(2) else lines
    )


def check_counters(raw: bytes) -> None:
    try:
        found = counters.parse(raw, "counters.csv")
    except CountersError as error:
        demand(error.reason in _REASONS and "counters.csv" in str(error), "a refusal", error)
        return
    text = raw.decode("utf-8-sig")
    rows = (*found.metrics, *found.labels)
    demand(rows or not found.left_out, "rows that are left out, and no good one", found)
    demand(sum(found.left_out.values()) <= text.count("\n") + text.count("\r") + 1, "rows", found)
    demand(len(found.notes) >= min(1, len(found.left_out)), "left out without a word", found)
    names = [row.name for row in rows]
    demand(len(names) == len(set(names)), "a row twice", names)
    for row in rows:
        demand(row.name in text and fields.by_name(row.name) == row.field, "a field", row)
        demand(row.type in get_args(CounterType) and "\n" not in row.help, "a row", row)
        demand((row.type == "label") == (row in found.labels), "on the wrong side", row)
    requested = {row.field.id for row in rows if not row.field.computed}
    demand(requested <= set(found.requested), "a field that was not requested", found.requested)


_HASH = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"
CONFIGS = (
    b"tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n",
    b"tls_server_config:\n  cert_file: a.crt\n  key_file: a.key\n  client_ca_file: ca.crt\n"
    b"  client_auth_type: RequireAndVerifyClientCert\n  client_allowed_sans: [prometheus]\n"
    b"  min_version: TLS12\n  max_version: TLS13\n"
    b"  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]\n",
    b"http_server_config:\n  http2: true\n  headers:\n    X-Frame-Options: deny\n"
    b"    Strict-Transport-Security: max-age=31536000\n",
    f"basic_auth_users:\n  alice: {_HASH}\n  'bob b': \"{_HASH}\"\n".encode(),
    b"{}",
    b"a: &a [*a]\nb: !!binary aGVsbG8=\nc: 2026-01-05\nd: 1:30\ne: .nan\nf: 0o17\n",
    b"!!timestamp x",
    b"!!int ''",
    b"!!bool maybe",
    b"!!float ''",
    b"!!set {a, b}",
    b"? [a]\n: b\n",
    b"<<: {a: 1}",
    b"=: x",
    b"--- a\n--- b\n",
    b'"\\x00\\ud800\\U00110000"',
)
_TOKEN = set("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def make_web_config(random: Random) -> bytes:
    parts = random.choices(CONFIGS, k=random.choice((1, 1, 2)))
    raw = hostile.mutated(random, b"".join(parts), 4, CONFIGS)
    return b"[" * 400 + raw if random.randrange(500) == 0 else raw


def check_web_config(raw: bytes) -> None:
    text = raw.decode("utf-8", "replace")
    try:
        found = web_config.parse(text, Path("/etc/draguard/web.yml"))
    except WebConfigError as error:
        demand("/etc/draguard/web.yml" in str(error), "a refusal without its file", error)
        return
    for name, value in found.http_server_config.headers.items():
        demand(name and set(name) <= _TOKEN, "a header that no client could read", name)
        demand(value.isascii() and value.isprintable(), "a header's value", value)
    for digest in found.basic_auth_users.values():
        demand(digest.startswith("$2") and len(digest.encode()) == 60, "no bcrypt hash", digest)
    tls = found.tls_server_config
    if tls is not None:
        demand(tls.cert_file.startswith("/") and tls.key_file.startswith("/"), "a path", tls)
        demand("\0" not in tls.cert_file + tls.key_file + tls.client_ca_file, "no path", tls)
        verified = tls.client_auth_type in ("RequireAndVerifyClientCert", "VerifyClientCertIfGiven")
        demand(verified == bool(tls.client_ca_file), "who is let in", tls)


TARGETS = (
    Target("counters-file", 40, make_counters, check_counters),
    Target("web-config", 22, make_web_config, check_web_config),
)
