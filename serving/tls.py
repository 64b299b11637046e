"""The one door to TLS: a web configuration into a way to secure a connection."""

import socket
import ssl

from serving.message import Insecure, Take
from serving.web_config import Tls, WebConfigError

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CLIENTS = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_CIPHERS = {
    f"TLS_ECDHE_{key}_WITH_{go}": f"ECDHE-{key}-{openssl}"
    for key in ("RSA", "ECDSA")
    for go, openssl in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
        ("CHACHA20_POLY1305", "CHACHA20-POLY1305"),
        ("AES_128_CBC_SHA256", "AES128-SHA256"),
    )
}
"""Go's names of TLS 1.2 suites to OpenSSL's; those of TLS 1.3 cannot be chosen, as in Go."""


class Securing:
    """Turns accepted connections into TLS ones."""

    def __init__(self, tls: Tls) -> None:
        """Load certificates; raises WebConfigError naming the file."""
        self._sans = frozenset(tls.client_allowed_sans)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = _VERSIONS[tls.min_version]
        self._context.maximum_version = _VERSIONS[tls.max_version]
        self._context.verify_mode = _CLIENTS[tls.client_auth_type]
        try:
            self._context.load_cert_chain(tls.cert_file, tls.key_file)
            if tls.client_ca_file:
                self._context.load_verify_locations(tls.client_ca_file)
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(filter(None, (tls.cert_file, tls.key_file, tls.client_ca_file)))
            raise WebConfigError(f"the certificates {files} cannot be used: {error}") from error
        if tls.cipher_suites:
            self._context.set_ciphers(":".join(_ciphers(tls.cipher_suites)))

    def secure(self, stream: socket.socket, take: Take) -> None:
        """Shake hands, within the socket's timeout; raises Insecure. The stream goes over."""
        try:
            secured = self._context.wrap_socket(
                stream, server_side=True, do_handshake_on_connect=False
            )
            # First: the stream is no more, and a client that says nothing must be let go.
            take(secured)
            secured.do_handshake()
        except (OSError, ssl.SSLError) as error:
            raise Insecure(str(error)) from error
        if not self._sans:
            return
        certificate = secured.getpeercert() or {}
        alternatives = certificate.get("subjectAltName", ())
        names = {str(pair[1]) for pair in alternatives if isinstance(pair, tuple)}
        if not self._sans & names:
            raise Insecure("the client's certificate has none of client_allowed_sans")


def _ciphers(names: tuple[str, ...]) -> list[str]:
    # Those of TLS 1.3 have no _WITH_ in their names.
    desired = [name for name in names if not name.startswith("TLS_") or "_WITH_" in name]
    unknown = [name for name in desired if name not in _CIPHERS]
    if unknown:
        raise WebConfigError(
            f"cipher_suites: {', '.join(unknown)} not known here; use some of "
            f"{', '.join(sorted(_CIPHERS))}"
        )
    return [_CIPHERS[name] for name in desired] or ["DEFAULT"]
