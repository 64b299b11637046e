"""The secrets of one control plane that lives for one run: tokens, a signing key, a kubeconfig."""

import base64
import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

ADMIN = "admin"
_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def write_tokens(file: Path, users: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Write kube-apiserver's token file (token, user, uid, groups); returns the tokens by user."""
    tokens = {user: secrets.token_hex(16) for user in users}
    rows = [
        f'{tokens[user]},{user},{user},"{",".join(groups)}"\n' for user, groups in users.items()
    ]
    _write_private(file, "".join(rows))
    return tokens


def write_signing_key(file: Path) -> None:
    """Write a new P-256 key as SEC 1 PEM; who reads it computes the public half itself."""
    scalar = (secrets.randbelow(_P256_ORDER - 1) + 1).to_bytes(32, "big")
    version, curve = b"\x02\x01\x01", bytes.fromhex("a00a06082a8648ce3d030107")
    der = b"\x30\x31" + version + b"\x04\x20" + scalar + curve
    text = base64.encodebytes(der).decode()
    label = "EC PRIVATE KEY"
    _write_private(file, f"-----BEGIN {label}-----\n{text}-----END {label}-----\n")


def write_kubeconfig(
    file: Path, server: str, ca_file: Path, tokens: Mapping[str, str], *, current: str = ADMIN
) -> None:
    """Write a kubeconfig (JSON is YAML) with one context per user, `current` the one in force."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "lab", "cluster": {"server": server, "certificate-authority": str(ca_file)}}
        ],
        "users": [{"name": user, "user": {"token": token}} for user, token in tokens.items()],
        "contexts": [
            {"name": user, "context": {"cluster": "lab", "user": user}} for user in tokens
        ],
        "current-context": current,
    }
    _write_private(file, json.dumps(content, indent=1))


def _write_private(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text)
