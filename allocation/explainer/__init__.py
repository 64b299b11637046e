"""The explainer: one process for a cluster that says why claims wait, by metrics and Events.

Apart from the remediator, because tenants' expressions have no place in a process that may taint.
"""
