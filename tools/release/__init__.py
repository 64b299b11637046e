"""`make release`: writes what a release consists of, but for the images, into `dist/`."""
