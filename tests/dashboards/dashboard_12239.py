"""What dcgm-exporter's own dashboard asks (number 12239 at grafana.com), in both of its forms.

The queries alone, as facts about what a user may have: of the first form (instance and gpu, as
published) and of the one in dcgm-exporter's repository today (Hostname and gpu).
"""

INSTANCE = 'instance=~"$instance", gpu=~"$gpu"'
HOSTNAME = 'Hostname=~"$Hostname", gpu=~"$gpu"'
_SLICE = "Hostname, gpu, GPU_I_ID, GPU_I_PROFILE"

PUBLISHED: tuple[str, ...] = (
    f"DCGM_FI_DEV_GPU_TEMP{{{INSTANCE}}}",
    f"avg(DCGM_FI_DEV_GPU_TEMP{{{INSTANCE}}})",
    f"DCGM_FI_DEV_POWER_USAGE{{{INSTANCE}}}",
    f"sum(DCGM_FI_DEV_POWER_USAGE{{{INSTANCE}}})",
    f"DCGM_FI_DEV_SM_CLOCK{{{INSTANCE}}} * 1000000",
    f"DCGM_FI_DEV_GPU_UTIL{{{INSTANCE}}}",
    f"DCGM_FI_DEV_FB_USED{{{INSTANCE}}}",
    f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{INSTANCE}}}",
)
REPOSITORY: tuple[str, ...] = (
    f"max(DCGM_FI_DEV_GPU_TEMP{{{HOSTNAME}}}) by (Hostname, gpu, uuid)",
    f"avg(DCGM_FI_DEV_GPU_TEMP{{{HOSTNAME}}})",
    f"max(DCGM_FI_DEV_POWER_USAGE{{{HOSTNAME}}}) by (Hostname, gpu, uuid)",
    f"sum(max(DCGM_FI_DEV_POWER_USAGE{{{HOSTNAME}}}) by (gpu))",
    f"max(DCGM_FI_DEV_SM_CLOCK{{{HOSTNAME}}} * 1000000) by (Hostname, UUID, gpu)",
    f"max(DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{HOSTNAME}}}) by ({_SLICE})",
    f"max(DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{HOSTNAME}}}) by ({_SLICE})",
    f"max(DCGM_FI_DEV_FB_USED{{{HOSTNAME}}}) by ({_SLICE})",
)
VARIABLES: tuple[tuple[str, str], ...] = (
    ("DCGM_FI_DEV_GPU_TEMP", "instance"),
    ("DCGM_FI_DEV_GPU_TEMP", "gpu"),
    ("DCGM_FI_DEV_FB_FREE", "Hostname"),
    ("DCGM_FI_DEV_FB_FREE", "gpu"),
)
"""Family and label of each `label_values`."""
