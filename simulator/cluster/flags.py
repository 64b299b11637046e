"""The command lines of the control plane's processes. Pure: paths and ports in, arguments out."""

from pathlib import Path

import msgspec

CONTROLLERS = (
    "resourceclaim-controller",
    "device-taint-eviction-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "deployment-controller",
    "replicaset-controller",
    "job-controller",
)
"""No node lifecycle controller: nodes here have no kubelet that would renew their Leases."""


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Where the files of one control plane lie and which ports it has."""

    programs: Path
    folder: Path
    etcd_port: int
    peer_port: int
    api_port: int

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.api_port}"

    @property
    def tokens(self) -> Path:
        return self.folder / "tokens.csv"

    @property
    def signing_key(self) -> Path:
        return self.folder / "service-account.key"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def certificates(self) -> Path:
        return self.folder / "certificates"

    @property
    def ca_file(self) -> Path:
        """The certificate that the apiserver makes for itself at its start."""
        return self.certificates / "apiserver.crt"


def etcd(at: Layout, *, fsync: bool) -> list[str]:
    """Return etcd's command; without fsync a machine crash loses data, which tests accept."""
    client = f"http://127.0.0.1:{at.etcd_port}"
    peer = f"http://127.0.0.1:{at.peer_port}"
    return [
        str(at.programs / "etcd"),
        f"--data-dir={at.folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--log-level=warn",
        *([] if fsync else ["--unsafe-no-fsync"]),
    ]


def apiserver(at: Layout) -> list[str]:
    return [
        str(at.programs / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{at.etcd_port}",
        "--bind-address=127.0.0.1",
        f"--secure-port={at.api_port}",
        f"--cert-dir={at.certificates}",
        f"--token-auth-file={at.tokens}",
        "--authorization-mode=RBAC,Node",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={at.signing_key}",
        f"--service-account-key-file={at.signing_key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        # Pods need no token here, and the controller that makes default accounts may lag behind.
        "--disable-admission-plugins=ServiceAccount",
    ]


def controller_manager(at: Layout) -> list[str]:
    return [
        str(at.programs / "kube-controller-manager"),
        f"--kubeconfig={at.kubeconfig}",
        f"--controllers={','.join(CONTROLLERS)}",
        "--leader-elect=false",
        "--secure-port=0",
    ]


def scheduler(at: Layout) -> list[str]:
    return [
        str(at.programs / "kube-scheduler"),
        f"--kubeconfig={at.kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
    ]
