"""Panels on what GPUs and slices do: heat, power, clocks, use, memory. Pure."""

from dashboards.panel import Panel, Query, TimeSeries
from dashboards.promql import Scope, busy, memory_share, once

_SILENT = "no GPU tells it, or no exporter is heard of"
_GPU = "GPU {{gpu}}"
_DEVICE = "GPU {{gpu}} {{GPU_I_PROFILE}} {{GPU_I_ID}}"
"""Alike for GPUs and slices: of a whole GPU the last two are empty."""
_NUMBER = "gpu"
_PART = "gpu, GPU_I_PROFILE, GPU_I_ID"
"""Without the UUID, by which Prometheus would sort the lines."""
_GAP = "A gap is no value: nothing is drawn as 0 that could not be read."


def _graph(title: str, says: str, unit: str, *queries: Query, most: float | None = None) -> Panel:
    return TimeSeries(
        title=title,
        says=f"{says} {_GAP}",
        unit=unit,
        queries=queries,
        maximum=most,
        width=8,
    )


def panels(scope: Scope) -> tuple[Panel, ...]:
    return (
        _temperature(scope),
        _power(scope),
        _clocks(scope),
        _busy(scope),
        _memory(scope),
        _tensor(scope),
    )


def _temperature(scope: Scope) -> Panel:
    return _graph(
        "Temperature",
        "Of the GPU's core, and of its memory where the board tells it.",
        "celsius",
        _of_gpu("DCGM_FI_DEV_GPU_TEMP", scope, f"{_GPU} core"),
        _of_gpu("DCGM_FI_DEV_MEMORY_TEMP", scope, f"{_GPU} memory"),
    )


def _of_gpu(family: str, scope: Scope, legend: str = _GPU) -> Query:
    return Query(expr=once(_NUMBER, scope.seen(family)), legend=legend, empty=_SILENT)


def _power(scope: Scope) -> Panel:
    says = "Draw of the whole board; slices have none of their own."
    return _graph("Power", says, "watt", _of_gpu("DCGM_FI_DEV_POWER_USAGE", scope))


def _clocks(scope: Scope) -> Panel:
    sm = f"{once(_NUMBER, scope.seen('DCGM_FI_DEV_SM_CLOCK'))} * 1000000"
    memory = f"{once(_NUMBER, scope.seen('DCGM_FI_DEV_MEM_CLOCK'))} * 1000000"
    return _graph(
        "Clocks",
        "Of the SMs and of the memory. What holds them down is in the clock events.",
        "hertz",
        Query(expr=sm, legend=f"{_GPU} SM", empty=_SILENT),
        Query(expr=memory, legend=f"{_GPU} memory", empty=_SILENT),
    )


def _busy(scope: Scope) -> Panel:
    return _graph(
        "Computing",
        "Share of time in which a GPU or slice computed: its engines' own counter, else NVML's "
        "coarser one (which slices do not have). Busy is not efficient: see the tensor pipe.",
        "percentunit",
        Query(expr=busy(scope, by=_PART), legend=_DEVICE, empty=_SILENT),
        most=1,
    )


def _memory(scope: Scope) -> Panel:
    return _graph(
        "Memory in use",
        "Share of the framebuffer of each GPU, or of each slice where there are slices. Compute "
        "instances that share a slice share its memory.",
        "percentunit",
        Query(expr=memory_share(scope, by=_PART), legend=_DEVICE, empty=_SILENT),
        most=1,
    )


def _tensor(scope: Scope) -> Panel:
    tensor = once(_PART, scope.seen("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"))
    return _graph(
        "Tensor pipe",
        "Share of cycles in which the tensor cores worked, by GPU or slice. Needs Hopper or newer, "
        "or DCGM.",
        "percentunit",
        Query(
            expr=tensor,
            legend=_DEVICE,
            empty="the GPUs are older than Hopper and DCGM is not asked",
        ),
        most=1,
    )
