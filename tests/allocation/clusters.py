"""Clusters as Kubernetes objects, drawn so that about half of the claims find no devices."""

from random import Random
from typing import Any

Json = dict[str, Any]
GPU, NIC = "gpu.nvidia.com", "nic.example.com"
ROOT = "resource.kubernetes.io/pcieRoot"
CLASSES: dict[str, tuple[str, ...]] = {
    "gpu": (f'device.driver == "{GPU}"', f'device.attributes["{GPU}"].type == "gpu"'),
    "mig": (f'device.driver == "{GPU}" && device.attributes["{GPU}"].type == "mig"',),
    "nic": (f'device.driver == "{NIC}"',),
    "any": (),
    "fails": (f'device.attributes["{GPU}"].index >= 0',),
}
SELECTORS = (
    f'device.attributes["{GPU}"].index < 2',
    f'device.attributes["{GPU}"].?healthy.orValue(false)',
    f'device.capacity["{GPU}"].memory.isGreaterThan(quantity("30Gi"))',
    f'"index" in device.attributes["{GPU}"]',
    f'device.attributes["{GPU}"].driverVersion.isGreaterThan(semver("570.0.0"))',
    "device.allowMultipleAllocations == true",
)
TAINTS = (
    {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"},
    {"key": "draguard.dev/lost", "value": "xid-79", "effect": "NoExecute"},
    {"key": "draguard.dev/gpu", "value": "xid-95", "effect": "NoSchedule"},
    {"key": "team/hold", "effect": "NoSchedule", "rule": "hold"},
    {"key": "example.com/note", "effect": "None"},
)
TOLERATIONS = (
    {"operator": "Exists"},
    {"key": "draguard.dev/gpu", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "draguard.dev/lost", "value": "xid-79"},
    {"key": "draguard.dev/lost", "operator": "Exists", "effect": "NoSchedule"},
)
POLICIES: tuple[Json, ...] = (
    {},
    {"default": "1Gi"},
    {"default": "2Gi", "validValues": ["1Gi", "2Gi", "4Gi"]},
    {"default": "1Gi", "validRange": {"min": "1Gi", "step": "512Mi", "max": "4Gi"}},
    {"default": "500m", "validRange": {"min": "100m", "step": "300m"}},
)
BINDS_LATE = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
AMOUNTS = ("1Gi", "1500Mi", "3Gi", "5Gi", "100", "400m", "1", "20Gi", "1000500u")


def meta(name: str, **more: Any) -> Json:
    return {"metadata": {"name": name, **more}}


def cluster(seed: int) -> Json:
    """Return nodes, slices, classes, allocated claims, and the claims of one pod that wait."""
    draw = Random(seed)  # noqa: S311 - drawn again from its seed, not secret
    nodes = [
        meta(f"node-{i}", labels={"zone": draw.choice("ab"), "gen": str(draw.randint(1, 3))})
        for i in range(draw.randint(1, 3))
    ]
    slices = [part for node in nodes for part in _gpus(draw, node["metadata"]["name"])]
    if draw.random() < 0.6:
        slices += _nics(draw)
    draw.shuffle(slices)
    return {
        "nodes": nodes,
        "slices": slices,
        "classes": [_class(name, selectors) for name, selectors in CLASSES.items()],
        "claims": _allocated(draw, slices),
        "waiting": [_waiting(draw, f"claim-{i}") for i in range(draw.choice((1, 1, 1, 1, 2)))],
    }


def _class(name: str, selectors: tuple[str, ...]) -> Json:
    return meta(name) | {"spec": {"selectors": [_cel(each) for each in selectors]}}


def _cel(expression: str) -> Json:
    return {"cel": {"expression": expression}}


def _slice(name: str, driver: str, pool: str, generation: int, count: int, **spec: Any) -> Json:
    of_pool = {"name": pool, "generation": generation, "resourceSliceCount": count}
    return meta(name) | {"spec": {"driver": driver, "pool": of_pool, **spec}}


def _gpus(draw: Random, node: str) -> list[Json]:
    """Return the slices of a node's GPUs, some of them in partitions that share counters."""
    devices, sets = list[Json](), list[Json]()
    for index in range(draw.randint(1, 4)):
        gpu = _gpu(draw, index)
        devices.append(gpu)
        if draw.random() < 0.5:
            sets.append({"name": f"set-{index}", "counters": {"slices": {"value": "8"}}})
            gpu["consumesCounters"] = _consumes(index, 8)
            devices += [_partition(draw, index, part) for part in range(draw.randint(1, 3))]
    if draw.random() < 0.05:
        devices.append(dict(devices[0]))
    if sets and draw.random() < 0.1:
        sets.pop()
    generation = draw.randint(1, 3)
    parts = [devices[0::2], devices[1::2]] if draw.random() < 0.5 else [devices]
    contents: list[Json] = [{"devices": part} for part in parts]
    if sets:
        contents.append({"sharedCounters": sets})
    count = len(contents) + (draw.random() < 0.08)
    found = [
        _slice(f"{node}-{draw.randint(0, 99)}-{i}", GPU, node, generation, count, nodeName=node)
        for i in range(len(contents))
    ]
    for given, content in zip(found, contents, strict=True):
        given["spec"] |= content
    if draw.random() < 0.1:
        old = _slice(f"{node}-old", GPU, node, generation - 1, 1, nodeName=node)
        found.append(old | {"spec": old["spec"] | {"devices": [_gpu(draw, 9)]}})
    if draw.random() < 0.08:
        new = _slice(f"{node}-new", GPU, node, generation + 1, 2, nodeName="elsewhere")
        found.append(new | {"spec": new["spec"] | {"devices": [_gpu(draw, 0)]}})
        found[0]["spec"]["pool"]["resourceSliceCount"] = draw.choice((count, count + 1))
        for each in found[1 : len(contents)]:
            each["spec"]["pool"] = dict(found[0]["spec"]["pool"])
    return found


def _gpu(draw: Random, index: int) -> Json:
    attributes: Json = {
        "type": {"string": "gpu"},
        "index": {"int": index},
        "healthy": {"bool": draw.random() < 0.8},
        "driverVersion": {"version": draw.choice(("565.57.1", "580.82.7"))},
        ROOT: {"string": f"pci0000:{index // 2}0"},
    }
    for name in ("index", "driverVersion", ROOT):
        if draw.random() < 0.07:
            del attributes[name]
    return {
        "name": f"gpu-{index}",
        "attributes": attributes,
        "capacity": {"memory": {"value": draw.choice(("24Gi", "80Gi"))}},
        **_taints(draw),
        **(BINDS_LATE if draw.random() < 0.05 else {}),
    }


def _partition(draw: Random, index: int, part: int) -> Json:
    size = draw.choice((1, 2, 4))
    return {
        "name": f"gpu-{index}-mig-{part}",
        "attributes": {
            "type": {"string": "mig"},
            "index": {"int": index},
            "driverVersion": {"version": "580.82.7"},
            ROOT: {"string": f"pci0000:{index // 2}0"},
        },
        "capacity": {"memory": {"value": f"{10 * size}Gi"}},
        "consumesCounters": _consumes(index, size),
        **_taints(draw),
    }


def _consumes(index: int, slices: int) -> list[Json]:
    return [{"counterSet": f"set-{index}", "counters": {"slices": {"value": str(slices)}}}]


def _taints(draw: Random) -> Json:
    return {"taints": [dict(draw.choice(TAINTS))]} if draw.random() < 0.2 else {}


def _nics(draw: Random) -> list[Json]:
    """Return a pool that several nodes see, of devices that claims may share."""
    devices: list[Json] = []
    for index in range(draw.randint(1, 3)):
        policy = draw.choice(POLICIES)
        capacity: Json = {"value": draw.choice(("4Gi", "10Gi"))}
        shared = draw.random() < 0.7
        if policy and shared:
            capacity["requestPolicy"] = policy
        devices.append(
            {
                "name": f"nic-{index}",
                "attributes": {"index": {"int": index}, ROOT: {"string": f"pci0000:{index}0"}},
                "capacity": {"bandwidth": capacity},
                "allowMultipleAllocations": shared,
                **_taints(draw),
            }
        )
    where = draw.randint(0, 2)
    spec: Json = {"devices": devices}
    if where == 0:
        spec["allNodes"] = True
    elif where == 1:
        spec["nodeSelector"] = _node_selector(draw)
    else:
        spec["perDeviceNodeSelection"] = True
        for device in devices:
            device.update(
                draw.choice(
                    (
                        {"allNodes": True},
                        {"nodeName": "node-0"},
                        {"nodeSelector": _node_selector(draw)},
                    )
                )
            )
    return [_slice("nics", NIC, "nics", 1, 1 + (draw.random() < 0.05), **spec)]


def _node_selector(draw: Random) -> Json:
    requirement: Json = draw.choice(
        (
            {"key": "zone", "operator": "In", "values": ["a"]},
            {"key": "zone", "operator": "NotIn", "values": ["a"]},
            {"key": "gen", "operator": "Gt", "values": ["1"]},
            {"key": "gen", "operator": "Lt", "values": ["3"]},
            {"key": "gpu", "operator": "DoesNotExist"},
            {"key": "gen", "operator": "Exists"},
        )
    )
    term: Json = {"matchExpressions": [requirement]}
    if draw.random() < 0.2:
        term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]
    return {"nodeSelectorTerms": [term]}


def _allocated(draw: Random, slices: list[Json]) -> list[Json]:
    """Return claims that hold some of the devices, or shares of them."""
    found: list[Json] = []
    for part in slices:
        for device in part["spec"].get("devices", ()):
            if draw.random() > 0.25:
                continue
            result = {
                "request": "r",
                "driver": part["spec"]["driver"],
                "pool": part["spec"]["pool"]["name"],
                "device": device["name"],
            }
            if device.get("allowMultipleAllocations"):
                number = len(found)
                result["shareID"] = f"00000000-0000-0000-0000-{number:012d}"
                if draw.random() < 0.9:
                    result["consumedCapacity"] = {"bandwidth": draw.choice(("1Gi", "3Gi", "9Gi"))}
            elif draw.random() < 0.1:
                result["adminAccess"] = True
            status = {"allocation": {"devices": {"results": [result]}}}
            found.append(_claim(f"held-{len(found)}", {"devices": {}}) | {"status": status})
    return found


def _claim(name: str, spec: Json) -> Json:
    return meta(name, namespace="team", uid=f"uid-{name}") | {"spec": spec}


def _waiting(draw: Random, name: str) -> Json:
    requests = [_request(draw, f"r{i}") for i in range(draw.choice((1, 1, 1, 2, 2, 3)))]
    names = [each["name"] for each in requests]
    names += [
        f"{each['name']}/{part['name']}"
        for each in requests
        for part in each.get("firstAvailable", ())
    ]
    constraints: list[Json] = []
    while draw.random() < 0.2:
        kind = draw.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
        constraint: Json = {kind: draw.choice((ROOT, f"{GPU}/index", f"{GPU}/type"))}
        if draw.random() < 0.4:
            constraint["requests"] = [draw.choice(names)]
        constraints.append(constraint)
    return _claim(name, {"devices": {"requests": requests, "constraints": constraints}})


def _request(draw: Random, name: str) -> Json:
    if draw.random() < 0.2:
        parts = [{"name": f"s{i}"} | _choice(draw) for i in range(draw.randint(1, 3))]
        return {"name": name, "firstAvailable": parts}
    choice = _choice(draw)
    if draw.random() < 0.1:
        choice["adminAccess"] = True
    return {"name": name, "exactly": choice}


def _choice(draw: Random) -> Json:
    names = ("gpu", "gpu", "gpu", "mig", "mig", "nic", "any", "fails", "gone")
    weights = (18, 18, 18, 12, 12, 12, 12, 1, 1)
    (name,) = draw.choices(names, weights)
    choice: Json = {"deviceClassName": name, "allocationMode": "ExactCount", "count": 1}
    if draw.random() < 0.1:
        choice |= {"allocationMode": "All"}
        del choice["count"]
    elif draw.random() < 0.3:
        choice["count"] = draw.choice((2, 2, 2, 2, 2, 2, 3, 3, 33))
    if draw.random() < 0.25:
        choice["selectors"] = [_cel(draw.choice(SELECTORS))]
    if draw.random() < 0.25:
        choice["tolerations"] = [dict(draw.choice(TOLERATIONS))]
    if draw.random() < (0.7 if name == "nic" else 0.05):
        requested = draw.choice(("bandwidth", "bandwidth", "bandwidth", "lanes"))
        choice["capacity"] = {"requests": {requested: draw.choice(AMOUNTS)}}
    return choice
