"""A selector of labels, as kubectl's -l, into the nodes that have these labels."""

import argparse

from draguard.cluster.listing import listed
from kubeapi.client import METADATA_LIST, ApiError, Client
from kubeapi.resources import NODES
from remediator.model.node import RawNode

_BAD_REQUEST = 400


class NoNodeError(Exception):
    """No node has the labels; the message says so."""


def add_selector_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-l",
        "--selector",
        default="",
        metavar="LABELS",
        help="only on nodes with these labels, such as pool=h100",
    )


def selected_nodes(client: Client, selector: str) -> frozenset[str]:
    """Return the names. Raises ApiError, NoNodeError: a mistyped label must not look healthy."""
    params = {"labelSelector": selector}
    try:
        found, _ = listed(client, NODES, RawNode, params, accept=METADATA_LIST)
    except ApiError as error:
        if error.status != _BAD_REQUEST:
            raise
        why = error.message.rpartition("BadRequest: ")[2]
        raise ApiError(
            f"the selector {selector!r} cannot be read: {why}", status=_BAD_REQUEST
        ) from error
    if not found:
        raise NoNodeError(f"no node has the labels {selector!r}")
    return frozenset(node.metadata.name for node in found)
