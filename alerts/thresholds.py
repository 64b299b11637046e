"""Every number that an alert compares a value with. Times are in seconds."""

HOUR = 3600
DAY = 24 * HOUR
WEEK = 7 * DAY

NEW_ERROR = HOUR
"""An error this young counts, also after its counter stopped."""
NEW_CONTAINED_ERROR = 600
"""The process of a contained error is gone; after this only its incident counts."""
NEW_LOSS = DAY
"""A GPU that has been lost for longer was taken out or given up."""
LAST_PAGE = WEEK
"""A node whose exporter was scraped within this time and that exists should still have one."""
LAST_REPORT = DAY
"""The same for all exporters of a cluster."""
OLD_READINGS = 300
APPLICATION_ERRORS = 3
"""Times at which programs failed by themselves, within an hour."""
IDLE_UTILIZATION = 0.01
WATCH_AGE = 150
"""The remediator itself does not trust an older watch."""
QUEUE_AGE = 120
PENDING_CLAIM = 900
UNBOUND_CLAIM = 900
"""The scheduler itself gives up after ten minutes."""
UNPREPARED_CLAIM = 900
DELETED_CLAIM = HOUR
LOOK_AGE = 300
"""The explainer's own probe fails at the same age."""
REASON_AGE = 600
RESTART = 600
"""A GPU that was lost before its exporter restarted counts for this long after."""
FABRIC_JOINED = 3
"""NVML_GPU_FABRIC_STATE_COMPLETED; 0 is a GPU without such a fabric."""
LONGEST_PHASE = {
    "Evicting": HOUR,
    "Tainted": DAY,
    "Drained": DAY,
    "Repairing": DAY,
    "Verifying": 2 * HOUR,
}
"""After this an incident is stuck.

Suspected is not here: a GPU that should be tainted and is not has its own alert, and the others
wait for nothing. A soak time above two hours needs a higher limit."""
