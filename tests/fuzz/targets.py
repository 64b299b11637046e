"""Every target, in the order in which they run."""

from tests.fuzz import (
    cluster_objects,
    dcgm_exporter_config,
    files,
    frames,
    journal_files,
    kernel_lines,
    kubelet_replies,
    pages,
    policy_files,
    quoted_texts,
    reports,
    scrapers,
    vendors,
)
from tests.fuzz.target import Target

TARGETS: tuple[Target, ...] = (
    *kernel_lines.TARGETS,
    *quoted_texts.TARGETS,
    *journal_files.TARGETS,
    *kubelet_replies.TARGETS,
    *cluster_objects.TARGETS,
    *files.TARGETS,
    *dcgm_exporter_config.TARGETS,
    *policy_files.TARGETS,
    *vendors.TARGETS,
    *frames.TARGETS,
    *scrapers.TARGETS,
    *pages.TARGETS,
    *reports.TARGETS,
)


def inputs_of(target: Target, total: int) -> int:
    """Return how many of all inputs are this target's; the shares add up to a thousand."""
    return max(1, total * target.share // sum(entry.share for entry in TARGETS))
