"""Where the API server serves what several packages read: one place, which imports nothing."""

NODES = "/api/v1/nodes"
REPORTS = "/apis/draguard.dev/v1alpha1/nodedevicehealths"
INCIDENTS = "/apis/draguard.dev/v1alpha1/deviceincidents"
