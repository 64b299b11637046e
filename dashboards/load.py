"""Panels on what GPUs and slices do: heat, power, clocks, use, memory. Pure."""

from dashboards.panel import Panel, Query, TimeSeries
from dashboards.promql import Scope, busy, memory_share, once

_SILENT = "no GPU reports it, or no exporter data"
_GPU = "GPU {{gpu}}"
_DEVICE = "GPU {{gpu}} {{GPU_I_PROFILE}} {{GPU_I_ID}}"
"""Alike for GPUs and slices: of a whole GPU the last two are empty."""
_NUMBER = "gpu"
_PART = "gpu, GPU_I_PROFILE, GPU_I_ID"
"""Without the UUID, by which Prometheus would sort the lines."""
_GAP = "A gap means that no value was read; missing values are not drawn as 0."


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
        "Temperature of the GPU core, and of the memory where the board reports it.",
        "celsius",
        _of_gpu("DCGM_FI_DEV_GPU_TEMP", scope, f"{_GPU} core"),
        _of_gpu("DCGM_FI_DEV_MEMORY_TEMP", scope, f"{_GPU} memory"),
    )


def _of_gpu(family: str, scope: Scope, legend: str = _GPU) -> Query:
    return Query(expr=once(_NUMBER, scope.seen(family)), legend=legend, empty=_SILENT)


def _power(scope: Scope) -> Panel:
    text = "Power draw of the whole board. Slices have no value of their own."
    return _graph("Power", text, "watt", _of_gpu("DCGM_FI_DEV_POWER_USAGE", scope))


def _clocks(scope: Scope) -> Panel:
    sm = f"{once(_NUMBER, scope.seen('DCGM_FI_DEV_SM_CLOCK'))} * 1000000"
    memory = f"{once(_NUMBER, scope.seen('DCGM_FI_DEV_MEM_CLOCK'))} * 1000000"
    return _graph(
        "Clocks",
        "Clocks of the SMs and of the memory. See Throttling for what limits them.",
        "hertz",
        Query(expr=sm, legend=f"{_GPU} SM", empty=_SILENT),
        Query(expr=memory, legend=f"{_GPU} memory", empty=_SILENT),
    )


def _busy(scope: Scope) -> Panel:
    return _graph(
        "GPU utilization",
        "Share of time in which a GPU or slice was busy: its engine activity counter, else NVML's "
        "coarser value, which slices do not have. Busy does not mean efficient: see Tensor core "
        "utilization.",
        "percentunit",
        Query(expr=busy(scope, by=_PART), legend=_DEVICE, empty=_SILENT),
        most=1,
    )


def _memory(scope: Scope) -> Panel:
    return _graph(
        "Memory used",
        "Used share of the framebuffer of each GPU, or of each slice of a partitioned GPU. "
        "Compute instances in one slice share its memory.",
        "percentunit",
        Query(expr=memory_share(scope, by=_PART), legend=_DEVICE, empty=_SILENT),
        most=1,
    )


def _tensor(scope: Scope) -> Panel:
    tensor = once(_PART, scope.seen("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"))
    return _graph(
        "Tensor core utilization",
        "Share of cycles in which the tensor cores were active, by GPU or slice. Requires Hopper "
        "or newer, or DCGM.",
        "percentunit",
        Query(
            expr=tensor,
            legend=_DEVICE,
            empty="the GPUs are older than Hopper and DCGM is not used",
        ),
        most=1,
    )
