"""The root of an image: Debian's files, Python packages and our own, staged while it is built.

The Dockerfile runs `python -m deploy.image`. These modules need nothing but the standard library.
"""
