"""The kubelet's PodResources v1 messages, as a table turned into protobuf classes.

For code that plays the kubelet. The sensor itself reads replies without protobuf
(`exporter.sensor.kubelet.podresources_wire`), and the tests compare the two.
Field names and numbers are those of k8s.io/kubelet/pkg/apis/podresources/v1;
only what the API says about devices is listed, protobuf skips the rest. No
generated code and no call happens here.
"""
# pyright: basic
# Reason: protobuf builds the classes at run time, no stub can know them.

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from exporter.sensor.kubelet import podresources_wire

SERVICE = podresources_wire.SERVICE
LIST_METHOD = podresources_wire.LIST_METHOD
MAX_RECEIVE_BYTES = podresources_wire.MAX_RECEIVE_BYTES

_PACKAGE = "v1"
_STRING, _INT64, _UINT64, _MESSAGE = (
    descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    descriptor_pb2.FieldDescriptorProto.TYPE_UINT64,
    descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE,
)
_SCALARS = {"string": _STRING, "int64": _INT64, "uint64": _UINT64}

_MESSAGES: dict[str, tuple[tuple[int, str, str], ...]] = {
    "ListPodResourcesRequest": (),
    "ListPodResourcesResponse": ((1, "pod_resources", "*PodResources"),),
    "GetPodResourcesRequest": ((1, "pod_name", "string"), (2, "pod_namespace", "string")),
    "GetPodResourcesResponse": ((1, "pod_resources", "PodResources"),),
    "AllocatableResourcesRequest": (),
    "AllocatableResourcesResponse": (
        (1, "devices", "*ContainerDevices"),
        (2, "cpu_ids", "*int64"),
        (3, "memory", "*ContainerMemory"),
    ),
    "PodResources": (
        (1, "name", "string"),
        (2, "namespace", "string"),
        (3, "containers", "*ContainerResources"),
        (4, "cpu_ids", "*int64"),
        (5, "memory", "*ContainerMemory"),
    ),
    "ContainerResources": (
        (1, "name", "string"),
        (2, "devices", "*ContainerDevices"),
        (3, "cpu_ids", "*int64"),
        (4, "memory", "*ContainerMemory"),
        (5, "dynamic_resources", "*DynamicResource"),
    ),
    "ContainerMemory": (
        (1, "memory_type", "string"),
        (2, "size", "uint64"),
        (3, "topology", "TopologyInfo"),
    ),
    "ContainerDevices": (
        (1, "resource_name", "string"),
        (2, "device_ids", "*string"),
        (3, "topology", "TopologyInfo"),
    ),
    "TopologyInfo": ((1, "nodes", "*NUMANode"),),
    "NUMANode": ((1, "ID", "int64"),),
    "DynamicResource": (
        (2, "claim_name", "string"),
        (3, "claim_namespace", "string"),
        (4, "claim_resources", "*ClaimResource"),
    ),
    "ClaimResource": (
        (1, "cdi_devices", "*CDIDevice"),
        (2, "driver_name", "string"),
        (3, "pool_name", "string"),
        (4, "device_name", "string"),
        (5, "share_id", "?string"),
    ),
    "CDIDevice": ((1, "name", "string"),),
}
"""Message to (number, name, type) of its fields; `*` is repeated, `?` may be absent."""


def _add_field(message: descriptor_pb2.DescriptorProto, number: int, name: str, kind: str) -> None:
    field = message.field.add(name=name, number=number)
    field.label = field.LABEL_REPEATED if kind.startswith("*") else field.LABEL_OPTIONAL
    if kind.startswith("?"):
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
    kind = kind.lstrip("*?")
    field.type = _SCALARS.get(kind, _MESSAGE)
    if field.type == _MESSAGE:
        field.type_name = f".{_PACKAGE}.{kind}"


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="draguard/podresources_v1.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field, kind in fields:
            _add_field(message, number, field, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _MESSAGES
    }


_BUILT = _classes()
ListPodResourcesRequest = _BUILT["ListPodResourcesRequest"]
ListPodResourcesResponse = _BUILT["ListPodResourcesResponse"]
GetPodResourcesRequest = _BUILT["GetPodResourcesRequest"]
GetPodResourcesResponse = _BUILT["GetPodResourcesResponse"]
AllocatableResourcesRequest = _BUILT["AllocatableResourcesRequest"]
AllocatableResourcesResponse = _BUILT["AllocatableResourcesResponse"]
PodResources = _BUILT["PodResources"]
ContainerResources = _BUILT["ContainerResources"]
ContainerMemory = _BUILT["ContainerMemory"]
ContainerDevices = _BUILT["ContainerDevices"]
TopologyInfo = _BUILT["TopologyInfo"]
NUMANode = _BUILT["NUMANode"]
DynamicResource = _BUILT["DynamicResource"]
ClaimResource = _BUILT["ClaimResource"]
CDIDevice = _BUILT["CDIDevice"]
