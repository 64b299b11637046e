"""Why a claim waits: what it requests, who has the devices, what is left, and why not for this one.

Pure at its core: ResourceSlices, DeviceClasses, claims, pods and nodes in, reasons out. Only
`selectors/` runs anything: the CEL expressions of tenants, in a process of their own.
"""
