"""What the demo reads from a metrics page."""

from tests.exporter.running import free_port
from tools.demo.watching import page, xid_counts

PAGE = """\
# TYPE draguard_xid_errors_total counter
draguard_xid_errors_total{gpu="0",UUID="GPU-a",Hostname="node-a",pod="x{y}",code="94",gi="5"} 2
draguard_xid_errors_total{gpu="0",UUID="GPU-a",Hostname="node-a",code="94"} 1
draguard_xid_errors_total{gpu="1",UUID="GPU-b",Hostname="node-a",code="13"} 5
DCGM_FI_DEV_XID_ERRORS{gpu="1",UUID="GPU-b",err_code="13"} 13
"""


def test_xids_are_counted_by_gpu_and_code_over_all_instances() -> None:
    assert xid_counts(PAGE) == {("GPU-a", 94): 3, ("GPU-b", 13): 5}


def test_a_page_that_nobody_serves_counts_nothing() -> None:
    assert page(free_port()) == ""
    assert xid_counts("") == {}
