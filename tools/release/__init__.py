"""`make release`: writes what a release consists of into `dist/`."""
