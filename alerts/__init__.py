"""Rules, pages and runbooks as code: `python -m alerts` writes what Prometheus reads."""
