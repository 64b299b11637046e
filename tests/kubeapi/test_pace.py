"""How long a reflector waits after failures."""

from kubeapi.reflector import Pace


def test_the_wait_doubles_and_stays_bounded_however_long_it_lasts() -> None:
    pace = Pace()

    assert [pace.retry_after(failures) for failures in (1, 2, 3)] == [0.25, 0.5, 1.0]
    assert pace.retry_after(5000) == pace.longest_retry
